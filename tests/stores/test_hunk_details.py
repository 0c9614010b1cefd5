"""What is shown of hunks."""

from __future__ import annotations

import pytest

from stores import hunk_details
from stores.hunk_details import diffs, languages, shown
from tests.stores.sample_index import Doc, small_index

DOCS = [
    Doc(1, "a.py", symbols=["run", "stop", "run"]),
    Doc(2, "b.rs", language="rust"),
    Doc(2, "c", language=None),
]


def test_hunks_come_in_the_order_asked_for() -> None:
    """Each hunk comes with its commit, and its symbols once each, in the order of the source."""
    second, first = shown(small_index(DOCS), [1, 0])
    assert (second.file_path, second.commit_message, second.symbols) == ("b.rs", "Commit 2", ())
    assert (first.file_path, first.commit_author, first.symbols) == ("a.py", "Ada Lovelace", ("run", "stop"))
    assert (first.commit_sha, first.commit_date, first.change_kind) == (DOCS[0].sha, DOCS[0].date, "modified")


def test_languages_are_those_of_the_history() -> None:
    """Files of unknown language add none."""
    assert languages(small_index(DOCS)) == {"python", "rust"}


def test_diffs_at_hand_are_those_of_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown does not depend on which diffs are at hand: all, the short ones, or none because of their size."""
    connection = small_index(DOCS)
    connection.execute("UPDATE hunks SET diff = repeat('ü', 10 * hunk_id::INT) || hunk_id")
    plain = shown(connection, [2, 0, 1])
    assert [one.diff for one in plain] == ["ü" * 20 + "2", "0", "ü" * 10 + "1"]
    assert shown(connection, [2, 0, 1], diffs(connection)) == plain
    monkeypatch.setattr(hunk_details, "LONGEST_KEPT_DIFF", 21)
    some = diffs(connection)
    assert some.of([0, 1, 2]) == {0: "0", 1: "ü" * 10 + "1"}
    assert shown(connection, [2, 0, 1], some) == plain
    monkeypatch.setattr(hunk_details, "MOST_KEPT_BYTES", 1)
    assert diffs(connection).of([0, 1, 2]) == {}
    assert shown(connection, [], some) == ()
