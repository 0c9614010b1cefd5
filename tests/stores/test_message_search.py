"""Commit messages and their vectors: all in memory, or loaded for some commits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.git.repository import open_repository
from serve.repositories import locate_index
from stores import database, vector_search
from tests.repos import Repo
from tests.serve.sample_index import build_index


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a\n", message="Add a file")
    repo.commit_file("b.py", "b\n", message="Add a socket\n\n" + "It is long. " * 1_000)
    repo.git("commit", "--allow-empty", "--allow-empty-message", "-m", "")
    return repo


def test_all_or_some_messages(repo: Repo, home: Path) -> None:
    """Message and vector of a commit are the same either way; a long message is cut, an empty one has no vector."""
    build_index(repo, home)
    shas = repo.git("log", "--format=%H").split()
    with database.open_for_reading(locate_index(home, open_repository(repo.path))) as connection:
        all_messages = vector_search.load_all_messages(connection)
        some_messages = vector_search.load_messages(connection, shas)
    assert all_messages is not None and all_messages.bytes > 3 * 384
    for messages in (all_messages, some_messages):
        texts = messages.get_messages(shas)
        assert [text.split("\n")[0] for text in texts] == ["", "Add a socket", "Add a file"]
        assert len(texts[1]) == vector_search.MAX_MESSAGE_CHARS
        assert [bool(row.any()) for row in messages.get_vectors(shas)] == [False, True, True]
    assert np.array_equal(all_messages.get_vectors(shas), some_messages.get_vectors(shas))


def test_too_many_messages(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The messages of a long history are not all loaded, but those of some commits can be."""
    build_index(repo, home)
    monkeypatch.setattr(vector_search, "MAX_CACHED_MESSAGES", 1)
    with database.open_for_reading(locate_index(home, open_repository(repo.path))) as connection:
        assert vector_search.load_all_messages(connection) is None
        assert vector_search.load_messages(connection, [repo.head]).get_messages([repo.head]) == [""]
        assert vector_search.load_messages(connection, []).row_by_sha == {}
