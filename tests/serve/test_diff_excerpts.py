"""Of a diff the lines that matter, under heads that say where they stand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.diff_excerpts import MORE, Window, about, numbers, parts, rows

FIRST = "@@ -1,3 +1,3 @@\n import os\n-import sys\n+import re\n"
SECOND = "@@ -10,2 +10,3 @@ class Pool:\n     def get(self):\n+        self.retry()\n         return 1\n"
LONG = "@@ -0,0 +1,100 @@\n" + "".join(f"+line {number}\n" for number in range(1, 101))
RETRY = frozenset({"retri"})


def placed(text: str, word: str, at: int) -> str:
    """The long part with a word in one of its lines."""
    return text.replace(f"+line {at}\n", f"+line {at} {word}\n")


@pytest.mark.parametrize("most", [4, 40])
def test_what_fits_is_whole(most: int) -> None:
    """A diff of as many lines as are shown is shown, whatever is asked for."""
    assert about(FIRST, RETRY, most) == Window(tuple(FIRST.splitlines()), above=False, below=False)


def test_the_part_that_has_the_words() -> None:
    """Of several parts the window begins with the one that has most of the words, and goes on from there."""
    window = about(FIRST + SECOND + FIRST, RETRY, 6)
    assert window == Window((*SECOND.splitlines(), FIRST.splitlines()[0]), above=True, below=True)
    assert window.text.splitlines()[:2] == [MORE, "@@ -10,2 +10,3 @@ class Pool:"]
    assert about(FIRST + SECOND, RETRY, 6) == Window(tuple(SECOND.splitlines()), above=True, below=False)


@pytest.mark.parametrize("wanted", [frozenset[str](), frozenset({"nowhere"}), frozenset({"import"})])
def test_otherwise_the_beginning(wanted: frozenset[str]) -> None:
    """Without words, or where no part has more of them than the first, the diff begins at its beginning."""
    assert about(FIRST + SECOND, wanted, 6) == Window(
        tuple((FIRST + SECOND).splitlines()[:6]), above=False, below=True
    )


def test_changed_rows_count_first() -> None:
    """What a change says weighs more than what stands around it; that decides between equals."""
    around = SECOND.replace("get", "retry").replace("self.retry()", "pass")
    assert about(FIRST + around + SECOND, RETRY, 6).lines[2] == "+        self.retry()"
    assert about(FIRST + around, RETRY, 6).lines == tuple(around.splitlines())


def test_inside_a_long_part() -> None:
    """Of a part longer than the window the rows near the words are shown, under a head that says where they are."""
    window = about(placed(LONG, "retry", 50), RETRY, 12)
    assert (window.above, window.below, len(window.text.splitlines())) == (True, True, 12)
    assert window.lines[:5] == ("@@ -0,0 +47,10 @@", "+line 47", "+line 48", "+line 49", "+line 50 retry")
    assert about(placed(LONG, "retry", 9), RETRY, 12).lines[0] == "@@ -0,0 +1,100 @@"
    assert about(placed(LONG, "retry", 100), RETRY, 12) == Window(
        ("@@ -0,0 +91,10 @@", *(f"+line {number}" for number in range(91, 100)), "+line 100 retry"),
        above=True,
        below=False,
    )


def test_where_most_of_the_words_are() -> None:
    """A place with two of the words comes before one that has one of them twice."""
    said = placed(placed(placed(LONG, "retry retry", 20), "retry", 60), "timeout", 63)
    assert about(said, {"retri", "timeout"}, 12).lines[0] == "@@ -0,0 +57,10 @@"


def test_a_window_of_a_window() -> None:
    """What was cut above once is marked again, and the mark is no line of the diff."""
    once = about(placed(LONG, "retry", 50), RETRY, 40).text
    assert once.startswith(f"{MORE}\n@@ -0,0 +47,38 @@\n")
    assert about(once, (), 12).text == "\n".join(once.split("\n")[:12])
    assert about(once, RETRY, 12).lines[4] == "+line 50 retry"
    assert about(once, RETRY, 40).text == once


lines = st.lists(
    st.sampled_from(["+retry", "-retry", " retry", "+a", "-b", " c", "\\ No newline", "+"]), min_size=1
)


@given(st.lists(lines, min_size=1, max_size=4), st.integers(4, 12))
def test_windows_are_of_the_diff(said: list[list[str]], most: int) -> None:
    """A window is as long as it may be, its lines follow each other in the diff, and its head counts its own rows."""
    diff = "".join(
        f"@@ -1 +{number} @@\n" + "".join(f"{row}\n" for row in part) for number, part in enumerate(said)
    )
    window = about(diff, RETRY, most)
    everything = diff.splitlines()
    assert len(window.text.splitlines()) <= most
    assert (window.above or window.below) == (len(everything) > most)
    head, *shown = window.lines
    assert "\n".join(shown) in diff and head.startswith("@@ ")
    if head not in everything:
        (own, *_) = parts("\n".join(window.lines))
        _, old, _, new = numbers(own)
        assert old == sum(row.text[0] in " -" for row in rows(own))
        assert new == sum(row.text[0] in " +" for row in rows(own))
