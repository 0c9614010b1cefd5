"""Two contents and the diff between them -> the ranges that were replaced; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from pipeline.source.content import Content, Place

# Blank lines looked over before an edit; where there are more, less of the old tree is reused.
FURTHEST_BACK: Final = 1_000


class Part(Protocol):
    """The lines of one `@@` part, counted from 1, that were removed and added."""

    @property
    def old_start(self) -> int:
        """First line of the old content; the line before, when it has none."""

    @property
    def old_count(self) -> int:
        """Lines of the old content, context included."""

    @property
    def new_start(self) -> int:
        """As `old_start`, in the new content."""

    @property
    def new_count(self) -> int:
        """As `old_count`, in the new content."""

    @property
    def added(self) -> Sequence[int]:
        """Lines of the new content that were added, in order."""

    @property
    def removed(self) -> Sequence[int]:
        """Lines of the old content that were removed, in order."""


class Edit(NamedTuple):
    """What lay between two places of the old content is now what lies between two of the new one."""

    old_start: Place
    old_end: Place
    new_start: Place
    new_end: Place


def edits(old: Content, new: Content, parts: Sequence[Part]) -> tuple[Edit, ...] | None:
    """The replaced ranges in order; None when the parts do not turn `old` into `new`.

    A tree that is told of an edit that did not happen stays wrong in silence, so what lies between
    the edits is compared byte for byte.
    """
    found = tuple(_edit(part, old, new) for part in parts)
    was, now = old.source, new.source
    old_end = new_end = 0
    for edit in found:
        kept = was[old_end : edit.old_start.byte] == now[new_end : edit.new_start.byte]
        if not kept or edit.old_start.byte < old_end or edit.new_start.byte < new_end:
            return None
        old_end, new_end = edit.old_end.byte, edit.new_end.byte
    return found if was[old_end:] == now[new_end:] else None


def reaching_back(found: Sequence[Edit], old: Content, new: Content) -> Iterator[Edit]:
    """The edits, each begun at the last character that is not blank before it.

    A token that looked ahead into an edit is read again, and in Python the line break and the dedent before
    a definition do, both without a character of their own. The parser then stands before them while the
    old tree, which it reuses by position, stands behind: it lets go of every definition that follows. An
    edit that covers a character of the line before keeps the two together: half the work of an average parse.
    """
    kept_from = 0
    for edit in found:
        above = new.source[max(kept_from, edit.new_start.byte - FURTHEST_BACK) : edit.new_start.byte]
        filled = len(above.rstrip())
        if filled:
            back, rows = len(above) - filled + 1, above.count(b"\n", filled - 1)
            starts = (_before(old, edit.old_start, back, rows), _before(new, edit.new_start, back, rows))
            edit = Edit(starts[0], edit.old_end, starts[1], edit.new_end)
        yield edit
        kept_from = edit.new_end.byte


def _before(content: Content, place: Place, back: int, rows: int) -> Place:
    """The place so many bytes, and with them so many line breaks, further up."""
    byte, row = place.byte - back, place.point[0] - rows
    return Place(byte, (row, byte - content.place(row).byte))


def _edit(part: Part, old: Content, new: Content) -> Edit:
    """One edit from the first to the last changed line; the part's context stays outside."""
    # A side without lines names the line before the gap.
    old_row = part.old_start - (part.old_count > 0)
    new_row = part.new_start - (part.new_count > 0)
    above = min(
        part.removed[0] - 1 - old_row if part.removed else part.old_count,
        part.added[0] - 1 - new_row if part.added else part.new_count,
    )
    below = min(
        old_row + part.old_count - part.removed[-1] if part.removed else part.old_count - above,
        new_row + part.new_count - part.added[-1] if part.added else part.new_count - above,
    )
    return Edit(
        old.place(old_row + above),
        old.place(old_row + part.old_count - below),
        new.place(new_row + above),
        new.place(new_row + part.new_count - below),
    )
