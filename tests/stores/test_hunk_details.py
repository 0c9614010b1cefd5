"""Hunk details, the diff cache, and copies and reverts of commits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stores import hunk_details
from stores.history import ReachabilityDelta
from stores.hunk_details import list_languages, load_diff_cache, load_hunk_details
from tests.stores.sample_index import SampleHunk, create_index, make_sha

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


def test_many_possible_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of commits with one author and date, only the oldest are returned."""
    monkeypatch.setattr(hunk_details, "MAX_POSSIBLE_COPIES", 2)
    connection = create_index([SampleHunk(number, "a") for number in range(1, 6)])
    connection.execute("UPDATE commits SET author_email = 'bot@x', author_date = TIMESTAMP '2020-01-01'")
    shas = [make_sha(number) for number in range(1, 6)]
    copies = hunk_details.find_possible_copies(connection, ReachabilityDelta(), shas[3:])
    assert {sha: len(others) for sha, others in copies.items()} == {shas[3]: 2, shas[4]: 2}


def find_reverts(
    messages: dict[int, str],
    requested: Sequence[int] | None = None,
    *,
    unreachable: Sequence[int] = (),
    have_same_date: bool = False,
) -> dict[int, int]:
    """Return the reverts of the requested commits, by number; by default, of all. Higher numbers are newer."""
    connection = create_index([SampleHunk(number, "a") for number in messages])
    connection.executemany(
        "UPDATE commits SET message = ? WHERE commit_sha = ?",
        [(message, make_sha(number)) for number, message in messages.items()],
    )
    if have_same_date:
        connection.execute("UPDATE commits SET commit_date = TIMESTAMP '2020-01-01'")
    numbers = {make_sha(number): number for number in messages}
    delta = ReachabilityDelta(removed_commits=tuple(map(make_sha, unreachable)))
    reverts = hunk_details.find_reverts(connection, delta, [*map(make_sha, requested or messages)])
    return {numbers[sha]: numbers[revert] for sha, revert in reverts.items()}


def test_reverts() -> None:
    """A commit is reverted by the newest reachable commit that names its sha, or else its subject.

    A revert that is reverted does not count. A subject means the last earlier commit that has it.
    """
    messages = {
        1: "Add a limit (#7)",
        2: "Add a limit (#9)",
        3: 'Revert "Add a limit" (#10)',
        4: "Add a limit",
        5: f"Undo it\n\nThis reverts commit {make_sha(6)[:8]}.",
        6: "Add retries",
        7: "Retry all",
        8: f'Revert "Retry all"\n\nThis reverts commit {make_sha(7)}.',
        9: f'Revert "Revert "Retry all""\n\nThis reverts commit {make_sha(8)}.',
        10: "Keep it\r\n\r\nbody",
        11: 'Revert "Keep it"\r\n\r\nbody',
        12: 'Reapply "Keep it" (#12)',
        13: f"Undo\n\nThis reverts commit {make_sha(4)}.",
    }
    assert find_reverts(messages) == {2: 3, 4: 13, 6: 5, 8: 9, 11: 12}
    assert find_reverts(messages, [4, 7], unreachable=[9, 13]) == {7: 8}
    assert find_reverts(messages, [2], unreachable=[2]) == {}
    assert find_reverts(messages, [1], unreachable=[2]) == {1: 3}
    assert hunk_details.find_reverts(create_index([SampleHunk(1, "a")]), ReachabilityDelta(), []) == {}


def test_reverts_of_commits_with_one_date() -> None:
    """Of several commits with one title and one date, as after a rebase, each is reverted by its own descendant."""
    messages = dict(enumerate(["Tune it", 'Revert "Tune it"'] * 3, 1))
    for have_same_date in (False, True):
        assert find_reverts(messages, [1, 3, 5], have_same_date=have_same_date) == {1: 2, 3: 4, 5: 6}


def test_quoted_and_unknown_reverts() -> None:
    """A quoted message of an earlier revert, and one that names no commit of git, revert nothing."""
    revert = f'Revert "Add it"\n\nThis reverts commit {make_sha(1)}.'
    restored = f'Revert "Revert "Add it""\n\nThis reverts commit {make_sha(2)}.\n\n> This reverts commit {make_sha(1)}.'
    assert find_reverts({1: "Add it", 2: revert, 3: restored}) == {2: 3}
    assert find_reverts({1: "", 2: "Undo\n\nThis reverts commit r1234."}) == {}
    assert find_reverts({1: "Add it", 2: f"Squash\n\n* Undo. This reverts commit {make_sha(1)}."}) == {1: 2}


def test_reverts_of_reverts_in_any_order() -> None:
    """Whether a revert counts depends neither on its date nor on the other requested commits."""
    messages = {
        1: "Add it",
        3: f"R\n\nThis reverts commit {make_sha(1)}.",
        2: f"This reverts commit {make_sha(3)}.",
    }
    assert find_reverts(messages, have_same_date=True) == {3: 2}
    messages = {1: "Add it", 2: f"Undo\n\nThis reverts commit {make_sha(1)}.", 3: 'Revert "Undo"'}
    assert find_reverts(messages, [1]) == {}
    assert find_reverts(messages) == {2: 3}
