"""Entry point of `lineage`, with a fast path for index runs started by git hooks.

If another index run is already queued for the work tree, the hook's run exits before heavy imports. This takes 0.05 s
of CPU time, parsing the command line 0.3 s, and commits may come faster than that. In doubt, the command runs.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from pipeline.git.git_dir import resolve_common_dir
from serve import config, process
from stores import index_location, locks

ALREADY_QUEUED_MESSAGE: Final = "another `lineage index` is already waiting to index the new commits"
# Command line of the installed git hooks.
HOOK_ARGUMENTS: Final = ["index", "--incremental", "--embed-provider", "cpu"]


def main() -> int:
    """Run the `lineage` program and return its exit code."""
    process.use_default_sigint()
    process.configure_streams()
    if sys.argv[1:] == HOOK_ARGUMENTS and is_index_run_queued(Path()):
        print(ALREADY_QUEUED_MESSAGE)  # noqa: T201 - this runs before the CLI is imported
        return 0
    from serve.cli.app import main as command

    return command()


def is_index_run_queued(root: Path) -> bool:
    """Check for a queued index run of the work tree at `root`, without heavy imports; False if unsure."""
    with suppress(OSError, ValueError):
        git_dir = _find_git_dir(root)
        locations = list(index_location.find_by_path(config.load_settings().home, _canonical_path(git_dir)))
        return len(locations) == 1 and locks.is_run_queued(locations[0], git_dir)
    return False


def _find_git_dir(root: Path) -> Path:
    """Return the work tree's git directory; hooks run at the root, so `.git` is there."""
    git = root / ".git"
    target = git.read_text(encoding="utf-8").removeprefix("gitdir: ").strip() if git.is_file() else ""
    return (root / target if target else git).resolve()


def _canonical_path(git_dir: Path) -> Path:
    """Return the repository path that the index location was derived from."""
    common = resolve_common_dir(git_dir)
    return common.parent if common.name == ".git" else common


if __name__ == "__main__":
    sys.exit(main())
