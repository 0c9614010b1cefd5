"""What is shown of hunks."""

from __future__ import annotations

from stores.showing import languages, shown
from tests.stores.small import Doc, small_index

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
