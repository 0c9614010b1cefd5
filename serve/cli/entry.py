"""Whether a run waits already that will take up what is new, found out before anything is loaded.

Where the program starts: a run that a hook started leaves here when it is not needed, before anything is loaded.

Commits may follow each other faster than a run reads its command line: 0.3 s of a processor, against 0.05 s for
this. Everything else, and every doubt, goes on to the command.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from pipeline.git.git_dir import common_dir
from serve import config, process
from stores import index_location, locks

LEAVES: Final = "another `lineage index` waits to take up what is new"


def another_waits(root: Path) -> bool:
    """Whether a run waits already that will see what is new in the work tree; False when that is not sure."""
    with suppress(OSError, ValueError):
        git_dir = _git_dir(root)
        known = list(index_location.under_path(config.read().home, _canonical(git_dir)))
        return len(known) == 1 and locks.is_awaited(known[0], git_dir)
    return False


def _git_dir(root: Path) -> Path:
    """The work tree's git directory, found without asking git: where a hook runs, `.git` is there."""
    git = root / ".git"
    said = git.read_text(encoding="utf-8").removeprefix("gitdir: ").strip() if git.is_file() else ""
    return (root / said if said else git).resolve()


def _canonical(git_dir: Path) -> Path:
    """What git calls the repository."""
    common = common_dir(git_dir)
    return common.parent if common.name == ".git" else common


# As our hooks write it.
HOOKS_WORDS: Final = ["index", "--incremental", "--embed-provider", "cpu"]


def main() -> int:
    """Run the program."""
    process.at_once()
    process.ready()
    if sys.argv[1:] == HOOKS_WORDS and another_waits(Path()):
        print(LEAVES)  # noqa: T201 - why it did nothing
        return 0
    from serve.cli.app import main as command

    return command()


if __name__ == "__main__":
    sys.exit(main())
