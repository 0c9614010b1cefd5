"""Exact reads: which commits are recorded, and a file's own history."""

from __future__ import annotations

import pytest

from stores import history
from stores.types import Reach
from tests.stores.sample_index import Doc, sha, small_index


@pytest.mark.parametrize("few", [0, 100])
def test_recorded(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the commits that have rows, whichever way they are asked for."""
    monkeypatch.setattr(history, "FEW_COMMITS", few)
    connection = small_index([Doc(1, "a"), Doc(2, "a")])
    assert history.recorded(connection, [sha(n) for n in (2, 3, 2, 1)]) == {sha(1), sha(2)}
    assert history.recorded(connection, []) == set()
    assert history.known_digests(connection, [Doc(1, "a").digest, b"\0" * 16]) == {Doc(1, "a").digest}


def test_file_history() -> None:
    """Oldest first, former names followed up to their rename, other files and other branches left out."""
    docs = [
        Doc(1, "old"), Doc(2, "middle"), Doc(3, "other"), Doc(4, "new"), Doc(5, "new"), Doc(6, "new"),
        Doc(7, "old"), Doc(8, "new"),
    ]  # fmt: skip
    connection = small_index(docs, unreached=[6])
    for number, former in ((2, "old"), (4, "middle"), (8, "new")):
        connection.execute("UPDATE hunks SET old_path = ? WHERE commit_sha = ?", [former, sha(number)])
    assert [found for found, _ in history.file_history(connection, "new", Reach())] == [
        sha(number) for number in (1, 2, 4, 5, 8)
    ]
    assert [found for found, _ in history.file_history(connection, "old", Reach())] == [sha(1), sha(7)]
    whole = Reach(back=(sha(1), sha(6)), complete=True)
    assert [found for found, _ in history.file_history(connection, "new", whole)] == [sha(6)]
    assert history.file_history(connection, "nowhere", Reach()) == ()


def test_file_commits() -> None:
    """Newest first, with the number of `@@` parts; a line that looks like one is none."""
    connection = small_index([Doc(1, "a"), Doc(2, "a"), Doc(3, "a")])
    diff = "@@ -1 +1 @@ f\n-@@ -1 +1 @@\n+@@ x\n@@ -9 +9 @@\n @@ y\n"
    connection.execute("UPDATE hunks SET diff = ? WHERE commit_sha = ?", [diff, sha(2)])
    found = history.file_commits(connection, [0, 1])
    assert [(commit.commit_sha, commit.touched_hunks) for commit in found] == [(sha(2), 2), (sha(1), 1)]
