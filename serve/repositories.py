"""Where the index of a repository lives; apart from what is in it, so that asking loads no database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pipeline.git.repository import Repository
from stores.index_location import Place, existing, locate


def place_of(home: Path, repository: Repository) -> Place:
    """Where the repository's index lives or would live."""
    return locate(home, repository.canonical, *_evidence(repository))


def existing_place(home: Path, repository: Repository) -> Place | None:
    """Where the repository's index lives; None, sooner than `place_of` could say where it would, without one."""
    return existing(home, repository.canonical, *_evidence(repository))


def _evidence(repository: Repository) -> tuple[Callable[[], str | None], Callable[[str], bool]]:
    """What tells a repository from another under the same path: its first commit, and which commits it has."""
    head = repository.head()
    return lambda: repository.first_commit(head) if head else None, repository.contains
