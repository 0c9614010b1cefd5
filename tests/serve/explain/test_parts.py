"""Pure functions: line ranges, git's porcelain format, windows of a long diff."""

from __future__ import annotations

import pytest

from serve.api_types import parse_line_range
from serve.errors import BadRequest
from serve.excerpts import EXCERPT_LINES
from serve.explain import blame, explain_change
from serve.explain.file_history import find_related_commits
from serve.text import find_consecutive_runs

PORCELAIN = b"""\
1111111111111111111111111111111111111111 3 1 1
author A
committer-time 100
summary filename not\x20a\x20path
previous 2222222222222222222222222222222222222222 "o\\303\\244\\"\\\\d\\tb"
filename new name
\t1111111111111111111111111111111111111111 9 9
0000000000000000000000000000000000000000 2 2 1
author Not Committed Yet
committer-time 200
filename new name
\t
1111111111111111111111111111111111111111 7 3 2
filename other
\tx
1111111111111111111111111111111111111111 8 4
\ty
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, (1, 0)),
        ("3:7", (3, 7)),
        (":42", (1, 42)),
        ("10:", (10, 0)),
        (" 7:7 ", (7, 7)),
        ("7", (7, 7)),
    ],
)
def test_line_range(text: str | None, expected: tuple[int, int]) -> None:
    """Either bound of a range is optional, and one number is one line."""
    assert parse_line_range(text) == expected


INVALID_RANGES = [
    "",
    "0",
    "5 6",
    "9" * 30,
    ":",
    "a:b",
    "-1:3",
    "1:-3",
    "1:2:3",
    "1-2",
    "1.5:2",
    "3:0",
    ":0",
    "٣:٤",
    "9" * 30 + ":",
]


@pytest.mark.parametrize("text", INVALID_RANGES)
def test_invalid_line_ranges_are_rejected(text: str) -> None:
    """An invalid range is an error that shows the format."""
    with pytest.raises(BadRequest, match="START:END"):
        parse_line_range(text)


def test_porcelain() -> None:
    """Each line has its commit, its number in it, and the path and parent of its group."""
    result = blame.parse_porcelain(PORCELAIN)
    ones, zeros = "1" * 40, "0" * 40
    first = blame.LineOrigin(ones, b"new name", ("2" * 40, b'o\xc3\xa4"\\d\tb'))
    other = blame.LineOrigin(ones, b"other", None)
    assert result.commit_times == {ones: 100, zeros: 200}
    assert result.lines == (
        blame.BlamedLine(1, 3, first),
        blame.BlamedLine(2, 2, blame.LineOrigin(zeros, b"new name", None)),
        blame.BlamedLine(3, 7, other),
        blame.BlamedLine(4, 8, other),
    )
    assert [line.is_committed for line in result.lines] == [True, False, True, True]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([], []), ([4], [(4, 4)]), ([1, 2, 3, 7, 9, 10], [(1, 3), (7, 7), (9, 10)])],
)
def test_consecutive_runs(numbers: list[int], expected: list[tuple[int, int]]) -> None:
    """Consecutive numbers form one run."""
    assert list(find_consecutive_runs(numbers)) == expected


@pytest.mark.parametrize(
    ("hit_shas", "expected"),
    [("a", "bc"), ("c", "abde"), ("ad", "bcef"), ("bc", "ade"), ("z", ""), ("", "")],
)
def test_find_related_commits(hit_shas: str, expected: str) -> None:
    """Related are the two commits before and after each hit, without the hits; unknown hits are ignored."""
    assert find_related_commits("abcdefg", hit_shas) == set(expected)


def make_section(old: int, new: int, lines: list[str]) -> str:
    counts = [sum(line[0] in signs for line in lines) for signs in (" -", " +")]
    return "\n".join([f"@@ -{old},{counts[0]} +{new},{counts[1]} @@ def f():", *lines, ""])


SMALL_SECTION = make_section(1, 1, [" a", "-b", "+B", " c"])
LONG_SECTION = make_section(20, 20, [" x", "-y", *(f"+{n}" for n in range(21, 121)), " z"])


def test_only_touched_sections_are_shown() -> None:
    """A section without any of the lines is omitted."""
    assert explain_change.select_sections([SMALL_SECTION, LONG_SECTION], {2}) == explain_change.Excerpt(
        SMALL_SECTION, is_truncated=False
    )


def test_nearest_section() -> None:
    """If no section has the lines, the nearest section is shown."""
    assert explain_change.select_sections([SMALL_SECTION, LONG_SECTION], {8}).text == SMALL_SECTION
    assert explain_change.select_sections([SMALL_SECTION, LONG_SECTION], {15, 16}).text.split("\n")[:3] == [
        "@@ -20,2 +20,3 @@ def f():",
        " x",
        "-y",
    ]
    assert explain_change.select_sections([], {8}) == explain_change.Excerpt("", is_truncated=False)


def test_windows_of_a_long_section() -> None:
    """Of a section that is too long, windows around the lines are shown with headers of their own."""
    excerpt = explain_change.select_sections([SMALL_SECTION, LONG_SECTION], {50, 51, 90})
    assert excerpt.is_truncated
    assert excerpt.text.split("\n") == [
        "@@ -21,0 +47,8 @@ def f():", *(f"+{n}" for n in range(47, 55)),
        "@@ -21,0 +87,7 @@ def f():", *(f"+{n}" for n in range(87, 94)), "",
    ]  # fmt: skip


def test_window_at_the_edge_of_a_section() -> None:
    """A window at the edge of a section includes a removed line, and its header counts it."""
    assert explain_change.select_sections([LONG_SECTION], {21}).text.split("\n") == [
        "@@ -20,2 +20,5 @@ def f():", " x", "-y", "+21", "+22", "+23", "+24", "",
    ]  # fmt: skip


def test_windows_are_truncated() -> None:
    """Windows together are at most as long as an excerpt."""
    excerpt = explain_change.select_sections([LONG_SECTION], set(range(21, 121)))
    assert (excerpt.is_truncated, len(excerpt.text.split("\n"))) == (True, EXCERPT_LINES)
