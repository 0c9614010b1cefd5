"""Location of a repository's index. This module does not import the database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pipeline.git.repository import Repository
from stores.index_location import IndexLocation, find_location, resolve_location


def locate_index(home: Path, repository: Repository) -> IndexLocation:
    """Return the location of the repository's index, which need not exist yet."""
    return resolve_location(home, repository.canonical_path, *_build_identity_checks(repository))


def find_index(home: Path, repository: Repository) -> IndexLocation | None:
    """Return the location of the repository's index, or None if it has none.

    If there is no index, this is faster than `locate_index`, which reads the repository's first commit.
    """
    return find_location(home, repository.canonical_path, *_build_identity_checks(repository))


def _build_identity_checks(repository: Repository) -> tuple[Callable[[], str | None], Callable[[str], bool]]:
    """Return two functions that identify the repository: for its first commit, and to check for a commit."""
    head = repository.read_head()
    return lambda: repository.find_root_commit(head) if head else None, repository.contains
