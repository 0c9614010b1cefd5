"""Parser of unified diffs: the `@@` parts of a patch as line numbers and texts.

The parser handles runs of lines with the same marker (`+`, `-`, space), because a loop over single lines is slow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

# Limit on the diff stored for display: about 1,500 lines; an excerpt shows at most some hundred.
MAX_DIFF_BYTES: Final = 64 << 10
# Limit on the added text and on the removed text. The encoder reads 256 tokens of it, the full-text index all.
MAX_TEXT_BYTES: Final = 64 << 10
# Limit on the lines of a patch that PatchPart lists. Nobody writes longer patches by hand; their counts are exact.
MAX_LISTED_LINES: Final = 100_000

PART_HEADER: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
HEADER_LINE: Final = re.compile(rb"^@@ .*", re.MULTILINE)
HEADER_MARKER: Final = re.compile(rb"@")
MARKER_RUN: Final = re.compile(rb" +|\++|-+|\\+")
CONTEXT, PLUS, MINUS = b" +-"


class PatchPart(NamedTuple):
    """One `@@` part of a file's diff."""

    old_start: int  # as git prints it: 1-based, or the line before where `old_count` is 0
    old_count: int  # lines of the old file it covers, context included
    new_start: int  # as `old_start`, in the new file
    new_count: int
    header: str  # text after `@@`: the line above that git takes for the start of a function
    added: tuple[int, ...]  # 1-based numbers of the added lines, in the new file
    removed: tuple[int, ...]  # 1-based numbers of the removed lines, in the old file


@dataclass(frozen=True, slots=True)
class Patch:
    """Parsed diff of one file, as a hunk stores it."""

    parts: tuple[PatchPart, ...]
    diff: str  # the `@@` parts as text, cut after MAX_DIFF_BYTES
    diff_truncated: bool
    added_text: str  # the added lines without their `+`, cut after MAX_TEXT_BYTES
    removed_text: str
    is_complete: bool  # whether `parts` list every line


NO_PARTS: Final = Patch((), "", False, "", "", True)


def strip_file_header(data: bytes) -> bytes:
    """Return a patch's `@@` parts, without the file header lines before them."""
    start = data.find(b"\n@@ ")
    return data[start + 1 :] if start >= 0 else b""


def parse_patch(parts: bytes) -> Patch:
    """Parse a patch's `@@` parts into line numbers and texts."""
    if not parts:
        return NO_PARTS
    lines, is_complete = split_lines(parts)
    scan = _scan(lines)
    diff, is_truncated = _truncate(parts, MAX_DIFF_BYTES)
    return Patch(
        parts=tuple(scan.parts),
        diff=diff,
        diff_truncated=is_truncated,
        added_text=_join_lines(lines, scan.added_slices),
        removed_text=_join_lines(lines, scan.removed_slices),
        is_complete=is_complete,
    )


def parse_part_headers(parts: bytes) -> tuple[PatchPart, ...]:
    """Parse the parts of a diff without context lines, from their headers alone."""
    return tuple(_build_part_from_header(match.group()) for match in HEADER_LINE.finditer(parts))


def split_lines(parts: bytes) -> tuple[list[bytes], bool]:
    """Return the first MAX_LISTED_LINES lines, and whether these are all."""
    lines = parts.split(b"\n", MAX_LISTED_LINES)
    return lines, not lines.pop()


def get_line_markers(lines: Sequence[bytes]) -> bytes:
    """Return the first character of each line: `@`, space, `+`, `-` or a backslash."""
    return bytes([line[0] for line in lines])


def parse_line_ranges(header: bytes) -> tuple[int, int, int, int]:
    """Parse a part's header into old start, old count, new start and new count."""
    old, old_count, new, new_count = PART_HEADER.match(header).group(1, 2, 3, 4)  # type: ignore[union-attr]  # a header
    return int(old), int(old_count or 1), int(new), int(new_count or 1)


@dataclass(slots=True)
class _Scan:
    """Result of one pass over a patch's lines."""

    parts: list[PatchPart] = field(default_factory=list)
    added_slices: list[slice] = field(default_factory=list)  # of the patch's lines
    removed_slices: list[slice] = field(default_factory=list)


def _scan(lines: Sequence[bytes]) -> _Scan:
    scan = _Scan()
    markers = get_line_markers(lines)
    header_rows = [match.start() for match in HEADER_MARKER.finditer(markers)]
    for start, end in zip(header_rows, [*header_rows[1:], len(lines)], strict=True):
        scan.parts.append(_parse_part(lines[start], markers, start + 1, end, scan))
    return scan


def _parse_part(header_line: bytes, markers: bytes, start: int, end: int, scan: _Scan) -> PatchPart:
    old_start, old_count, new_start, new_count = parse_line_ranges(header_line)
    old, new = old_start, new_start
    added: list[int] = []
    removed: list[int] = []
    for match in MARKER_RUN.finditer(markers, start, end):
        first, last = match.span()
        marker, count = markers[first], last - first
        if marker == PLUS:
            scan.added_slices.append(slice(first, last))
            added.extend(range(new, new + count))
            new += count
        elif marker == MINUS:
            scan.removed_slices.append(slice(first, last))
            removed.extend(range(old, old + count))
            old += count
        elif marker == CONTEXT:
            old, new = old + count, new + count
    header = header_line.split(b"@@", 2)[2].decode("utf-8", errors="replace").strip()
    return PatchPart(old_start, old_count, new_start, new_count, header, tuple(added), tuple(removed))


def _build_part_from_header(header: bytes) -> PatchPart:
    old, old_count, new, new_count = parse_line_ranges(header)
    added, removed = range(new, new + new_count), range(old, old + old_count)
    return PatchPart(old, old_count, new, new_count, "", tuple(added), tuple(removed))


def _join_lines(lines: Sequence[bytes], slices: Sequence[slice]) -> str:
    selected_lines = [line[1:] for part in slices for line in lines[part]]
    return _truncate(b"\n".join(selected_lines), MAX_TEXT_BYTES)[0]


def _truncate(data: bytes, limit: int) -> tuple[str, bool]:
    """Return the first `limit` bytes, and whether there were more. Cuts at a line end near the limit if possible."""
    if len(data) <= limit:
        return data.decode("utf-8", errors="replace"), False
    end = data.rfind(b"\n", limit * 3 // 4, limit) + 1 or limit
    while data[end] & 0xC0 == 0x80 and end > limit - 4:
        end -= 1
    return data[:end].decode("utf-8", errors="replace"), True
