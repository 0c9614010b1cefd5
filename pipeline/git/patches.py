"""The `@@` parts of a patch -> line numbers and texts; pure.

Lines are handled in runs of one kind: only a long history shows what a loop over each line costs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

# Kept of a diff, for display. People read excerpts of some hundred lines; this is about 1,500.
DIFF_BYTES: Final = 64 << 10
# Kept of the added, and of the removed, text. The encoder reads 256 tokens of it, the words lane all.
TEXT_BYTES: Final = 64 << 10
# Lines of a patch whose numbers are listed. A patch of more is no one's handwriting; its counts stay exact.
LISTED_LINES: Final = 100_000

PART: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
HEADS: Final = re.compile(rb"^@@ .*", re.MULTILINE)
HEAD: Final = re.compile(rb"@")
RUN: Final = re.compile(rb" +|\++|-+|\\+")
SAME, PLUS, MINUS = b" +-"


class Part(NamedTuple):
    """One `@@` part of a file's diff."""

    old_start: int  # as git prints it: 1-based, or the line before where `old_count` is 0
    old_count: int  # lines of the old file it covers, context included
    new_start: int  # as `old_start`, in the new file
    new_count: int
    header: str  # git's section heading: the line that opens the enclosing function
    added: tuple[int, ...]  # 1-based numbers of the added lines, in the new file
    removed: tuple[int, ...]  # 1-based numbers of the removed lines, in the old file


@dataclass(frozen=True, slots=True)
class Patch:
    """What a hunk keeps of a file's diff."""

    parts: tuple[Part, ...]
    diff: str  # the `@@` parts as text, cut after DIFF_BYTES
    diff_truncated: bool
    added_text: str  # the added lines without their `+`, cut after TEXT_BYTES
    removed_text: str
    complete: bool  # whether every line is listed in `parts`


NOTHING: Final = Patch((), "", False, "", "", True)


def body(data: bytes) -> bytes:
    """The `@@` parts of a patch without the header lines before them."""
    start = data.find(b"\n@@ ")
    return data[start + 1 :] if start >= 0 else b""


def read(parts: bytes) -> Patch:
    """Line numbers and texts of a patch's `@@` parts."""
    if not parts:
        return NOTHING
    lines, complete = listed(parts)
    scan = _scanned(lines)
    diff, truncated = _cut(parts, DIFF_BYTES)
    return Patch(
        parts=tuple(scan.parts),
        diff=diff,
        diff_truncated=truncated,
        added_text=_text(lines, scan.plus),
        removed_text=_text(lines, scan.minus),
        complete=complete,
    )


def bare(parts: bytes) -> tuple[Part, ...]:
    """The parts of a diff without context, by their heads alone."""
    return tuple(_bare(match.group()) for match in HEADS.finditer(parts))


def listed(parts: bytes) -> tuple[list[bytes], bool]:
    """The lines, as many as are listed, and whether that is all of them."""
    lines = parts.split(b"\n", LISTED_LINES)
    return lines, not lines.pop()


def marks(lines: Sequence[bytes]) -> bytes:
    """The first character of each line."""
    return bytes([line[0] for line in lines])


def numbers(head: bytes) -> tuple[int, int, int, int]:
    """Where a part starts and how many lines it covers: in the old file, then in the new."""
    old, old_count, new, new_count = PART.match(head).group(1, 2, 3, 4)  # type: ignore[union-attr]  # it is a head
    return int(old), int(old_count or 1), int(new), int(new_count or 1)


@dataclass(slots=True)
class _Scan:
    """What one pass over a patch's lines finds."""

    parts: list[Part] = field(default_factory=list)
    plus: list[slice] = field(default_factory=list)  # where the added lines are
    minus: list[slice] = field(default_factory=list)


def _scanned(lines: Sequence[bytes]) -> _Scan:
    scan = _Scan()
    kinds = marks(lines)
    heads = [match.start() for match in HEAD.finditer(kinds)]
    for start, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        scan.parts.append(_part(lines[start], kinds, start + 1, end, scan))
    return scan


def _part(head: bytes, kinds: bytes, start: int, end: int, scan: _Scan) -> Part:
    old_start, old_count, new_start, new_count = numbers(head)
    old, new = old_start, new_start
    added: list[int] = []
    removed: list[int] = []
    for match in RUN.finditer(kinds, start, end):
        first, last = match.span()
        mark, count = kinds[first], last - first
        if mark == PLUS:
            scan.plus.append(slice(first, last))
            added.extend(range(new, new + count))
            new += count
        elif mark == MINUS:
            scan.minus.append(slice(first, last))
            removed.extend(range(old, old + count))
            old += count
        elif mark == SAME:
            old, new = old + count, new + count
    header = head.split(b"@@", 2)[2].decode("utf-8", errors="replace").strip()
    return Part(old_start, old_count, new_start, new_count, header, tuple(added), tuple(removed))


def _bare(head: bytes) -> Part:
    old, old_count, new, new_count = numbers(head)
    added, removed = range(new, new + new_count), range(old, old + old_count)
    return Part(old, old_count, new, new_count, "", tuple(added), tuple(removed))


def _text(lines: Sequence[bytes], places: Sequence[slice]) -> str:
    chosen = [line[1:] for place in places for line in lines[place]]
    return _cut(b"\n".join(chosen), TEXT_BYTES)[0]


def _cut(text: bytes, limit: int) -> tuple[str, bool]:
    """The text up to the limit, ended at a line where one ends near it, never inside a character."""
    if len(text) <= limit:
        return text.decode("utf-8", errors="replace"), False
    end = text.rfind(b"\n", limit * 3 // 4, limit) + 1 or limit
    while text[end] & 0xC0 == 0x80 and end > limit - 4:
        end -= 1
    return text[:end].decode("utf-8", errors="replace"), True
