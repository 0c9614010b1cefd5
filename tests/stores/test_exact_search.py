"""Patterns of exact search: what they match, and which are rejected."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from stores.exact_search import MAX_LITERAL_COMMITS, BadPattern, LinePattern, build_range_condition
from stores.filters import CommitRange


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
        LinePattern(pattern, is_regex=True)
    assert reason in caught.value.message
    assert LinePattern(pattern).matches(f"x {pattern} y")


@pytest.mark.parametrize("text", ["", "a\nb", "a\0b"])
def test_bad_text(text: str) -> None:
    """A text that no line can contain is rejected."""
    with pytest.raises(BadPattern):
        LinePattern(text)


def test_occurrences_do_not_overlap() -> None:
    """Occurrences of a text count as git counts them; an expression counts once for each line."""
    assert LinePattern("aa").count_occurrences("aaaaa") == 2
    assert LinePattern("a+", is_regex=True).count_occurrences("a a a") == 1


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
    assert LinePattern(text).may_match_submodules is is_possible


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
