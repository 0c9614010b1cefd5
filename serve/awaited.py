"""Whether a run waits already that will take up what is new, found out before anything is loaded."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from pipeline.git import layout
from serve import settings
from stores import places, runs

LEAVES: Final = "another `lineage index` waits to take up what is new"


def another_waits(root: Path) -> bool:
    """Whether a run waits already that will see what is new in the work tree; False when that is not sure."""
    with suppress(OSError, ValueError):
        git_dir = _git_dir(root)
        known = list(places.under_path(settings.read().home, _canonical(git_dir)))
        return len(known) == 1 and runs.is_awaited(known[0], git_dir)
    return False


def _git_dir(root: Path) -> Path:
    """The work tree's git directory, found without asking git: where a hook runs, `.git` is there."""
    git = root / ".git"
    said = git.read_text(encoding="utf-8").removeprefix("gitdir: ").strip() if git.is_file() else ""
    return (root / said if said else git).resolve()


def _canonical(git_dir: Path) -> Path:
    """What git calls the repository."""
    common = layout.common_dir(git_dir)
    return common.parent if common.name == ".git" else common
