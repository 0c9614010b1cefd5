"""Excerpts of diffs: the `@@` sections of a diff, and windows of lines from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pipeline.git import patches

# Lines to show before and after a relevant line: as many as git shows.
CONTEXT_LINES: Final = 3
# Replaces the lines above a window.
OMITTED_MARK: Final = "…"
_SECTION_START: Final = re.compile(r"^@@ ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a section with its sign, and its line numbers in the old and the new file.

    An added line has the number of the next old line, a removed line that of the next new line.
    """

    text: str
    old_number: int
    new_number: int


@dataclass(frozen=True, slots=True)
class DiffWindow:
    """Consecutive lines of a diff."""

    lines: tuple[str, ...]
    has_more_above: bool
    has_more_below: bool

    @property
    def text(self) -> str:
        """The lines, below a mark if there are more above them."""
        return "\n".join((OMITTED_MARK, *self.lines) if self.has_more_above else self.lines)


def split_sections(diff: str) -> list[str]:
    """Split a diff into its `@@` sections; a list of files has none."""
    starts = [match.start() for match in _SECTION_START.finditer(diff)]
    return [diff[start:end] for start, end in pairwise([*starts, len(diff)])]


def parse_section_header(section: str) -> tuple[int, int, int, int]:
    """Return the first line and the number of lines of a section in the old file, then in the new file."""
    return patches.parse_line_ranges(_get_first_line(section).encode("utf-8", "surrogatepass"))


def parse_section_lines(section: str) -> Iterator[DiffLine]:
    """Yield the lines of a section below its header."""
    old, old_count, new, new_count = parse_section_header(section)
    old, new = old + (old_count == 0), new + (new_count == 0)
    for text in _split_lines(section)[1:]:
        yield DiffLine(text, old, new)
        old += text[:1] in (" ", "-")
        new += text[:1] in (" ", "+")


def format_lines(section: str, lines: Sequence[DiffLine]) -> str:
    """Format consecutive lines of a section as a section of their own, with a final line break."""
    return "\n".join([_format_section_header(section, lines), *(line.text for line in lines), ""])


def select_window(diff: str, terms: Collection[str], max_lines: int) -> DiffWindow:
    """Return the window of a diff with the most terms; the first lines if no other window has more.

    A window begins at the start of a section, or inside a section that is longer than the window. It has at most
    `max_lines` lines, including the mark above them. The diff itself may begin with that mark.
    """
    has_more_above = diff.startswith(f"{OMITTED_MARK}\n")
    plain = diff.removeprefix(f"{OMITTED_MARK}\n")
    lines = _split_lines(plain)
    if len(lines) > max_lines - has_more_above and terms:
        sections = split_sections(plain)
        size = max_lines - 2  # the mark and a section header take a line each
        section_index, first = _find_best_start(sections, frozenset(terms), size)
        if section_index or first:
            lines, has_more_above = _build_window_lines(sections[section_index:], first, size), True
    count = max_lines - has_more_above
    return DiffWindow(tuple(lines[:count]), has_more_above, has_more_below=len(lines) > count)


def select_changed_lines(diff: str, rate: Callable[[str], int], max_lines: int) -> str:
    """Return the added and removed lines with the highest ratings, in their order; of equal ones, the first.

    `rate` gets a line without its sign. A diff without such lines, as that of a merge, is cut to its first lines.
    """
    lines = [line for section in split_sections(diff) for line in _split_lines(section)[1:]]
    changed_lines = [line for line in lines if line[:1] in ("+", "-") and line[1:].strip()]
    if not changed_lines:
        return "\n".join(_split_lines(diff)[:max_lines])
    best = sorted(range(len(changed_lines)), key=lambda index: -rate(changed_lines[index][1:]))[:max_lines]
    return "\n".join(changed_lines[index] for index in sorted(best))


def _build_window_lines(sections: Sequence[str], first: int, size: int) -> list[str]:
    """Return all lines from line `first` of the first section on, below a header for the next `size` lines of it."""
    if not first:
        return _split_lines("".join(sections))
    first_section_lines = list(parse_section_lines(sections[0]))[first:]
    other_lines = _split_lines("".join(sections[1:])) if len(sections) > 1 else []
    header = _format_section_header(sections[0], first_section_lines[:size])
    return [header, *(line.text for line in first_section_lines), *other_lines]


def _find_best_start(sections: Sequence[str], terms: frozenset[str], size: int) -> tuple[int, int]:
    """Return the index of a section and of its line at which the window of `size` lines with the most terms starts."""
    scored_starts = (
        (*_count_terms(terms_per_line[first : first + size]), -number, -first)
        for number, section in enumerate(sections)
        for terms_per_line in [_find_terms_per_line(section, terms)]
        for first in _list_candidate_starts(terms_per_line, size)
    )
    *_, number, first = max(scored_starts, default=(0, 0))
    return -number, -first


def _list_candidate_starts(terms_per_line: Sequence[tuple[frozenset[str], bool]], size: int) -> Iterator[int]:
    """Yield line indexes where a window can start: 0, and `CONTEXT_LINES` above each line with a term."""
    yield 0
    last = len(terms_per_line) - size
    if last > 0:
        yield from (
            min(index - CONTEXT_LINES, last)
            for index, (terms, _) in enumerate(terms_per_line)
            if terms and index > CONTEXT_LINES
        )


def _count_terms(terms_per_line: Sequence[tuple[frozenset[str], bool]]) -> tuple[int, int]:
    """Return the number of distinct terms in changed lines, and in all lines."""
    changed: frozenset[str] = frozenset().union(
        *(terms for terms, is_changed in terms_per_line if is_changed)
    )
    return len(changed), len(changed.union(*(terms for terms, _ in terms_per_line)))


def _find_terms_per_line(section: str, terms: frozenset[str]) -> list[tuple[frozenset[str], bool]]:
    """Return for each line of a section the terms in it, and a flag for changed lines."""
    from pipeline.text import count_terms  # imported here, because `explain` needs no stemmer

    return [
        (terms.intersection(count_terms(line[1:])), line[:1] in ("+", "-"))
        for line in _split_lines(section)[1:]
    ]


def _format_section_header(section: str, lines: Sequence[DiffLine]) -> str:
    """Return a header for consecutive lines of a section, with the text after `@@` in the section's header."""
    old_count = sum(line.text[:1] in (" ", "-") for line in lines)
    new_count = sum(line.text[:1] in (" ", "+") for line in lines)
    old, new = lines[0].old_number - (not old_count), lines[0].new_number - (not new_count)
    return f"@@ -{old},{old_count} +{new},{new_count} @@{_get_first_line(section).split('@@', 2)[2]}"


def _get_first_line(section: str) -> str:
    return section.partition("\n")[0]


def _split_lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")
