"""Patterns of exact search: what they match, and which are rejected. Search for changes of files and of terms."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC

import duckdb
import pytest

from stores.exact_search import (
    MAX_LITERAL_COMMITS,
    BadPattern,
    SearchPattern,
    build_range_condition,
    find_changes_with_terms,
    find_paths,
    find_removals,
    load_renames,
)
from stores.filters import CommitRange
from tests.stores.sample_index import SampleHunk, create_index, make_sha


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(a", "missing )"),
        (r"(a)\1", r"invalid escape sequence: \1"),
        ("a(?=b)", "invalid perl operator: (?="),
        ("a)|(b", "unexpected )"),
    ],
)
def test_bad_expression(pattern: str, reason: str) -> None:
    """An expression that RE2 cannot match in linear time, or that is incomplete, is rejected with the reason."""
    with pytest.raises(BadPattern, match="RE2") as caught:
        SearchPattern(pattern, is_regex=True)
    assert reason in caught.value.message
    assert SearchPattern(pattern).matches(f"x {pattern} y")


@pytest.mark.parametrize("text", ["", "a\nb", "a\0b"])
def test_bad_text(text: str) -> None:
    """A text that no line can contain is rejected."""
    with pytest.raises(BadPattern):
        SearchPattern(text)


def test_occurrences_do_not_overlap() -> None:
    """Occurrences of a text count as git counts them; an expression counts once for each line."""
    assert SearchPattern("aa").count_occurrences("aaaaa") == 2
    assert SearchPattern("a+", is_regex=True).count_occurrences("a a a") == 1


@pytest.mark.parametrize(
    ("text", "is_possible"),
    [
        ("commit", True),
        ("project commit 0a1b", True),
        ("c0ffee", True),
        ("timeout", False),
        ("commit xyz", False),
    ],
)
def test_submodule_lines(text: str, is_possible: bool) -> None:
    """Submodules are read only for a text that a line `Subproject commit SHA` can contain."""
    assert SearchPattern(text).may_match_submodules is is_possible


@pytest.mark.parametrize(
    ("shas", "condition"),
    [
        (None, "TRUE"),
        ([], "commit_sha IN (NULL)"),
        (["b", "a"], "commit_sha IN ('a', 'b')"),
        (map(str, range(MAX_LITERAL_COMMITS + 1)), "TRUE"),
    ],
    ids=["no range", "empty range", "short range", "long range"],
)
def test_condition_of_a_range(shas: Iterable[str] | None, condition: str) -> None:
    """The condition selects the commits of a short range and none of an empty one, and leaves others to the caller."""
    commit_range = None if shas is None else CommitRange("text", frozenset(shas))
    assert build_range_condition(commit_range) == condition


def create_index_of_changes(changes: Sequence[tuple[int, str | None, str, int]]) -> duckdb.DuckDBPyConnection:
    """Create an index of changes: number of the commit, old path or None, path, and number of removed lines."""
    connection = create_index([SampleHunk(commit, path) for commit, _, path, _ in changes])
    for hunk_id, (_, old_path, _, removed_lines) in enumerate(changes):
        connection.execute(
            "UPDATE hunks SET old_path = ?, removed_lines = ? WHERE hunk_id = ?",
            [old_path, removed_lines, hunk_id],
        )
    return connection


def test_renames() -> None:
    """The paths that files were renamed to are listed by their old path."""
    changes = [(1, None, "a.py", 0), (2, "a.py", "b.py", 0), (3, "a.py", "c.py", 1), (4, "b.py", "d.py", 0)]
    assert load_renames(create_index_of_changes(changes)) == {"a.py": {"b.py", "c.py"}, "b.py": {"d.py"}}


def test_paths_of_a_name() -> None:
    """Only the paths before a change whose last part is the name are found."""
    paths = ["net.py", "lib/net.py", "net.py/a", "lib/subnet.py", "lib/net.pyi"]
    connection = create_index_of_changes(
        [(1, None, path, 0) for path in paths] + [(2, "old/net.py", "new.py", 0)]
    )
    assert find_paths(connection, "net.py") == {"net.py", "lib/net.py", "old/net.py"}


def test_removals() -> None:
    """Reachable changes that remove lines of a file up to a date are found by its path before, newest first."""
    changes = [
        (5, None, "a.py", 1),
        (4, None, "a.py", 0),
        (3, "a.py", "b.py", 2),
        (3, None, "a.py", 1),
        (2, None, "b.py", 1),
        (1, None, "a.py", 1),
        (1, None, "c.py", 1),
    ]
    connection = create_index_of_changes(changes)

    def find(
        paths: Collection[str], last: int, unreachable: str = ""
    ) -> list[tuple[str, bytes, bytes | None]]:
        last_date = int(SampleHunk(last, "").date.replace(tzinfo=UTC).timestamp())
        found = find_removals(connection, paths, lambda sha: sha != unreachable, last_date)
        return [(change.commit_sha, change.path, change.old_path) for change in found]

    third = [(make_sha(3), b"a.py", None), (make_sha(3), b"b.py", b"a.py")]
    assert find(["a.py"], 4) == [*third, (make_sha(1), b"a.py", None)]
    assert find(["a.py"], 5)[0] == (make_sha(5), b"a.py", None)
    assert find(["a.py", "c.py"], 2) == [(make_sha(1), b"c.py", None), (make_sha(1), b"a.py", None)]
    assert find(["a.py"], 4, unreachable=make_sha(1)) == third
    assert find([], 5) == []


def test_find_changes_with_terms() -> None:
    """Reachable changes whose text has all terms are found, oldest first; of too many, those with the smallest ids."""
    connection = create_index(
        [
            SampleHunk(3, "a.py", words=("retry", "delay")),
            SampleHunk(2, "b.py", words=("delay", "retry", "retry")),
            SampleHunk(1, "c.py", words=("retry",)),
            SampleHunk(4, "d.py", words=("retry", "delay")),
        ]
    )

    def find(*searches: set[str], limit: int = 9) -> list[list[str]]:
        found = find_changes_with_terms(connection, searches, lambda sha: sha != make_sha(4), limit)
        return [[change.path.decode() for change in changes] for changes in found]

    assert find({"retry", "delay"}, {"retry"}) == [["b.py", "a.py"], ["c.py", "b.py", "a.py"]]
    assert find({"retry", "unknown"}, set(), {"delay"}) == [[], [], ["b.py", "a.py"]]
    assert find({"retry"}, limit=1) == [["a.py"]]
    assert find({"unknown"}, set()) == [[], []]
    assert find() == []
