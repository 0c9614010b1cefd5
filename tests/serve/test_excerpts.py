"""Windows of diffs, and first sentences of messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve import excerpts
from serve.excerpts import (
    OMITTED_MARK,
    DiffWindow,
    find_first_sentence,
    parse_section_header,
    parse_section_lines,
    select_window,
    split_sections,
)

FIRST = "@@ -1,3 +1,3 @@\n import os\n-import sys\n+import re\n"
SECOND = "@@ -10,2 +10,3 @@ class Pool:\n     def get(self):\n+        self.retry()\n         return 1\n"
LONG = "@@ -0,0 +1,100 @@\n" + "".join(f"+line {number}\n" for number in range(1, 101))
RETRY = frozenset({"retri"})


def add_word(text: str, word: str, number: int) -> str:
    """Return the long section with a word added to one of its lines."""
    return text.replace(f"+line {number}\n", f"+line {number} {word}\n")


@pytest.mark.parametrize("max_lines", [4, 40])
def test_short_diff_is_complete(max_lines: int) -> None:
    """A diff that fits is shown completely."""
    assert select_window(FIRST, RETRY, max_lines) == DiffWindow(
        tuple(FIRST.splitlines()), has_more_above=False, has_more_below=False
    )


def test_window_starts_at_the_best_section() -> None:
    """The window starts at the section with the most terms and continues from there."""
    window = select_window(FIRST + SECOND + FIRST, RETRY, 6)
    assert window == DiffWindow(
        (*SECOND.splitlines(), FIRST.splitlines()[0]), has_more_above=True, has_more_below=True
    )
    assert window.text.splitlines()[:2] == [OMITTED_MARK, "@@ -10,2 +10,3 @@ class Pool:"]
    assert select_window(FIRST + SECOND, RETRY, 6) == DiffWindow(
        tuple(SECOND.splitlines()), has_more_above=True, has_more_below=False
    )


@pytest.mark.parametrize("terms", [frozenset[str](), frozenset({"nowhere"}), frozenset({"import"})])
def test_window_starts_at_the_top_otherwise(terms: frozenset[str]) -> None:
    """Without terms, or if no section has more of them than the first, the window starts at the top."""
    assert select_window(FIRST + SECOND, terms, 6) == DiffWindow(
        tuple((FIRST + SECOND).splitlines()[:6]), has_more_above=False, has_more_below=True
    )


def test_changed_lines_count_first() -> None:
    """Terms in changed lines count first; terms in context lines only break ties."""
    around = SECOND.replace("get", "retry").replace("self.retry()", "pass")
    assert select_window(FIRST + around + SECOND, RETRY, 6).lines[2] == "+        self.retry()"
    assert select_window(FIRST + around, RETRY, 6).lines == tuple(around.splitlines())


def test_window_inside_a_long_section() -> None:
    """Of a section longer than the window, the lines near the terms are shown below a header of their own."""
    window = select_window(add_word(LONG, "retry", 50), RETRY, 12)
    assert (window.has_more_above, window.has_more_below, len(window.text.splitlines())) == (True, True, 12)
    assert window.lines[:5] == ("@@ -0,0 +47,10 @@", "+line 47", "+line 48", "+line 49", "+line 50 retry")
    assert select_window(add_word(LONG, "retry", 9), RETRY, 12).lines[0] == "@@ -0,0 +1,100 @@"
    assert select_window(add_word(LONG, "retry", 100), RETRY, 12) == DiffWindow(
        ("@@ -0,0 +91,10 @@", *(f"+line {number}" for number in range(91, 100)), "+line 100 retry"),
        has_more_above=True,
        has_more_below=False,
    )


def test_distinct_terms_count() -> None:
    """A window with two terms is better than one with the same term twice."""
    diff = add_word(add_word(add_word(LONG, "retry retry", 20), "retry", 60), "timeout", 63)
    assert select_window(diff, {"retri", "timeout"}, 12).lines[0] == "@@ -0,0 +57,10 @@"


def test_a_window_of_a_window() -> None:
    """A window of a window keeps its mark, which is no line of the diff."""
    once = select_window(add_word(LONG, "retry", 50), RETRY, 40).text
    assert once.startswith(f"{OMITTED_MARK}\n@@ -0,0 +47,38 @@\n")
    assert select_window(once, (), 12).text == "\n".join(once.split("\n")[:12])
    assert select_window(once, RETRY, 12).lines[4] == "+line 50 retry"
    assert select_window(once, RETRY, 40).text == once


lines = st.lists(
    st.sampled_from(["+retry", "-retry", " retry", "+a", "-b", " c", "\\ No newline", "+"]), min_size=1
)


@given(st.lists(lines, min_size=1, max_size=4), st.integers(4, 12))
def test_windows_are_consistent(sections: list[list[str]], max_lines: int) -> None:
    """A window has at most the allowed lines, which are consecutive in the diff, and a header that counts them."""
    diff = "".join(
        f"@@ -1 +{number} @@\n" + "".join(f"{row}\n" for row in section)
        for number, section in enumerate(sections, 1)
    )
    window = select_window(diff, RETRY, max_lines)
    all_lines = diff.splitlines()
    assert len(window.text.splitlines()) <= max_lines
    assert (window.has_more_above or window.has_more_below) == (len(all_lines) > max_lines)
    header, *shown_lines = window.lines
    assert "\n".join(shown_lines) in diff and header.startswith("@@ ")
    if header not in all_lines:
        (section, *_) = split_sections("\n".join(window.lines))
        _, old, _, new = parse_section_header(section)
        assert old == sum(row.text[0] in " -" for row in parse_section_lines(section))
        assert new == sum(row.text[0] in " +" for row in parse_section_lines(section))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Add it\n\nwith words", "Add it\n\nwith words"),
        ("Add it\n\nwith words and more words", "Add it\n\nwith words …"),
        ("Add it\n\nwith wordy explanations", "Add it\n\nwith wordy …"),
        ("Add it\n\nwith wording of it", "Add it\n\nwith …"),
        (
            "A subject of more characters than the limit\n\nbody",
            "A subject of more characters than the limit",
        ),
        (" " * 40, " …"),
    ],
)
def test_cut_message(message: str, expected: str) -> None:
    """A long message ends with a whole word if that is not long, and keeps its subject."""
    assert excerpts.cut_message(message, 18) == expected


def test_cut_message_of_one_long_word() -> None:
    """A long word, such as encoded data, is cut."""
    assert excerpts.cut_message("Add it\n\n" + "x" * 80, 60) == "Add it\n\n" + "x" * 52 + "…"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("Idle connections\nare closed. Then retry.", "Idle connections are closed."),
        ("* Retry\n\n* Close idle connections\n  at once\n\n* more", "Close idle connections at once"),
        ("retry uploads now\n\nNext one here.", "Next one here."),
        (
            "> They said so long ago.\n\n    code = in(block)\n\nText follows here:\n    x",
            "Text follows here:",
        ),
        ("Fixes #3\n\nSigned-off-by: Ada Lovelace <a@b>\nReviewed-by: Grace Brewster Hopper <g@b>", ""),
        ("fix(upload): close idle connections", "fix(upload): close idle connections"),
        ("-\n\n*\n\n(cherry picked from commit 0123456)", ""),
        ("a" * 80 + " b " + "c" * 77, "a" * 80 + " b " + "c" * 77),
        ("a" * 80 + " b " + "c" * 78 + ". Then retry it.", ""),
        ("This fixes e.g. Foo in the parser. Then retry.", "This fixes e.g. Foo in the parser."),
        ("Retry all uploads\n=================\n\nServers are slow.", "Retry all uploads"),
        ("", ""),
    ],
)
def test_first_sentence(body: str, sentence: str) -> None:
    """The first sentence of the body is prose, says more than the subject and has at most 160 characters."""
    assert find_first_sentence(f"Retry uploads now\n\n{body}\n") == sentence
