"""A changed file's versions and its diff -> the symbols the change touched; pure.

A symbol is touched when a changed line lies in it and in no symbol nested in it: a changed method
does not touch its class, which it names as its parent. Lines that were added are looked up in the
new version, lines that were removed in the old one; blank lines count only where nothing else changed.
A line whose symbol does not parse, or that lies in none while the file does not parse, falls back to
what git's section heading names.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from pipeline.source import edits
from pipeline.source.content import Content
from pipeline.source.definitions import NAME_LIMIT, Definition, definitions
from pipeline.source.trees import Version

EXACT: Final = "ExactSpan"
HEADER: Final = "HunkHeader"

# What a definition looks like, from the surest sign to the faintest: `impl Trait for Name`, a keyword
# (with the generics, receiver or qualifier that may stand before the name), a constant, parameters.
_QUALIFIED: Final = r"(?:[\w$]+(?:<[^<>]*>)?[.:]+)*([^\W\d][\w$]*)"
_SIGNS: Final = (
    re.compile(r"\bimpl\b.*\sfor\s+(?:&\s*)?(?:mut\s+)?" + _QUALIFIED),
    re.compile(
        r"\b(?:class|defmodule|defp?|enum|fn|func?|function|fun|impl|interface|macro|module|namespace|object"
        r"|package|protocol|record|struct|sub|trait|type|union)\b(?:<[^>]*>)?"
        r"[\s*]+(?:<[^>]*>\s*|\([^()]*\)\s*)?" + _QUALIFIED
    ),
    re.compile(r"\b(?:const|let|val|var)\s+([^\W\d][\w$]*)\s*="),
    re.compile(r"([^\W\d][\w$]*)\s*(?:<[^<>()]*>)?\("),
)
_CONTROL: Final = re.compile(
    r"\W*(?:assert|catch|elif|else|except|for|if|match|return|switch|throw|try|while|with)\b"
)


class Part(edits.Part, Protocol):
    """A part of a diff with git's section heading."""

    @property
    def header(self) -> str:
        """The line above the part that git takes for the start of its function."""


@dataclass(frozen=True, slots=True)
class Touched:
    """A symbol that a hunk touched; the fields are those of `stores.schema.HUNK_SYMBOLS`."""

    name: str
    parent: str
    kind: str
    confidence: Literal["ExactSpan", "HunkHeader"]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the changed lines of one part say on one side of the diff."""

    symbols: tuple[Touched, ...]
    doubtful: bool


_NOTHING: Final = _Reading((), doubtful=False)
_UNKNOWN: Final = _Reading((), doubtful=True)


def touched(parts: Sequence[Part], old: Version | None, new: Version | None) -> tuple[Touched, ...]:
    """Symbols of the new version in source order, then those only the old one has, then headings."""
    added = [_reading(new, part.added) for part in parts]
    removed = [_reading(old, part.removed) for part in parts]
    doubtful = [a.doubtful or r.doubtful for a, r in zip(added, removed, strict=True)]
    exact = dict.fromkeys(symbol for reading in (*added, *removed) for symbol in reading.symbols)
    names = {symbol.name for symbol in exact}
    headings = headed(part for part, doubt in zip(parts, doubtful, strict=True) if doubt)
    return (*exact, *(symbol for symbol in headings if symbol.name not in names))


def headed(parts: Iterable[Part]) -> tuple[Touched, ...]:
    """What git's section headings name, each once."""
    names = (heading_name(part.header) for part in parts if part.header)
    return tuple(Touched(name, "", "unknown", HEADER) for name in dict.fromkeys(names) if name)


def heading_name(header: str) -> str | None:
    """The symbol that a section heading defines, if it looks like a definition."""
    if _CONTROL.match(header):
        return None
    found = (sign.search(header) for sign in _SIGNS)
    return next((match[1][:NAME_LIMIT] for match in found if match), None)


def _reading(version: Version | None, lines: Sequence[int]) -> _Reading:
    """The innermost symbols of some lines (counted from 1) in one version."""
    if not lines:
        return _NOTHING
    if version is None:
        return _UNKNOWN
    rows = _telling(version.content, [line - 1 for line in lines])
    found = definitions(version, (rows[0], rows[-1]))
    owners = _owners(found, rows)
    whole = [found[owner] for owner in owners if owner >= 0 and found[owner].exact]
    unowned = -1 in owners and not version.sound
    return _Reading(tuple(map(_exact, whole)), unowned or len(whole) < sum(owner >= 0 for owner in owners))


def _telling(content: Content, rows: list[int]) -> list[int]:
    """The rows that say something: a blank line between two methods is part of neither."""
    lines = content.rows(rows[0], rows[-1])
    return [row for row in rows if lines[row - rows[0]].strip()] or rows


def _owners(found: Sequence[Definition], rows: Sequence[int]) -> list[int]:
    """Indices of the innermost definitions of sorted rows, in order; -1 first when a row has none."""
    painted = [-1] * len(rows)
    lines_of_their_own = set()
    for index, definition in enumerate(found):
        first, last = bisect_left(rows, definition.lead_row), bisect_right(rows, definition.last_row)
        painted[first:last] = [index] * (last - first)
        # Several symbols on one line: each of them is touched, though only the last is painted.
        if first < last and definition.first_row == definition.last_row:
            lines_of_their_own.add(index)
    return sorted(lines_of_their_own.union(painted))


def _exact(definition: Definition) -> Touched:
    return Touched(definition.name, definition.parent, definition.kind, EXACT)
