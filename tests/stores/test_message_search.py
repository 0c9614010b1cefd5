"""Messages and their vectors, by commit: all at hand, or those that are asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.git.repository import open_repository
from serve.repositories import place_of
from stores import database, vector_search
from tests.repos import Repo
from tests.serve.sample_index import index


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a\n", message="Add a file")
    repo.commit_file("b.py", "b\n", message="Add a socket\n\n" + "It is long. " * 1_000)
    repo.git("commit", "--allow-empty", "--allow-empty-message", "-m", "")
    return repo


def test_all_or_some(repo: Repo, home: Path) -> None:
    """A commit's message and vector are the same either way; a long message is cut, an empty one has no vector."""
    index(repo, home)
    shas = repo.git("log", "--format=%H").split()
    with database.reading(place_of(home, open_repository(repo.path))) as connection:
        kept = vector_search.every(connection)
        read = vector_search.some(connection, shas)
    assert kept is not None and kept.bytes > 3 * 384 * 4
    for way in (kept, read):
        texts = way.texts_of(shas)
        assert [text.split("\n")[0] for text in texts] == ["", "Add a socket", "Add a file"]
        assert len(texts[1]) == vector_search.LONGEST_READ
        assert [bool(row.any()) for row in way.vectors_of(shas)] == [False, True, True]
    assert np.array_equal(kept.vectors_of(shas), read.vectors_of(shas))


def test_too_many_to_keep(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long history none are kept, and those of a few commits can still be read."""
    index(repo, home)
    monkeypatch.setattr(vector_search, "MOST_KEPT", 1)
    with database.reading(place_of(home, open_repository(repo.path))) as connection:
        assert vector_search.every(connection) is None
        assert vector_search.some(connection, [repo.head]).texts_of([repo.head]) == [""]
        assert vector_search.some(connection, []).places == {}
