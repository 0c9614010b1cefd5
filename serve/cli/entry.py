"""Entry point of `lineage`, with a fast path for index runs started by git hooks.

If another index run is already queued for the work tree, the hook's run exits before heavy imports, because scripts may
commit several times per second. The check takes 0.05 s of CPU time, while parsing the command line takes 0.3 s. If it
is unclear whether a run is queued, the hook's run continues.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from pipeline.git.git_dir import resolve_common_dir
from serve import config, process
from stores import errors, index_location, locks

ALREADY_QUEUED_MESSAGE: Final = (
    "nothing to do: another `lineage index` is waiting and will index the new commits"
)
# Arguments with which the installed git hooks call `lineage`.
HOOK_ARGUMENTS: Final = ["index", "--incremental", "--embed-provider", "cpu"]


def main() -> int:
    """Run the `lineage` program and return its exit code."""
    process.configure_streams()
    if sys.argv[1:] == HOOK_ARGUMENTS and is_index_run_queued(Path()):
        print(ALREADY_QUEUED_MESSAGE)  # noqa: T201 - this runs before the CLI is imported
        return 0
    try:
        from serve.cli.app import main as command
    except (ImportError, MemoryError) as error:
        if failure := errors.from_memory_error(error):
            print(f"error: {failure}", file=sys.stderr)  # noqa: T201 - this runs before the CLI is imported
            return 1
        raise
    return command()


def is_index_run_queued(root: Path) -> bool:
    """Check for a queued index run of the work tree at `root`, without heavy imports.

    Return False if the repository has no index or several, or if a file cannot be read.
    """
    with suppress(OSError, ValueError):
        git_dir = _find_git_dir(root)
        locations = list(
            index_location.find_by_path(config.load_settings().home, _resolve_repository_path(git_dir))
        )
        return len(locations) == 1 and locks.is_run_queued(locations[0], git_dir)
    return False


def _find_git_dir(root: Path) -> Path:
    """Return the git directory of the work tree at `root`. In a linked work tree, `.git` is a file with this path."""
    git_entry = root / ".git"
    if git_entry.is_file() and (text := git_entry.read_text(encoding="utf-8").strip()):
        return (root / text.removeprefix("gitdir: ")).resolve()
    return git_entry.resolve()


def _resolve_repository_path(git_dir: Path) -> Path:
    """Return the path of the repository in its index: the main work tree, or the git directory if it is bare."""
    common_dir = resolve_common_dir(git_dir)
    return common_dir.parent if common_dir.name == ".git" else common_dir


if __name__ == "__main__":
    sys.exit(main())
