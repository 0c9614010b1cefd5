"""Exact reads of commits and file histories."""

from __future__ import annotations

import pytest

from stores import history
from stores.types import ReachabilityDelta
from tests.stores.sample_index import Doc, create_index, sha


@pytest.mark.parametrize("max_inline", [0, 100])
def test_recorded_commits_and_digests(max_inline: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only commits and digests with rows are found, for few and for many arguments."""
    monkeypatch.setattr(history, "MAX_INLINE_COMMITS", max_inline)
    connection = create_index([Doc(1, "a"), Doc(2, "a")])
    assert history.find_recorded_commits(connection, [sha(n) for n in (2, 3, 2, 1)]) == {sha(1), sha(2)}
    assert history.find_recorded_commits(connection, []) == set()
    assert history.find_known_digests(connection, [Doc(1, "a").digest, b"\0" * 16]) == {Doc(1, "a").digest}


def test_file_history() -> None:
    """A file's commits are oldest first, follow renames, and exclude other files and unreachable commits."""
    docs = [
        Doc(1, "old"), Doc(2, "middle"), Doc(3, "other"), Doc(4, "new"), Doc(5, "new"), Doc(6, "new"),
        Doc(7, "old"), Doc(8, "new"),
    ]  # fmt: skip
    connection = create_index(docs, unreached=[6])
    for number, former in ((2, "old"), (4, "middle"), (8, "new")):
        connection.execute("UPDATE hunks SET old_path = ? WHERE commit_sha = ?", [former, sha(number)])
    assert [found for found, _ in history.load_file_history(connection, "new", ReachabilityDelta())] == [
        sha(number) for number in (1, 2, 4, 5, 8)
    ]
    assert [found for found, _ in history.load_file_history(connection, "old", ReachabilityDelta())] == [
        sha(1),
        sha(7),
    ]
    complete = ReachabilityDelta(added=(sha(1), sha(6)), complete=True)
    assert [found for found, _ in history.load_file_history(connection, "new", complete)] == [sha(6)]
    assert history.load_file_history(connection, "nowhere", ReachabilityDelta()) == ()


def test_file_commits() -> None:
    """Commits are newest first, with their number of `@@` headers; changed lines that look like one do not count."""
    connection = create_index([Doc(1, "a"), Doc(2, "a"), Doc(3, "a")])
    diff = "@@ -1 +1 @@ f\n-@@ -1 +1 @@\n+@@ x\n@@ -9 +9 @@\n @@ y\n"
    connection.execute("UPDATE hunks SET diff = ? WHERE commit_sha = ?", [diff, sha(2)])
    found = history.load_file_commits(connection, [0, 1])
    assert [(commit.commit_sha, commit.touched_hunks) for commit in found] == [(sha(2), 2), (sha(1), 1)]
