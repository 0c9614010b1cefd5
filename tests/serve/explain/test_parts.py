"""The pure pieces: ranges as people write them, git's porcelain, windows of a long diff."""

from __future__ import annotations

import pytest

from serve.api_types import bounds
from serve.errors import BadRequest
from serve.explain import blame, excerpts
from serve.explain.file_history import near
from serve.index_status import EXCERPT_LINES
from serve.text import spans

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
    ("said", "expected"),
    [(None, (1, 0)), ("3:7", (3, 7)), (":42", (1, 42)), ("10:", (10, 0)), (":", (1, 0)), (" 7:7 ", (7, 7))],
)
def test_bounds(said: str | None, expected: tuple[int, int]) -> None:
    """Either bound may be left out."""
    assert bounds(said) == expected


NO_RANGES = ["", "5", "a:b", "-1:3", "1:-3", "1:2:3", "1-2", "1.5:2", "3:0", ":0", "٣:٤", "9" * 30 + ":"]


@pytest.mark.parametrize("said", NO_RANGES)
def test_bad_bounds(said: str) -> None:
    """What is no range is refused with the form of one."""
    with pytest.raises(BadRequest, match="START:END"):
        bounds(said)


def test_porcelain() -> None:
    """Each line has its commit, its number there, and the path and the predecessor that hold for its group."""
    said = blame.parsed(PORCELAIN)
    ones, zeros = "1" * 40, "0" * 40
    first = blame.Origin(ones, b"new name", ("2" * 40, b'o\xc3\xa4"\\d\tb'))
    other = blame.Origin(ones, b"other", None)
    assert said.dates == {ones: 100, zeros: 200}
    assert said.lines == (
        blame.Line(1, 3, first),
        blame.Line(2, 2, blame.Origin(zeros, b"new name", None)),
        blame.Line(3, 7, other),
        blame.Line(4, 8, other),
    )
    assert [line.committed for line in said.lines] == [True, False, True, True]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([], []), ([4], [(4, 4)]), ([1, 2, 3, 7, 9, 10], [(1, 3), (7, 7), (9, 10)])],
)
def test_spans(numbers: list[int], expected: list[tuple[int, int]]) -> None:
    """Consecutive numbers are one span."""
    assert list(spans(numbers)) == expected


@pytest.mark.parametrize(
    ("anchors", "expected"),
    [("a", "bc"), ("c", "abde"), ("ad", "bcef"), ("bc", "ade"), ("z", ""), ("", "")],
)
def test_near(anchors: str, expected: str) -> None:
    """Two before and two after each anchor, anchors and strangers left out."""
    assert near("abcdefg", anchors) == set(expected)


def part(old: int, new: int, rows: list[str]) -> str:
    counts = [sum(row[0] in marks for row in rows) for marks in (" -", " +")]
    return "\n".join([f"@@ -{old},{counts[0]} +{new},{counts[1]} @@ def f():", *rows, ""])


SMALL = part(1, 1, [" a", "-b", "+B", " c"])
LONG = part(20, 20, [" x", "-y", *(f"+{n}" for n in range(21, 121)), " z"])


def test_only_touched_parts() -> None:
    """A part that has none of the lines is left out."""
    assert excerpts._shown([SMALL, LONG], {2}) == excerpts.Excerpt(SMALL, truncated=False)


def test_nearest_part() -> None:
    """Where no part shows the lines, the nearest does: blame and diff may see an added block a little apart."""
    assert excerpts._shown([SMALL, LONG], {8}).text == SMALL
    assert excerpts._shown([SMALL, LONG], {15, 16}).text.split("\n")[:3] == [
        "@@ -20,2 +20,3 @@ def f():",
        " x",
        "-y",
    ]
    assert excerpts._shown([], {8}) == excerpts.Excerpt("", truncated=False)


def test_windows_of_a_long_part() -> None:
    """Of a part that is too long the lines asked about are shown, under heads that say where they stand."""
    shown = excerpts._shown([SMALL, LONG], {50, 51, 90})
    assert shown.truncated
    assert shown.text.split("\n") == [
        "@@ -21,0 +47,8 @@ def f():", *(f"+{n}" for n in range(47, 55)),
        "@@ -21,0 +87,7 @@ def f():", *(f"+{n}" for n in range(87, 94)), "",
    ]  # fmt: skip


def test_window_at_the_edge() -> None:
    """A window at a part's edge has the removed line beside it, and the head counts it."""
    assert excerpts._shown([LONG], {21}).text.split("\n") == [
        "@@ -20,2 +20,5 @@ def f():", " x", "-y", "+21", "+22", "+23", "+24", "",
    ]  # fmt: skip


def test_windows_are_cut_too() -> None:
    """Many windows end where an excerpt ends."""
    shown = excerpts._shown([LONG], set(range(21, 121)))
    assert (shown.truncated, len(shown.text.split("\n"))) == (True, EXCERPT_LINES)
