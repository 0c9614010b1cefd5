"""What small real repositories changed, for tests of hunks and of merges."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pipeline.git.repository import open_repository
from pipeline.hunks import Changed, Hunk, hunks
from tests.repos import Repo


def begun(path: Path) -> Repo:
    """A repository whose first commit has one file of twenty lines."""
    made = Repo.create(path)
    made.write("a.py", "".join(f"line {n}\n" for n in range(1, 21)))
    made.commit("First")
    return made


def none(path: str) -> bool:
    del path
    return False


def changed(repo: Repo, sha: str = "HEAD") -> Changed:
    return hunks(open_repository(repo.path), repo.git("rev-parse", sha), none)


def only(repo: Repo, sha: str = "HEAD") -> Hunk:
    [hunk] = changed(repo, sha).hunks
    return hunk


def summary(found: Sequence[Hunk]) -> list[tuple[str, str, str, int, int]]:
    return [(h.file_path, h.change_kind, h.content_kind, h.added_lines, h.removed_lines) for h in found]


@contextmanager
def scratch() -> Iterator[Repo]:
    with tempfile.TemporaryDirectory() as folder:
        yield Repo.create(Path(folder) / "work")
