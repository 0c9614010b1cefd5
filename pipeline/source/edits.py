"""Two contents and the diff between them -> the ranges that were replaced; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pipeline.source.content import Content, Place


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


@dataclass(frozen=True, slots=True)
class Edit:
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


def outer_edit(old: Content, new: Content) -> Edit:
    """The one edit between the first and the last line that differ, for contents without a diff."""
    above = min(_alike(old.source, new.source), len(old.source), len(new.source))
    below = min(_alike(old.source[::-1], new.source[::-1]), len(old.source) - above, len(new.source) - above)
    first = old.row_of(above)
    old_last = old.row_of(len(old.source) - below) + 1
    new_last = new.row_of(len(new.source) - below) + 1
    return Edit(old.place(first), old.place(old_last), new.place(first), new.place(new_last))


def _alike(left: bytes, right: bytes) -> int:
    """How many bytes two contents begin with in common."""
    shorter = min(len(left), len(right))
    differing = np.frombuffer(left, np.uint8, shorter) != np.frombuffer(right, np.uint8, shorter)
    return int(differing.argmax()) if differing.any() else shorter


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
