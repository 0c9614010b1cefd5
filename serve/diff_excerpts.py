"""A diff's `@@` parts, and windows of them: rows under a head that says where they stand; pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.git import patches

# Rows kept around one that matters: as many as git shows.
CONTEXT: Final = 3
# Stands for what is left out above a window.
MORE: Final = "…"
_PART: Final = re.compile(r"^@@ ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a part: its own text, and where it stands in the old and the new file."""

    text: str
    old: int
    new: int


@dataclass(frozen=True, slots=True)
class Window:
    """Lines of a diff as they are shown, and whether there are more above and below them."""

    lines: tuple[str, ...]
    above: bool
    below: bool

    @property
    def text(self) -> str:
        """The lines, under a mark where there are more above."""
        return "\n".join((MORE, *self.lines) if self.above else self.lines)


def parts(diff: str) -> list[str]:
    """The `@@` parts of a diff."""
    starts = [match.start() for match in _PART.finditer(diff)]
    return [diff[start:end] for start, end in zip(starts, [*starts[1:], len(diff)], strict=True)]


def numbers(part: str) -> tuple[int, int, int, int]:
    """Where a part starts and how many lines it covers, by its head: in the old file, then in the new."""
    return patches.numbers(_first_line(part).encode("utf-8", "surrogatepass"))


def rows(part: str) -> Iterator[Row]:
    """The lines of a part below its head."""
    old, old_count, new, new_count = numbers(part)
    old, new = old + (old_count == 0), new + (new_count == 0)
    for text in _lines(part)[1:]:
        yield Row(text, old, new)
        old += text[:1] in (" ", "-")
        new += text[:1] in (" ", "+")


def printed(part: str, some: Sequence[Row]) -> str:
    """Neighbouring rows of a part under a head of their own, with a line break at the end."""
    return "\n".join([_head(part, some), *(row.text for row in some), ""])


def about(diff: str, wanted: Collection[str], most: int) -> Window:
    """As many lines of a diff, a mark above them included: the first ones, or those with most of the wanted words.

    A window begins with a part's head. It begins inside a part only where that is longer than the window, and where
    rows there have more of the words than those at the top; of equal ones the first is taken.
    """
    above = diff.startswith(f"{MORE}\n")
    plain = diff.removeprefix(f"{MORE}\n")
    lines = _lines(plain)
    if len(lines) > most - above and wanted:
        number, first = _best(parts(plain), frozenset(wanted), most - 2)
        if number or first:
            lines, above = _from(parts(plain)[number:], first, most - 2), True
    shown = most - above
    return Window(tuple(lines[:shown]), above, below=len(lines) > shown)


def _from(split: Sequence[str], first: int, size: int) -> list[str]:
    """The lines of these parts from a row of the first on; its head speaks of as many rows as are shown."""
    if not first:
        return _lines("".join(split))
    own = list(rows(split[0]))[first:]
    following = _lines("".join(split[1:])) if len(split) > 1 else []
    return [_head(split[0], own[:size]), *(row.text for row in own), *following]


def _best(split: Sequence[str], wanted: frozenset[str], size: int) -> tuple[int, int]:
    """The part, and the row of it that a window of this size begins with, with most of the words."""
    places = (
        (*_found(said[first : first + size]), -number, -first)
        for number, part in enumerate(split)
        for said in [_said(part, wanted)]
        for first in _beginnings(said, size)
    )
    *_, number, first = max(places, default=(0, 0))
    return -number, -first


def _beginnings(said: Sequence[tuple[frozenset[str], bool]], size: int) -> Iterator[int]:
    """The top of a part, and a little above each row below that has a word, as far down as there are rows to show."""
    yield 0
    last = len(said) - size
    if last > 0:
        yield from (
            min(place - CONTEXT, last) for place, (words, _) in enumerate(said) if words and place > CONTEXT
        )


def _found(said: Sequence[tuple[frozenset[str], bool]]) -> tuple[int, int]:
    """How many of the words stand in changed rows, and how many in any."""
    changed: frozenset[str] = frozenset().union(*(words for words, is_changed in said if is_changed))
    return len(changed), len(changed.union(*(words for words, _ in said)))


def _said(part: str, wanted: frozenset[str]) -> list[tuple[frozenset[str], bool]]:
    """Of each row the wanted words that it has, and whether it is a changed one."""
    from pipeline.text import words  # an explanation goes by line numbers, and needs no stemmer

    return [(wanted.intersection(words(line[1:])), line[:1] in ("+", "-")) for line in _lines(part)[1:]]


def _head(part: str, some: Sequence[Row]) -> str:
    """A head for neighbouring rows of a part, with the part's own section heading."""
    old_count = sum(row.text[:1] in (" ", "-") for row in some)
    new_count = sum(row.text[:1] in (" ", "+") for row in some)
    old, new = some[0].old - (not old_count), some[0].new - (not new_count)
    return f"@@ -{old},{old_count} +{new},{new_count} @@{_first_line(part).split('@@', 2)[2]}"


def _first_line(part: str) -> str:
    return part.partition("\n")[0]


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")
