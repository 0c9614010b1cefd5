"""Recorded commits, digests with a vector, and file histories."""

from __future__ import annotations

import pytest

from stores import history
from stores.types import ReachabilityDelta
from tests.stores.sample_index import SampleHunk, create_index, make_sha


@pytest.mark.parametrize("max_inline", [0, 100])
def test_recorded_commits_and_digests(max_inline: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only commits and digests with rows are found, for few and for many arguments."""
    monkeypatch.setattr(history, "MAX_INLINE_COMMITS", max_inline)
    connection = create_index([SampleHunk(1, "a"), SampleHunk(2, "a")])
    assert history.find_recorded_commits(connection, [make_sha(n) for n in (2, 3, 2, 1)]) == {
        make_sha(1),
        make_sha(2),
    }
    assert history.find_recorded_commits(connection, []) == set()
    assert history.find_embedded_digests(connection, [SampleHunk(1, "a").digest, b"\0" * 16]) == {
        SampleHunk(1, "a").digest
    }


def test_file_history() -> None:
    """A file's commits are oldest first, follow renames, and exclude other files and unreachable commits."""
    paths = ["old", "middle", "other", "new", "new", "new", "old", "new"]
    hunks = [SampleHunk(number, path) for number, path in enumerate(paths, 1)]
    connection = create_index(hunks, unreached=[6])
    for number, old_path in ((2, "old"), (4, "middle"), (8, "new")):
        connection.execute("UPDATE hunks SET old_path = ? WHERE commit_sha = ?", [old_path, make_sha(number)])

    def list_numbers(path: str, delta: ReachabilityDelta) -> list[int]:
        number_by_sha = {hunk.sha: hunk.commit for hunk in hunks}
        return [number_by_sha[sha] for sha, _ in history.load_file_history(connection, path, delta)]

    assert list_numbers("new", ReachabilityDelta()) == [1, 2, 4, 5, 8]
    assert list_numbers("old", ReachabilityDelta()) == [1, 7]
    complete_delta = ReachabilityDelta(added_commits=(make_sha(1), make_sha(6)), is_complete=True)
    assert list_numbers("new", complete_delta) == [6]
    assert list_numbers("nowhere", ReachabilityDelta()) == []


def test_file_commits() -> None:
    """Commits are newest first, with their number of `@@` headers; changed lines that look like one do not count."""
    connection = create_index([SampleHunk(1, "a"), SampleHunk(2, "a"), SampleHunk(3, "a")])
    diff = "@@ -1 +1 @@ f\n-@@ -1 +1 @@\n+@@ x\n@@ -9 +9 @@\n @@ y\n"
    connection.execute("UPDATE hunks SET diff = ? WHERE commit_sha = ?", [diff, make_sha(2)])
    commits = history.load_file_commits(connection, [0, 1])
    assert [(commit.commit_sha, commit.touched_hunks) for commit in commits] == [
        (make_sha(2), 2),
        (make_sha(1), 1),
    ]
