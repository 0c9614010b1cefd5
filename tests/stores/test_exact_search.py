"""Patterns of exact search: what they match, and which are rejected. Search for the changes of given lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC

import pytest

from pipeline.git.objects import LATEST_SECONDS
from stores import exact_search
from stores.exact_search import (
    MAX_LITERAL_COMMITS,
    BadPattern,
    DiffLinePattern,
    SearchPattern,
    build_range_condition,
    find_changes_with_terms,
    find_line_changes,
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
        ([], "FALSE"),
        (["b", "a"], "commit_sha IN ('a', 'b')"),
        (map(str, range(MAX_LITERAL_COMMITS + 1)), "TRUE"),
    ],
    ids=["no range", "empty range", "short range", "long range"],
)
def test_condition_of_a_range(shas: Iterable[str] | None, condition: str) -> None:
    """The condition selects the commits of a short range and none of an empty one, and leaves others to the caller."""
    commit_range = None if shas is None else CommitRange("text", frozenset(shas))
    assert build_range_condition(commit_range) == condition


def make_pattern(text: str, sign: str) -> DiffLinePattern:
    """Return a pattern of whole lines."""
    return DiffLinePattern(text, rf"(?m)^\{sign}{re.escape(text)}$")


@pytest.mark.parametrize("max_contains", [0, 9])
def test_find_line_changes(max_contains: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pattern has the reachable changes whose diff has its line, oldest first, for few and for many patterns."""
    monkeypatch.setattr(exact_search, "MAX_CONTAINS", max_contains)
    diffs = [
        "@@ -1 +1 @@\n-a(b\n+c\n",
        "@@ -1 +1 @@\n+a(b\n",
        "@@ -1 +1 @@\n a(b\n",
        "@@ -1 +1 @@\n+a(b.c\n+a(b",
    ]
    connection = create_index([SampleHunk(number, "a.py") for number in range(4, 0, -1)])
    for number, diff in enumerate(diffs, start=1):
        connection.execute("UPDATE hunks SET diff = ? WHERE commit_sha = ?", [diff, make_sha(number)])
    patterns = [make_pattern("a(b", "-"), make_pattern("a(b", "+"), make_pattern("nowhere", "+")]
    found = find_line_changes(connection, patterns, lambda _: True, 0, LATEST_SECONDS)
    shas = [[change.commit_sha for change in changes] for changes in found]
    assert shas == [[make_sha(1)], [make_sha(2), make_sha(4)], []]
    found = find_line_changes(connection, patterns[1:2], lambda sha: sha != make_sha(2), 0, LATEST_SECONDS)
    assert [(change.commit_sha, change.path, change.old_path) for change in found[0]] == [
        (make_sha(4), b"a.py", None)
    ]
    assert find_line_changes(connection, [], lambda _: True, 0, LATEST_SECONDS) == []


def test_find_line_changes_of_one_commit() -> None:
    """Changes of one commit are in the order of their hunks, wherever their rows are in the table."""
    names = [f"{number:02}.py" for number in range(50)]
    connection = create_index([SampleHunk(1, name) for name in names])
    connection.execute("UPDATE hunks SET diff = '@@ -0,0 +1 @@' || chr(10) || '+text'")
    connection.execute("CREATE TEMP TABLE reversed AS FROM hunks ORDER BY hunk_id DESC")
    connection.execute("DELETE FROM hunks")
    connection.execute("INSERT INTO hunks FROM reversed ORDER BY hunk_id DESC")
    (changes,) = find_line_changes(connection, [make_pattern("text", "+")], lambda _: True, 0, LATEST_SECONDS)
    assert [change.path.decode() for change in changes] == names


@pytest.mark.parametrize(
    ("order", "counts"), [((1, 2, 3, 4), [0, 1, 2, 3, 4]), ((2, 1, 4, 3), [0, 2, 2, 4, 4])]
)
def test_find_line_changes_until_a_date(order: Sequence[int], counts: Sequence[int]) -> None:
    """All changes until a date are found, and no hunk after the last of them or before the first hunk is returned."""
    connection = create_index([SampleHunk(number, "a.py") for number in order])
    connection.execute("UPDATE hunks SET diff = '@@ -0,0 +1 @@' || chr(10) || '+text'")
    for last, count in enumerate(counts):
        last_date = int(SampleHunk(last, "a.py").date.replace(tzinfo=UTC).timestamp())
        for first_hunk in (0, 1):
            (changes,) = find_line_changes(
                connection, [make_pattern("text", "+")], lambda _: True, first_hunk, last_date
            )
            assert {change.commit_sha for change in changes} == set(map(make_sha, order[first_hunk:count]))


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
