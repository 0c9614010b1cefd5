"""Small real repositories and their hunks, for tests of hunks and merges."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pipeline.git.repository import open_repository
from pipeline.hunks import CommitChanges, Hunk, extract_hunks
from tests.repos import Repo


def create_repo(path: Path) -> Repo:
    """Create a repository whose only commit adds `a.py`, a file of twenty lines."""
    repo = Repo.create(path)
    repo.write("a.py", "".join(f"line {n}\n" for n in range(1, 21)))
    repo.commit("First")
    return repo


def ignore_nothing(path: str) -> bool:
    del path
    return False


def extract_changes(repo: Repo, sha: str = "HEAD") -> CommitChanges:
    return extract_hunks(open_repository(repo.path), repo.git("rev-parse", sha), ignore_nothing)


def extract_only_hunk(repo: Repo, sha: str = "HEAD") -> Hunk:
    [hunk] = extract_changes(repo, sha).hunks
    return hunk


def summarize_hunks(hunks: Sequence[Hunk]) -> list[tuple[str, str, str, int, int]]:
    """Return path, change kind, content kind, added and removed lines of each hunk."""
    return [(h.file_path, h.change_kind, h.content_kind, h.added_lines, h.removed_lines) for h in hunks]


@contextmanager
def create_temporary_repo() -> Iterator[Repo]:
    """Create an empty repository that is deleted at the end of the `with` statement."""
    with tempfile.TemporaryDirectory() as directory:
        yield Repo.create(Path(directory) / "work")
