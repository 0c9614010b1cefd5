"""Changes that a merge commit made itself: files and lines of its result that differ from every parent.

These are the lines that `git show --cc` marks in every column. Lines that came unchanged from one parent are left
out, because the commits of that branch are indexed already. A part is an `@@` section of a diff (git: hunk).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pipeline.git.patches import CONTEXT, get_line_markers, parse_line_ranges, split_lines

# Mode of a directory as a tree object has it.
TREE_MODE: Final = b"40000"
HEADER_MARKER: Final = ord("@")
# Matches a run of line markers: a part's header, context lines, or a block (removed, then added lines). A backslash
# marks the line in which git notes that the line before has no line break.
MARKER_RUN: Final = re.compile(rb"@| +\\*|(?=.)(?P<removed>-*)\\*(?P<added>\+*)\\*", re.DOTALL)


# Entries of a directory: name -> (mode, raw object id).
TreeEntries: TypeAlias = Mapping[bytes, tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Block:
    """Adjacent removed and added lines of a diff."""

    old_start: (
        int  # number of the first removed line; without removed lines, of the old line that follows the block
    )
    new_start: (
        int  # number of the first added line; without added lines, of the new line that follows the block
    )
    heading: bytes  # text after the second `@@` of the part's header
    removed: list[bytes]
    added: list[bytes]

    @property
    def end(self) -> int:
        """Number of the new line that follows the block."""
        return self.new_start + len(self.added)


@dataclass(frozen=True, slots=True)
class MergeChange:
    """Lines of one file that differ from every parent of a merge."""

    parent: int  # position of the parent with the smallest diff, with which the lines are compared
    parts: bytes  # parts without context lines; old line numbers are that parent's
    added: int  # number of added lines in `parts`
    removed: int  # number of removed lines in `parts`


def has_merge_changes(
    result: TreeEntries, parents: Sequence[TreeEntries], read_tree: Callable[[bytes], TreeEntries]
) -> bool:
    """Check whether some file of a merge differs from every parent, or the merge itself deleted it.

    `read_tree`: returns the entries of a raw object id.

    Directories that equal one parent's are not read, so a clean merge reads only the directories that both sides
    changed. A name that is a file on one side and a directory on another counts as a file that differs.
    """
    pending = [(result, parents)]
    while pending:
        entries, parent_entries = pending.pop()
        for name in set(entries).union(*parent_entries):
            entry, *others = (directory.get(name) for directory in (entries, *parent_entries))
            if entry in others:
                continue
            if any(side is not None and side[0] != TREE_MODE for side in (entry, *others)):
                return True
            child, *parent_children = (
                {} if side is None else read_tree(side[1]) for side in (entry, *others)
            )
            pending.append((child, parent_children))
    return False


def extract_merge_lines(diffs_by_parent: Sequence[bytes]) -> MergeChange:
    """Return the lines that differ from all parents. `diffs_by_parent`: parts of the diff with each parent."""
    blocks_by_parent = [list(parse_blocks(parts)) for parts in diffs_by_parent]
    closest_parent = min(
        range(len(blocks_by_parent)), key=lambda parent: _count_changed_lines(blocks_by_parent[parent])
    )
    merge_lines = set.intersection(
        *({n for block in blocks for n in range(block.new_start, block.end)} for blocks in blocks_by_parent)
    )
    other_blocks = [blocks for parent, blocks in enumerate(blocks_by_parent) if parent != closest_parent]
    pieces = [
        piece
        for block in blocks_by_parent[closest_parent]
        for piece in _split_block(block, merge_lines, other_blocks)
    ]
    return MergeChange(
        parent=closest_parent,
        parts=b"".join(_format_block(piece) for piece in pieces),
        added=sum(len(piece.added) for piece in pieces),
        removed=sum(len(piece.removed) for piece in pieces),
    )


def parse_blocks(parts: bytes) -> Iterator[Block]:
    """Yield the blocks of a diff's parts, in order."""
    lines, _ = split_lines(parts)
    markers = get_line_markers(lines)
    old = new = 0
    heading = b""
    for match in MARKER_RUN.finditer(markers):
        start, end = match.span()
        if markers[start] == HEADER_MARKER:
            old, old_count, new, new_count = parse_line_ranges(lines[start])
            old, new = old + (old_count == 0), new + (new_count == 0)
            heading = lines[start].split(b"@@", 2)[2]
        elif markers[start] == CONTEXT:
            count = markers.count(CONTEXT, start, end)
            old, new = old + count, new + count
        else:
            removed, added = (lines[slice(*match.span(group))] for group in ("removed", "added"))
            yield Block(old, new, heading, removed, added)
            old, new = old + len(removed), new + len(added)


def _count_changed_lines(blocks: Sequence[Block]) -> int:
    return sum(len(block.removed) + len(block.added) for block in blocks)


def _split_block(
    block: Block, merge_lines: set[int], other_blocks: Sequence[Sequence[Block]]
) -> Iterator[Block]:
    """Yield the pieces of a block whose added lines are all in `merge_lines`, the lines that differ from every parent.

    A block with only such lines is yielded as it is. Of any other block, each run of such lines is yielded without
    removed lines, because the branch that has the other lines removed them. A block without added lines is yielded if
    each diff with another parent removes lines there, too.
    """
    is_merge_line = [number in merge_lines for number in range(block.new_start, block.end)]
    if all(is_merge_line):
        if block.added or all(_removes_lines_at(block.new_start, blocks) for blocks in other_blocks):
            yield block
        return
    old = block.old_start + len(block.removed)
    start = 0
    for position in range(len(is_merge_line) + 1):
        if position == len(is_merge_line) or not is_merge_line[position]:
            if start < position:
                yield Block(old, block.new_start + start, block.heading, [], block.added[start:position])
            start = position + 1


def _removes_lines_at(line: int, blocks: Sequence[Block]) -> bool:
    """Check whether a block removes lines at or next to a line of the result."""
    return any(block.removed and block.new_start <= line <= block.end for block in blocks)


def _format_block(block: Block) -> bytes:
    old, new = block.old_start - (not block.removed), block.new_start - (not block.added)
    header = b"@@ -%d,%d +%d,%d @@" % (old, len(block.removed), new, len(block.added))
    return b"\n".join([header + block.heading, *block.removed, *block.added, b""])
