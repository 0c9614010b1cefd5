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
    """Create a repository whose first commit has one file of twenty lines."""
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


def summarize(found: Sequence[Hunk]) -> list[tuple[str, str, str, int, int]]:
    return [(h.file_path, h.change_kind, h.content_kind, h.added_lines, h.removed_lines) for h in found]


@contextmanager
def temporary_repo() -> Iterator[Repo]:
    with tempfile.TemporaryDirectory() as folder:
        yield Repo.create(Path(folder) / "work")
