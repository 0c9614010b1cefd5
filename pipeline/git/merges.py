"""What a merge itself wrote: the files and lines of its result that differ from every parent; pure.

These are the lines `git show --cc` marks in every column. What came unchanged from one parent is left
out, because the commits of that branch are indexed already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pipeline.git.patches import SAME, listed, marks, numbers

# How a directory's mode is written in a tree.
TREE: Final = b"40000"
AT: Final = ord("@")
# A part's head, lines in common, or one place: what it lost, then what it gained. A backslash says that a
# last line has no line break.
PLACE: Final = re.compile(rb"@| +\\*|(?=.)(?P<removed>-*)\\*(?P<added>\+*)\\*", re.DOTALL)


# A directory: the mode and object of each name.
Entries: TypeAlias = Mapping[bytes, tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Block:
    """Lines removed and added at one place."""

    old: int  # number of the first removed line, or of the line that follows the place
    new: int  # the same in the result
    heading: bytes
    removed: list[bytes]
    added: list[bytes]

    @property
    def end(self) -> int:
        """Number of the result's line after the block."""
        return self.new + len(self.added)


@dataclass(frozen=True, slots=True)
class Own:
    """The merge's own lines of one file."""

    parent: int  # the parent they are shown against: the one the result is closest to
    parts: bytes  # `@@` parts without context; their old lines are the parent's
    added: int
    removed: int


def wrote_files(result: Entries, parents: Sequence[Entries], read: Callable[[bytes], Entries]) -> bool:
    """Whether some file of a merge differs from every parent, one that only its parents have included.

    What one parent has as well is not looked into, so a clean merge costs the directories on the way to what
    both sides changed, where comparing it with its parents costs everything that either side changed. A name
    that is a file here and a directory there counts as a file that differs.
    """
    folders = [(result, parents)]
    while folders:
        inside, beside = folders.pop()
        for name in set(inside).union(*beside):
            own, theirs = inside.get(name), [entries.get(name) for entries in beside]
            if own in theirs:
                continue
            if any(entry is not None and entry[0] != TREE for entry in (own, *theirs)):
                return True
            there, *others = ({} if entry is None else read(entry[1]) for entry in (own, *theirs))
            folders.append((there, others))
    return False


def own_lines(parents: Sequence[bytes]) -> Own:
    """From the `@@` parts against each parent, what differs from all of them."""
    places = [list(blocks(parts)) for parts in parents]
    closest = min(range(len(places)), key=lambda parent: _weight(places[parent]))
    everywhere = set.intersection(*({n for b in found for n in range(b.new, b.end)} for found in places))
    others = [found for parent, found in enumerate(places) if parent != closest]
    kept = [piece for block in places[closest] for piece in _pieces(block, everywhere, others)]
    return Own(
        parent=closest,
        parts=b"".join(_printed(piece) for piece in kept),
        added=sum(len(piece.added) for piece in kept),
        removed=sum(len(piece.removed) for piece in kept),
    )


def blocks(parts: bytes) -> Iterator[Block]:
    """The changed places of a diff, in order."""
    lines, _ = listed(parts)
    kinds = marks(lines)
    old = new = 0
    heading = b""
    for match in PLACE.finditer(kinds):
        start, end = match.span()
        if kinds[start] == AT:
            old, old_count, new, new_count = numbers(lines[start])
            old, new = old + (old_count == 0), new + (new_count == 0)
            heading = lines[start].split(b"@@", 2)[2]
        elif kinds[start] == SAME:
            count = kinds.count(SAME, start, end)
            old, new = old + count, new + count
        else:
            removed, added = (lines[slice(*match.span(group))] for group in ("removed", "added"))
            yield Block(old, new, heading, removed, added)
            old, new = old + len(removed), new + len(added)


def _weight(found: Sequence[Block]) -> int:
    return sum(len(block.removed) + len(block.added) for block in found)


def _pieces(block: Block, everywhere: set[int], others: Sequence[Sequence[Block]]) -> Iterator[Block]:
    """What is left of a block: all of it, its runs of own lines, or nothing.

    Removed lines stay with a block that is kept whole: beside lines of a branch they are the branch's doing.
    """
    own = [number in everywhere for number in range(block.new, block.end)]
    if all(own):
        if block.added or all(_lost_at(block.new, found) for found in others):
            yield block
        return
    old = block.old + len(block.removed)
    start = 0
    for position in range(len(own) + 1):
        if position == len(own) or not own[position]:
            if start < position:
                yield Block(old, block.new + start, block.heading, [], block.added[start:position])
            start = position + 1


def _lost_at(place: int, found: Sequence[Block]) -> bool:
    """Whether lines were removed where the result has none of its own to show."""
    return any(block.removed and block.new <= place <= block.end for block in found)


def _printed(block: Block) -> bytes:
    old, new = block.old - (not block.removed), block.new - (not block.added)
    head = b"@@ -%d,%d +%d,%d @@" % (old, len(block.removed), new, len(block.added))
    return b"\n".join([head + block.heading, *block.removed, *block.added, b""])
