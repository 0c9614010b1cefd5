"""Our part of a file: put in, renewed, and taken out without a trace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.setup import agent_instructions, git_hooks
from serve.setup.file_edit import BrokenFence, Fences

FENCES = Fences(b"<<", b">>", breaks=2)
PART = b"<<\nours\n>>"
# Lines as people's editors leave them: any ends, blank ones, none at the end.
LINES = st.lists(st.sampled_from([b"a", b"", b"<", b">> <<", b"\xff"]), max_size=6)
TEXTS = st.builds(
    lambda lines, eol, last: eol.join(lines) + last,
    LINES,
    st.sampled_from([b"\n", b"\r\n"]),
    st.sampled_from([b"", b"\n"]),
)


@given(text=TEXTS, newer=st.booleans())
def test_added_and_removed_leaves_every_byte(text: bytes, newer: bool) -> None:
    """Whatever a file ends with, what was put at its end is taken out again without a trace."""
    added = FENCES.added(text, PART, at=len(text))
    if newer:
        added = FENCES.renewed(added, b"<<\nother words\n>>")
    assert FENCES.encloses(added)
    assert FENCES.removed(added) == text


@given(text=TEXTS, first=st.booleans())
def test_the_block_leaves_every_byte_of_a_hook(text: bytes, first: bool) -> None:
    """The same for a hook's block, which goes to its top, or under its first line."""
    hook = b"#!/bin/sh\n" + text if first else text
    added = git_hooks.FENCES.added(hook, git_hooks.BLOCK, at=10 if first else 0)
    assert b"\r" not in added.replace(text, b"")
    assert git_hooks.FENCES.removed(added) == hook


def test_a_hook_of_one_line_without_an_end() -> None:
    """A hook that is nothing but its first line, without a line break, gets it back so."""
    added = git_hooks.FENCES.added(b"#!/bin/sh", git_hooks.BLOCK, at=9)
    assert added == b"#!/bin/sh\n" + git_hooks.BLOCK
    assert git_hooks.FENCES.removed(added) == b"#!/bin/sh"


@pytest.mark.parametrize(
    ("text", "added"),
    [
        (b"", b"<<\nours\n>>\n"),
        (b"a\n", b"a\n\n<<\nours\n>>\n"),
        (b"a", b"a\n\n<<\nours\n>>"),
        (b"a\r\n", b"a\r\n\r\n<<\r\nours\r\n>>\r\n"),
    ],
)
def test_a_blank_line_before_it(text: bytes, added: bytes) -> None:
    """A stanza follows a blank line, in the line ends of the file."""
    assert FENCES.added(text, PART, at=len(text)) == added


def test_renewing_is_idempotent_and_leaves_one() -> None:
    """Several parts become one, in the place of the first."""
    twice = b"a\n<<\nold\n>>\nb\n<<\nolder\n>>\nc\n"
    assert FENCES.renewed(twice, PART) == b"a\n" + PART + b"\nb\nc\n"
    assert FENCES.renewed(FENCES.renewed(twice, PART), PART) == b"a\n" + PART + b"\nb\nc\n"


def test_a_mark_without_its_end_is_refused() -> None:
    """What is ours cannot be told where the second mark is missing."""
    with pytest.raises(BrokenFence, match="has no"):
        FENCES.removed(b"a\n<<\nb\n")


def test_both_parts_are_between_their_marks() -> None:
    """The texts that ship are what their fences enclose."""
    for fences, part in [
        (git_hooks.FENCES, git_hooks.BLOCK),
        (agent_instructions.FENCES, agent_instructions.STANZA),
    ]:
        assert fences.removed(part + b"\n") == b""
        assert part.startswith(fences.start) and part.endswith(fences.end)
