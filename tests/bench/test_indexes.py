"""What is said of an index is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from stores import database
from tests.bench import indexes
from tests.repos import Repo
from tests.serve.sample_index import index


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    for number in range(6):
        repo.commit_file("a.py", f"def number_{number}():\n    return {number}\n")
    return repo


def test_fingerprint_is_of_content(repo: Repo, tmp_path: Path) -> None:
    """An index grown in two steps has the fingerprint of one made at once; another content has another."""
    index(repo, tmp_path / "once")
    index(repo, tmp_path / "steps", upto="HEAD~3")
    before = indexes.fingerprint(repo.path, tmp_path / "steps")
    index(repo, tmp_path / "steps")
    once, steps = (indexes.fingerprint(repo.path, tmp_path / name) for name in ("once", "steps"))
    assert once == steps
    assert {name for name in once if before[name] != once[name]} >= {"commits", "hunks", "hunk_postings"}


def test_room_and_shares(repo: Repo, tmp_path: Path) -> None:
    """The tables fit into the file; every text hunk of a language is counted once, every text told once."""
    index(repo, tmp_path / "home")
    with database.writing(indexes.place(repo.path, tmp_path / "home")) as connection:
        connection.execute("CHECKPOINT")
    room = indexes.room(repo.path, tmp_path / "home")
    assert 0 < room["bytes"].sum() <= indexes.size(repo.path, tmp_path / "home")
    shares = indexes.symbol_shares(repo.path, tmp_path / "home")
    assert shares.row(0) == ("python", 6, 100.0, 0.0, 0.0)
    # Six hunks and the message all commits have.
    assert len(indexes.texts(repo.path, tmp_path / "home")) == 7
