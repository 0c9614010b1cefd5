"""Parser of unified diffs: texts and line numbers of `@@` parts; lines in which a merge differs from every parent.

A part is an `@@` section of a diff (git calls it a hunk). A marker is the first character of a line: `@`, `+`, `-`,
space or backslash. The parser handles runs of lines with the same marker, because a loop over single lines is slow.

A merge itself changed only the lines that differ from every parent. `git show --cc` prints a column of markers for each
parent, and marks these lines in every column. The other changed lines came from a parent's branch, and are indexed with
the commits of that branch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

# Limit on the diff that is stored for display: about 1,500 lines. An excerpt shows at most a few hundred lines.
MAX_DIFF_BYTES: Final = 64 << 10
# Limit on the added text of a hunk, and on its removed text. It matters only to the full-text index, which reads all of
# it: the encoder reads 192 tokens.
MAX_TEXT_BYTES: Final = 64 << 10
# Maximum number of lines of a patch to parse. Nobody writes longer patches by hand. The recorded numbers of added and
# removed lines also count lines after this limit, except for merges.
MAX_LISTED_LINES: Final = 100_000

PART_HEADER: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
# Matches the header line of each part.
HEADER_LINE: Final = re.compile(rb"^@@ .*", re.MULTILINE)
# Matches a run of lines with the same marker, in the markers of a patch.
MARKER_RUN: Final = re.compile(rb" +|\++|-+|\\+")
# Matches the marker of a header, of context lines, or of a block (removed lines, then added lines). A backslash marks
# git's note that the line before has no line feed. `(?=.)` prevents an empty match at the end.
MARKER_GROUP: Final = re.compile(rb"@| +\\*|(?=.)(?P<removed>-*)\\*(?P<added>\+*)\\*", re.DOTALL)
# Markers as byte values.
HEADER, CONTEXT, PLUS, MINUS = b"@ +-"

# Patterns of definitions in section headings, most reliable first: `impl Trait for Name`; a keyword and a name, such as
# `impl<T> Name` or `func (r *Receiver) Name`; a constant; a name with parameters.
_QUALIFIED: Final = r"(?:[\w$]+(?:<[^<>]*>)?[.:]+)*([^\W\d][\w$]*)"
_DEFINITION_PATTERNS: Final = (
    re.compile(r"\bimpl\b.*\sfor\s+(?:&\s*)?(?:mut\s+)?" + _QUALIFIED),
    re.compile(
        r"\b(?:class|defmodule|defp?|enum|fn|func?|function|fun|impl|interface|macro|module|namespace|object"
        r"|package|protocol|record|struct|sub|trait|type|union)\b(?:<[^>]*>)?"
        r"[\s*]+(?:<[^>]*>\s*|\([^()]*\)\s*)?" + _QUALIFIED
    ),
    re.compile(r"\b(?:const|let|val|var)\s+([^\W\d][\w$]*)\s*="),
    re.compile(r"([^\W\d][\w$]*)\s*(?:<[^<>()]*>)?\("),
)

# Matches a section heading that is a statement and no definition.
_CONTROL_STATEMENT: Final = re.compile(
    r"\W*(?:assert|catch|elif|else|except|for|if|match|return|switch|throw|try|while|with)\b"
)


class PatchPart(NamedTuple):
    """One `@@` part of a file's diff."""

    old_start: int  # 1-based number of the first old line; if there is none, of the line before the part
    old_count: int  # number of old lines, context included
    new_start: int  # 1-based number of the first new line; if there is none, of the line before the part
    new_count: int  # number of new lines, context included
    section_heading: str  # text after the second `@@`: git's guess at the function that contains the part
    added: tuple[int, ...]  # 1-based numbers of the added lines, in the new file
    removed: tuple[int, ...]  # 1-based numbers of the removed lines, in the old file


def create_part_without_context(old_start: int, old_count: int, new_start: int, new_count: int) -> PatchPart:
    """Return a part whose old lines are all removed, and whose new lines are all added."""
    added, removed = range(new_start, new_start + new_count), range(old_start, old_start + old_count)
    return PatchPart(old_start, old_count, new_start, new_count, "", tuple(added), tuple(removed))


@dataclass(frozen=True, slots=True)
class Patch:
    """Parsed diff of one file, with its texts cut for storage."""

    parts: tuple[PatchPart, ...]
    diff: str  # text of the `@@` parts, cut after MAX_DIFF_BYTES
    diff_truncated: bool
    added_text: str  # the added lines without their `+`, cut after MAX_TEXT_BYTES
    removed_text: str  # the removed lines without their `-`, cut after MAX_TEXT_BYTES
    is_complete: bool  # whether `parts` cover all lines of the patch, and not only the first MAX_LISTED_LINES


# Parsed patch without parts.
NO_PARTS: Final = Patch((), "", False, "", "", True)


def strip_file_header(data: bytes) -> bytes:
    """Return the text of a patch's parts, without the file header lines before them."""
    start = data.find(b"\n@@ ")
    return data[start + 1 :] if start >= 0 else b""


