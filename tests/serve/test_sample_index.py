"""Indexes of tests are copied only if they would be built the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from serve.repositories import locate_index
from stores import database
from tests.repos import Repo
from tests.serve.sample_index import build_index


@pytest.mark.parametrize(
    ("file", "content"),
    [(".lineageignore", "b.py\n"), (".git/info/attributes", "b.py linguist-generated\n")],
    ids=["ignore file", "attributes"],
)
def test_index_with_other_ignore_rules_is_no_copy(
    repo: Repo, tmp_path: Path, file: str, content: str
) -> None:
    """Rules that are not committed count, too: the index of the same commits with other rules lacks a file."""
    assert list_paths(repo, tmp_path / "all") == ["a.py", "b.py"]
    (repo.path / file).parent.mkdir(exist_ok=True)
    (repo.path / file).write_text(content)
    assert list_paths(repo, tmp_path / "ignored") == ["a.py"]
    (repo.path / file).unlink()
    assert list_paths(repo, tmp_path / "all again") == ["a.py", "b.py"]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """Repository of two files."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a = 1\n", "Add a")
    repo.commit_file("b.py", "b = 1\n", "Add b")
    return repo


def list_paths(repo: Repo, home: Path) -> list[str]:
    """Build an index in a new home, and return the paths that it has."""
    build_index(repo, home)
    location = locate_index(home, open_repository(repo.path))
    with database.open_for_reading(location) as connection:
        rows = connection.execute("SELECT DISTINCT file_path FROM hunks ORDER BY file_path").fetchall()
    return [path for (path,) in rows]
