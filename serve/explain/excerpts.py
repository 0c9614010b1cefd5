"""A commit's own change to the lines it is blamed for: of the two files that blame names, the parts that matter."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.git import patches
from pipeline.git.repository import Repository, UnreadableObject
from pipeline.hunks import OVERSIZE_BYTES
from serve import diff_excerpts
from serve.diff_excerpts import CONTEXT, Row
from serve.explain.blame import Line, Origin
from serve.index_status import EXCERPT_COLUMNS, EXCERPT_LINES, narrowed


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A commit's change as far as it is shown; `truncated` where more of it concerns the lines."""

    text: str
    truncated: bool


NOTHING: Final = Excerpt("", truncated=False)


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
    return Excerpt("", truncated=True) if body is None else _shown(diff_excerpts.parts(body), wanted)


def _body(repository: Repository, origin: Origin) -> str | None:
    """The `@@` parts between the two files; None where one is too large to compare."""
    new = repository.entry(origin.commit_sha, origin.path)
    old = repository.entry(*origin.previous) if origin.previous else None
    blobs = [entry.sha if entry else None for entry in (old, new)]
    if any(repository.size(blob) > OVERSIZE_BYTES for blob in blobs if blob):
        return None
    return patches.body(repository.between(*blobs).data).decode("utf-8", errors="replace")


def _shown(parts: Sequence[str], wanted: set[int]) -> Excerpt:
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
    whole = "".join(touched)
    if whole.count("\n") <= EXCERPT_LINES:
        return _narrowed(whole, truncated=False)
    near = "".join(window for part in touched for window in _windows(part, wanted))
    return _narrowed("\n".join(near.split("\n")[:EXCERPT_LINES]), truncated=True)


def _apart(part: str, numbers: Sequence[int]) -> int:
    """How many lines lie between the part and the nearest of these, which are in order; 0 where it has one."""
    _, _, start, count = diff_excerpts.numbers(part)
    place = bisect_left(numbers, start)
    before = [start - numbers[place - 1]] if place else []
    after = [max(0, numbers[place] - (start + count - 1))] if place < len(numbers) else []
    return min([*before, *after])


def _within(part: str, number: int) -> int:
    """The line of the part that is nearest to a line of the new file."""
    _, _, start, count = diff_excerpts.numbers(part)
    return max(start, min(number, start + count - 1))


def _windows(part: str, wanted: set[int]) -> Iterator[str]:
    """The rows near a wanted line, under heads that say where they stand."""
    rows = list(diff_excerpts.rows(part))
    kept = {
        near
        for place, row in enumerate(rows)
        if row.text[:1] != "-" and row.new in wanted
        for near in range(place - CONTEXT, place + CONTEXT + 1)
        if 0 <= near < len(rows)
    }
    run: list[Row] = []
    for place, row in enumerate(rows):
        if place in kept:
            run.append(row)
        elif run:
            yield diff_excerpts.printed(part, run)
            run = []
    if run:
        yield diff_excerpts.printed(part, run)


def _narrowed(text: str, *, truncated: bool) -> Excerpt:
    lines = text.split("\n")
    shown = "\n".join(map(narrowed, lines))
    return Excerpt(shown, truncated or any(len(line) > EXCERPT_COLUMNS for line in lines))