def parse_patch(parts_text: bytes) -> Patch:
    """Parse the text of a patch's parts into line numbers and texts."""
    if not parts_text:
        return NO_PARTS
    lines, is_complete = split_lines(parts_text)
    scan = _scan(lines)
    diff, is_truncated = _truncate(parts_text, MAX_DIFF_BYTES)
    return Patch(
        parts=tuple(scan.parts),
        diff=diff,
        diff_truncated=is_truncated,
        added_text=_join_lines(lines, scan.added_slices),
        removed_text=_join_lines(lines, scan.removed_slices),
        is_complete=is_complete,
    )


def remove_context(parts_text: str) -> str:
    """Return the text of a patch's parts without their context lines."""
    return "\n".join(line for line in parts_text.split("\n") if not line.startswith(" "))


def split_lines(parts_text: bytes) -> tuple[list[bytes], bool]:
    """Return the first MAX_LISTED_LINES lines without their line feeds, and whether these are all lines."""
    lines = parts_text.split(b"\n", MAX_LISTED_LINES)
    remaining_text = lines.pop()
    return lines, not remaining_text


def get_line_markers(lines: Sequence[bytes]) -> bytes:
    """Return the marker of each line, one byte per line."""
    return bytes([line[0] for line in lines])


def parse_line_ranges(header_line: bytes) -> tuple[int, int, int, int]:
    """Parse a part's header line into old start, old count, new start and new count."""
    match = PART_HEADER.match(header_line)
    old_start, old_count, new_start, new_count = match.group(1, 2, 3, 4)  # type: ignore[union-attr]  # it matches
    return int(old_start), int(old_count or 1), int(new_start), int(new_count or 1)


@dataclass(slots=True)
class _Scan:
    """Result of one pass over the lines of a patch. The slices select runs of added or removed lines of the patch."""

    parts: list[PatchPart] = field(default_factory=list)
    added_slices: list[slice] = field(default_factory=list)
    removed_slices: list[slice] = field(default_factory=list)


def _scan(lines: Sequence[bytes]) -> _Scan:
    scan = _Scan()
    markers = get_line_markers(lines)
    header_rows = [match.start() for match in re.finditer(rb"@", markers)]
    for start, end in zip(header_rows, [*header_rows[1:], len(lines)], strict=True):
        scan.parts.append(_parse_part(lines[start], markers, start + 1, end, scan))
    return scan


def _parse_part(header_line: bytes, markers: bytes, start: int, end: int, scan: _Scan) -> PatchPart:
    """Return the part with the lines from `start` to `end`. Append the slices of its changed lines to `scan`."""
    old_start, old_count, new_start, new_count = parse_line_ranges(header_line)
    old_line, new_line = old_start, new_start
    added_numbers: list[int] = []
    removed_numbers: list[int] = []
    for match in MARKER_RUN.finditer(markers, start, end):
        run_start, run_end = match.span()
        marker, count = markers[run_start], run_end - run_start
        if marker == PLUS:
            scan.added_slices.append(slice(run_start, run_end))
            added_numbers.extend(range(new_line, new_line + count))
            new_line += count
        elif marker == MINUS:
            scan.removed_slices.append(slice(run_start, run_end))
            removed_numbers.extend(range(old_line, old_line + count))
            old_line += count
        elif marker == CONTEXT:
            old_line, new_line = old_line + count, new_line + count
    section_heading = header_line.split(b"@@", 2)[2].decode("utf-8", errors="replace").strip()
    return PatchPart(
        old_start,
        old_count,
        new_start,
        new_count,
        section_heading,
        tuple(added_numbers),
        tuple(removed_numbers),
    )


def _join_lines(lines: Sequence[bytes], slices: Sequence[slice]) -> str:
    selected_lines = [line[1:] for run in slices for line in lines[run]]
    return _truncate(b"\n".join(selected_lines), MAX_TEXT_BYTES)[0]


