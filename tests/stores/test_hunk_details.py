"""Hunk details, and the diff cache."""

from __future__ import annotations

import pytest

from stores import hunk_details
from stores.hunk_details import list_languages, load_diff_cache, load_hunk_details
from tests.stores.sample_index import SampleHunk, create_index

HUNKS = [
    SampleHunk(1, "a.py", symbols=["run", "stop", "run"]),
    SampleHunk(2, "b.rs", language="rust"),
    SampleHunk(2, "c", language=None),
]


def test_details_in_requested_order() -> None:
    """Hunks are returned in the order of the ids, each with its commit and distinct symbols in stored order."""
    second, first = load_hunk_details(create_index(HUNKS), [1, 0])
    assert (second.file_path, second.commit_message, second.symbols) == ("b.rs", "Commit 2", ())
    assert (first.file_path, first.commit_author, first.symbols) == ("a.py", "Ada Lovelace", ("run", "stop"))
    assert (first.commit_sha, first.commit_date, first.change_kind) == (
        HUNKS[0].sha,
        HUNKS[0].date,
        "modified",
    )


def test_languages() -> None:
    """The languages are those of the hunks; unknown ones are left out."""
    assert list_languages(create_index(HUNKS)) == {"python", "rust"}


def test_diff_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The details are the same with all, only the short, or no diffs in the cache."""
    connection = create_index(HUNKS)
    connection.execute("UPDATE hunks SET diff = repeat('ü', 10 * hunk_id::INT) || hunk_id")
    uncached_details = load_hunk_details(connection, [2, 0, 1])
    assert [details.diff for details in uncached_details] == ["ü" * 20 + "2", "0", "ü" * 10 + "1"]
    assert load_hunk_details(connection, [2, 0, 1], load_diff_cache(connection)) == uncached_details
    monkeypatch.setattr(hunk_details, "MAX_CACHED_DIFF_BYTES", 21)
    partial_cache = load_diff_cache(connection)
    assert partial_cache.get([0, 1, 2]) == {0: "0", 1: "ü" * 10 + "1"}
    assert load_hunk_details(connection, [2, 0, 1], partial_cache) == uncached_details
    monkeypatch.setattr(hunk_details, "MAX_CACHE_BYTES", 1)
    assert load_diff_cache(connection).get([0, 1, 2]) == {}
    assert load_hunk_details(connection, [], partial_cache) == ()
