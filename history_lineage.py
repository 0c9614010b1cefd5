"""Console scripts `lineage`, `lineage-mcp` and `mindmap`.

Each script prepares the process before it imports the command, which is slow. The packages of this program have common
names (`serve`, `pipeline`, `stores`). If the user's PYTHONPATH has packages with these names, or with the names of
dependencies, neither this process nor its child processes must import them instead.
"""

from __future__ import annotations

import os
import sys


def lineage() -> int:
    """Run `lineage` and return its exit code."""
    prepare_process()
    from serve.cli.entry import main

    return main()


def lineage_mcp() -> None:
    """Run `lineage-mcp`."""
    prepare_process()
    from serve.mcp.relay import main

    main()


def mindmap() -> int:
    """Run `mindmap` and return its exit code."""
    prepare_process()
    if sys.argv[1:] == ["mcp"]:  # importing the command line would take most of the start-up time
        from serve.mcp.relay import serve_mindmap

        serve_mindmap()
        return 0
    from serve.cli.mindmap import main

    return main()


def prepare_process() -> None:
    """Give the user's paths the lowest priority, and let Ctrl-C end this process without a traceback."""
    demote_user_paths()
    remove_relative_path_entries()
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def remove_relative_path_entries() -> None:
    """Remove empty and relative entries from PATH.

    They name directories in the working directory, which may be a repository of somebody else with a program `git`.
    """
    entries = filter(os.path.isabs, os.environ.get("PATH", "").split(os.pathsep))
    os.environ["PATH"] = os.pathsep.join(entries) or os.defpath


def demote_user_paths() -> None:
    """Move the entries of PYTHONPATH behind all others, and hide PYTHONPATH from child processes.

    Empty and relative entries are removed, because they name directories in the working directory, which may be a
    repository of somebody else. If this program itself was found through PYTHONPATH, the variable keeps that entry.
    """
    python_path = os.environ.pop("PYTHONPATH", "")
    entries = python_path.split(os.pathsep) if python_path else []
    program_directory = os.path.dirname(os.path.abspath(__file__))
    user_paths = {os.path.abspath(entry) for entry in entries if os.path.isabs(entry)}
    relative_paths = {os.path.abspath(entry) for entry in entries} - user_paths - {program_directory}
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) not in relative_paths]
    sys.path.sort(key=lambda entry: entry in user_paths)  # a stable sort
    if program_directory in map(os.path.abspath, entries):
        os.environ["PYTHONPATH"] = program_directory
    # Child processes do not import from their working directory.
    os.environ["PYTHONSAFEPATH"] = "1"