def _truncate(data: bytes, limit: int) -> tuple[str, bool]:
    """Return the first `limit` bytes as text, and whether there were more. Prefer to cut at a line end."""
    if len(data) <= limit:
        return data.decode("utf-8", errors="replace"), False
    line_end = data.rfind(b"\n", limit * 3 // 4, limit) + 1
    end = line_end or limit
    # Do not cut inside a UTF-8 character. Its bytes after the first, at most three, have the form 10xxxxxx.
    while data[end] & 0xC0 == 0x80 and end > limit - 4:
        end -= 1
    return data[:end].decode("utf-8", errors="replace"), True


@dataclass(frozen=True, slots=True)
class Block:
    """Adjacent removed and added lines of a diff.

    `old_start`: number of the first removed line. `new_start`: number of the first added line. If there is no such
    line, it is the number of the line after the block (in `PatchPart`, of the line before).
    `section_heading`: text after the second `@@` of the part's header.
    `removed_lines`, `added_lines`: lines with their markers.
    """

    old_start: int
    new_start: int
    section_heading: bytes
    removed_lines: list[bytes]
    added_lines: list[bytes]

    @property
    def new_end(self) -> int:
        """Number of the new line that follows the block."""
        return self.new_start + len(self.added_lines)


@dataclass(frozen=True, slots=True)
class MergeChange:
    """Lines of one file that differ from every parent of a merge."""

    parent: int  # number of the parent with the smallest diff, from 0
    parts_text: bytes  # parts of the diff with that parent, reduced to these lines
    added_count: int  # number of added lines in `parts_text`
    removed_count: int  # number of removed lines in `parts_text`


def extract_merge_lines(diffs_by_parent: Sequence[bytes]) -> MergeChange:
    """Return the lines that differ from all parents. `diffs_by_parent`: text of the parts of the diff with each parent.

    Lines of a diff after the first MAX_LISTED_LINES count as unchanged.
    """
    blocks_by_parent = [list(parse_blocks(parts_text)) for parts_text in diffs_by_parent]
    closest_parent = min(
        range(len(blocks_by_parent)), key=lambda parent: _count_changed_lines(blocks_by_parent[parent])
    )
    added_lines_by_parent = [
        {number for block in blocks for number in range(block.new_start, block.new_end)}
        for blocks in blocks_by_parent
    ]
    merge_lines = set.intersection(*added_lines_by_parent)
    other_blocks = [blocks for parent, blocks in enumerate(blocks_by_parent) if parent != closest_parent]
    pieces = [
        piece
        for block in blocks_by_parent[closest_parent]
        for piece in _split_block(block, merge_lines, other_blocks)
    ]
    return MergeChange(
        parent=closest_parent,
        parts_text=b"".join(_format_block(piece) for piece in pieces),
        added_count=sum(len(piece.added_lines) for piece in pieces),
        removed_count=sum(len(piece.removed_lines) for piece in pieces),
    )


def parse_blocks(parts_text: bytes) -> Iterator[Block]:
    """Yield the blocks in the first MAX_LISTED_LINES lines of a diff's parts, in order."""
    lines, _ = split_lines(parts_text)
    markers = get_line_markers(lines)
    old_line = new_line = 0
    section_heading = b""
    for match in MARKER_GROUP.finditer(markers):
        start, end = match.span()
        if markers[start] == HEADER:
            old_start, old_count, new_start, new_count = parse_line_ranges(lines[start])
            # If a part has no old (or no new) lines, git prints the number of the line before the part.
            old_line, new_line = old_start + (old_count == 0), new_start + (new_count == 0)
            section_heading = lines[start].split(b"@@", 2)[2]
        elif markers[start] == CONTEXT:
            count = markers.count(CONTEXT, start, end)
            old_line, new_line = old_line + count, new_line + count
        else:
            removed, added = (lines[slice(*match.span(group))] for group in ("removed", "added"))
            yield Block(old_line, new_line, section_heading, removed, added)
            old_line, new_line = old_line + len(removed), new_line + len(added)


def _count_changed_lines(blocks: Sequence[Block]) -> int:
    return sum(len(block.removed_lines) + len(block.added_lines) for block in blocks)


def _split_block(
    block: Block, merge_lines: set[int], other_blocks: Sequence[Sequence[Block]]
) -> Iterator[Block]:
    """Yield the pieces of a block that the merge itself changed.

    `merge_lines`: numbers of the new lines that differ from every parent. `other_blocks`: blocks of the diff with each
    other parent.
    - All added lines are merge lines: yield the whole block.
    - Only some are: yield each run of merge lines, without the removed lines of the block. The other added lines came
      from a branch, and this branch replaced the removed lines by them.
    - There are no added lines: yield the block if the diffs with all other parents remove lines at this place, too.
    """
    is_merge_line = [number in merge_lines for number in range(block.new_start, block.new_end)]
    if all(is_merge_line):
        if block.added_lines or all(_removes_lines_at(block.new_start, blocks) for blocks in other_blocks):
            yield block
        return
    next_old_line = block.old_start + len(block.removed_lines)
    start = 0
    for is_merge_run, run in groupby(is_merge_line):
        end = start + len(list(run))
        if is_merge_run:
            yield Block(
                next_old_line,
                block.new_start + start,
                block.section_heading,
                removed_lines=[],
                added_lines=block.added_lines[start:end],
            )
        start = end


def _removes_lines_at(line: int, blocks: Sequence[Block]) -> bool:
    """Return whether a block removes lines at or next to a line of the new file."""
    return any(block.removed_lines and block.new_start <= line <= block.new_end for block in blocks)


def _format_block(block: Block) -> bytes:
    """Return the text of a part that has only this block.

    If the block removes (or adds) no lines, the header has the number of the old (or new) line before it, as in git.
    """
    removed, added = block.removed_lines, block.added_lines
    old_start, new_start = block.old_start - (not removed), block.new_start - (not added)
    ranges = b"@@ -%d,%d +%d,%d @@" % (old_start, len(removed), new_start, len(added))
    return b"\n".join([ranges + block.section_heading, *removed, *added, b""])


def parse_defined_name(section_heading: str) -> str | None:
    """Return the name of the symbol that a section heading defines; None if it does not look like a definition."""
    if _CONTROL_STATEMENT.match(section_heading):
        return None
    matches = (pattern.search(section_heading) for pattern in _DEFINITION_PATTERNS)
    return next((match[1] for match in matches if match), None)
