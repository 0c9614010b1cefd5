"""Whether the repository of an index is still where the index says.

A folder that is not there may be deleted, or on a disk that is not there today. The difference cannot be known, only
guessed by what is around it: so a guess is not enough to delete anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.git.refusals import NotARepository
from pipeline.git.repository import Repository, open_repository
from serve.placing import existing_place
from stores.errors import LineageError
from stores.places import Place

# Where systems put disks that come and go.
MOUNTS: Final = tuple(map(Path, ("/media", "/mnt", "/run/media", "/Volumes", "/net", "/autofs")))


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of the repository: `reason` is empty where it is still there; `sure` that it will not come back."""

    reason: str = ""
    sure: bool = False
    repository: Repository | None = None


def fate(place: Place) -> Fate:
    """What became of the repository of an index."""
    try:
        if not place.path.exists():
            return _absent(place.path)
        return _found(place, open_repository(place.path))
    except NotARepository:
        return Fate("there is no repository any more", sure=_has_something(place.path))
    except (LineageError, OSError):  # it is there, and why it cannot be read is another command's matter
        return Fate()


def _found(place: Place, repository: Repository) -> Fate:
    if repository.canonical != place.path:
        return Fate("there is no repository any more", sure=_has_something(place.path))
    current = existing_place(place.home, repository)
    if current is None or current.repo_id != place.repo_id:
        return Fate("another repository is there now", sure=True)
    return Fate(repository=repository)


def _absent(path: Path) -> Fate:
    if any(path.is_relative_to(mount) for mount in MOUNTS):
        return Fate(f"{path} is not there; its disk may not be mounted")
    if path.parent == Path(path.anchor) or not path.parent.is_dir() or not _has_something(path.parent):
        return Fate(f"{path.parent} is not there, or empty; its disk may not be mounted")
    return Fate("the repository was deleted or moved", sure=True)


def _has_something(folder: Path) -> bool:
    """An empty folder may be one that a disk is mounted on."""
    return any(folder.iterdir())
