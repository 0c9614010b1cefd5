"""Where git looks for a repository's hooks, and what lies inside the repository.

Nothing outside it is written to. A folder of hooks that many repositories share would start an index of each of
them; a file that a link leads to may be anybody's.
"""

from __future__ import annotations

import os
from pathlib import Path

from pipeline.git.repository import Repository
from stores.errors import LineageError


class OutsideRepository(LineageError):
    """A hook, or the file for agents, lies where other repositories may use it too."""


class BareRepository(LineageError):
    """Nobody commits in a repository without a work tree, so no hook would run."""


def hooks_folder(repository: Repository) -> Path:
    """Where git looks for the hooks of this work tree; OutsideRepository when that is not in the repository."""
    if repository.is_bare:
        raise BareRepository(
            f"{repository.root} is a bare repository: nobody commits in it, so its hooks would never run.",
            hint="Run `lineage index --incremental` after each fetch or push, or `lineage init` in a work tree of it.",
        )
    said = configured(repository)
    folder = repository.common_dir / "hooks" if said is None else _meant(said, repository)
    if said == "" or not contains(repository, folder):
        raise _elsewhere(folder, said)
    return folder


def configured(repository: Repository) -> str | None:
    """`core.hooksPath`, where it is set."""
    return dict(repository.configuration).get("core.hookspath")


def contains(repository: Repository, path: Path) -> bool:
    """Whether the path, all links followed, lies in the work tree or in git's own folder."""
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(place) for place in (repository.root, repository.common_dir))


def check_own(repository: Repository, file: Path, refused: type[LineageError], *, by_hand: str) -> None:
    """Refuse a file that is anybody's, or no file; `by_hand` is what a person can add to it themselves."""
    if not contains(repository, file):
        raise OutsideRepository(
            f"{file} is a link to {os.path.realpath(file)}, outside this repository.",
            hint=f"Put a file of this repository's own there, or add {by_hand} by hand.",
        )
    if os.path.lexists(file) and not file.is_file():
        raise refused(f"{file} is no file, or a link to none.", hint="Take it away, then try again.")


def _meant(said: str, repository: Repository) -> Path:
    try:
        path = Path(said).expanduser()
    except RuntimeError:  # nobody's home
        path = Path(said)
    return repository.root / path  # where git stands when it runs a hook


def _elsewhere(folder: Path, said: str | None) -> OutsideRepository:
    because = f"core.hooksPath is '{said}'" if said is not None else "the folder is a link"
    return OutsideRepository(
        f"git looks for hooks in {folder}, outside this repository ({because}): others may use them too.",
        hint="Give this repository hooks of its own with `git config --local core.hooksPath .git/hooks` (the others "
        'then no longer run here), or call "lineage index --incremental" from your own hook. '
        "`git config --show-origin core.hooksPath` says where it is set.",
    )
