"""A commit's own change to the lines it is blamed for: of the two files that blame names, the parts that matter."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.git import patches
from pipeline.git.repository import Repository, UnreadableObject
from pipeline.hunks import OVERSIZE_BYTES
from serve.envelope import EXCERPT_COLUMNS, EXCERPT_LINES, narrowed
from serve.explain.blame import Line, Origin

# Lines kept around an asked line where its whole part is too long: as many as git shows.
CONTEXT: Final = 3
PART: Final = re.compile(rb"^@@ ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A commit's change as far as it is shown; `truncated` where more of it concerns the lines."""

    text: str
    truncated: bool


NOTHING: Final = Excerpt("", truncated=False)


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of a part: its own text, and where it stands in the old and the new file."""

    text: bytes
    old: int
    new: int


def main_origin(lines: Sequence[Line]) -> Origin:
    """Of the files a commit's lines come from, the one with most of them."""
    return Counter(line.origin for line in lines).most_common(1)[0][0]


def excerpt(repository: Repository, lines: Sequence[Line]) -> Excerpt:
    """What the commit of these lines did to them, in the file most of them come from.

    Empty at a shallow boundary, where the change is not known; empty and truncated where the files are missing or
    too large to compare.
    """
    origin = main_origin(lines)
    if origin.commit_sha in repository.boundary:
        return NOTHING
    wanted = {line.original for line in lines if line.origin == origin}
    try:
        body = _body(repository, origin)
    except UnreadableObject:
        return Excerpt("", truncated=True)
    return Excerpt("", truncated=True) if body is None else _shown(_parts(body), wanted)


def _body(repository: Repository, origin: Origin) -> bytes | None:
    """The `@@` parts between the two files; None where one is too large to compare."""
    new = repository.entry(origin.commit_sha, origin.path)
    old = repository.entry(*origin.previous) if origin.previous else None
    blobs = [entry.sha if entry else None for entry in (old, new)]
    if any(repository.size(blob) > OVERSIZE_BYTES for blob in blobs if blob):
        return None
    return patches.body(repository.between(*blobs).data)


def _parts(body: bytes) -> list[bytes]:
    starts = [match.start() for match in PART.finditer(body)]
    return [body[start:end] for start, end in zip(starts, [*starts[1:], len(body)], strict=True)]


def _shown(parts: Sequence[bytes], wanted: set[int]) -> Excerpt:
    """Whole parts where they fit; else only what is near the lines asked about."""
    if not parts:
        return NOTHING
    numbers = sorted(wanted)
    apart = [_apart(part, numbers) for part in parts]
    # Where equal lines stand before and after an added block, blame may name the ones before and the diff show the
    # ones after; and through an ignored commit blame only guesses. Then the nearest part is the one.
    touched = [part for part, distance in zip(parts, apart, strict=True) if distance == 0]
    if not touched:
        touched = [parts[apart.index(min(apart))]]
        wanted = {_within(touched[0], number) for number in wanted}
    whole = b"".join(touched)
    if whole.count(b"\n") <= EXCERPT_LINES:
        return _decoded(whole, truncated=False)
    near = b"".join(window for part in touched for window in _windows(part, wanted))
    return _decoded(b"\n".join(near.split(b"\n")[:EXCERPT_LINES]), truncated=True)


def _apart(part: bytes, numbers: Sequence[int]) -> int:
    """How many lines lie between the part and the nearest of these, which are in order; 0 where it has one."""
    _, _, start, count = patches.numbers(part)
    place = bisect_left(numbers, start)
    before = [start - numbers[place - 1]] if place else []
    after = [max(0, numbers[place] - (start + count - 1))] if place < len(numbers) else []
    return min([*before, *after])


def _within(part: bytes, number: int) -> int:
    """The line of the part that is nearest to a line of the new file."""
    _, _, start, count = patches.numbers(part)
    return max(start, min(number, start + count - 1))


def _windows(part: bytes, wanted: set[int]) -> Iterator[bytes]:
    """The rows near a wanted line, under heads that say where they stand."""
    head, *texts = part.removesuffix(b"\n").split(b"\n")
    rows = list(_rows(head, texts))
    kept = {
        near
        for place, row in enumerate(rows)
        if row.text[:1] != b"-" and row.new in wanted
        for near in range(place - CONTEXT, place + CONTEXT + 1)
        if 0 <= near < len(rows)
    }
    heading = head.split(b"@@", 2)[2]
    run: list[_Row] = []
    for place, row in enumerate(rows):
        if place in kept:
            run.append(row)
        elif run:
            yield _printed(run, heading)
            run = []
    if run:
        yield _printed(run, heading)


def _rows(head: bytes, texts: Sequence[bytes]) -> Iterator[_Row]:
    old, old_count, new, new_count = patches.numbers(head)
    old, new = old + (old_count == 0), new + (new_count == 0)
    for text in texts:
        yield _Row(text, old, new)
        old += text[:1] in (b" ", b"-")
        new += text[:1] in (b" ", b"+")


def _printed(rows: Sequence[_Row], heading: bytes) -> bytes:
    old_count = sum(row.text[:1] in (b" ", b"-") for row in rows)
    new_count = sum(row.text[:1] in (b" ", b"+") for row in rows)
    old, new = rows[0].old - (not old_count), rows[0].new - (not new_count)
    head = b"@@ -%d,%d +%d,%d @@" % (old, old_count, new, new_count)
    return b"\n".join([head + heading, *(row.text for row in rows), b""])


def _decoded(text: bytes, *, truncated: bool) -> Excerpt:
    lines = text.decode("utf-8", errors="replace").split("\n")
    shown = "\n".join(map(narrowed, lines))
    return Excerpt(shown, truncated or any(len(line) > EXCERPT_COLUMNS for line in lines))
