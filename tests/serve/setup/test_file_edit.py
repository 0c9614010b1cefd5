"""Managed sections: insertion, update, and removal that restores the file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.setup import git_hooks, init
from serve.setup.file_edit import ManagedSection, SectionMarkerError

SECTION = ManagedSection(b"<<", b">>")
CONTENT = b"<<\nours\n>>"
# Texts with any line endings, blank lines, and with or without a final line break.
LINES = st.lists(st.sampled_from([b"a", b"", b"<", b">> <<", b"\xff"]), max_size=6)
TEXTS = st.builds(
    lambda lines, eol, last: eol.join(lines) + last,
    LINES,
    st.sampled_from([b"\n", b"\r\n"]),
    st.sampled_from([b"", b"\n", b"\r"]),
)


@given(text=TEXTS, is_updated=st.booleans())
def test_insert_and_remove_restores_every_byte(text: bytes, is_updated: bool) -> None:
    """Removing a section from the end of a file restores every byte."""
    text_with_section = SECTION.insert_into(text, CONTENT, offset=len(text))
    if is_updated:
        text_with_section = SECTION.update_in(text_with_section, b"<<\nother words\n>>")
    assert SECTION.is_in(text_with_section)
    assert text_with_section.endswith(b"\n")
    assert SECTION.remove_from(text_with_section) == text


@given(text=TEXTS, has_shebang=st.booleans())
def test_hook_snippet_restores_every_byte(text: bytes, has_shebang: bool) -> None:
    """Removing the snippet from the top of a hook, or below its first line, restores every byte."""
    hook = b"#!/bin/sh\n" + text if has_shebang else text
    hook_with_snippet = git_hooks.SECTION.insert_into(
        hook, git_hooks.HOOK_SNIPPET, offset=10 if has_shebang else 0
    )
    assert b"\r" not in hook_with_snippet.replace(text, b"")
    assert git_hooks.SECTION.remove_from(hook_with_snippet) == hook


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", b"\n<<\nours\n>>\n"),
        (b"a\n", b"a\n\n<<\nours\n>>\n"),
        (b"a", b"a\n<<\nours\n>>\n"),
        (b"a\r\n", b"a\r\n\r\n<<\r\nours\r\n>>\r\n"),
    ],
)
def test_section_follows_a_line_break(text: bytes, expected: bytes) -> None:
    """A section follows a line break of its own, with the line endings of the file."""
    assert SECTION.insert_into(text, CONTENT, offset=len(text)) == expected


def test_update_is_idempotent_and_merges_sections() -> None:
    """Several sections become one, in the place of the first."""
    twice = b"a\n<<\nold\n>>\nb\n<<\nolder\n>>\nc\n"
    assert SECTION.update_in(twice, CONTENT) == b"a\n" + CONTENT + b"\nb\nc\n"
    assert SECTION.update_in(SECTION.update_in(twice, CONTENT), CONTENT) == b"a\n" + CONTENT + b"\nb\nc\n"


def test_missing_end_marker_is_an_error() -> None:
    """A start marker without an end marker raises SectionMarkerError."""
    with pytest.raises(SectionMarkerError, match="is not followed by"):
        SECTION.remove_from(b"a\n<<\nb\n")


def test_texts_are_enclosed_by_their_markers() -> None:
    """The shipped texts begin and end with the markers of their sections."""
    for section, text in [
        (git_hooks.SECTION, git_hooks.HOOK_SNIPPET),
        (init.SECTION, init.AGENT_INSTRUCTIONS),
    ]:
        assert section.remove_from(b"\n" + text + b"\n") == b""
        assert text.startswith(section.start) and text.endswith(section.end)
