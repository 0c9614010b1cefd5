"""Symbols that a hunk touches.

A hunk is the diff of one file; a part is one of its `@@` sections. Added lines are looked up in the new version of the
file, removed lines in the old one. A hunk touches the innermost symbol of each changed line: a changed method does not
touch its class. The comments and decorators directly above a symbol belong to it. On a line with several definitions,
each one-line definition counts. Blank lines are ignored, unless they are all the added or all the removed lines of a
part.

The section heading of a part, the text that git writes after the second `@@`, may name a further symbol. It is used in
three cases: the symbol of a changed line has a syntax error; a changed line is in no symbol, and the file has a
syntax error; the file cannot be parsed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from pipeline.file_classification import has_symbol_headers
from pipeline.git.patches import parse_defined_name
from pipeline.syntax.grammars import Grammar, load_grammar_for_path
from pipeline.syntax.symbols import MAX_NAME_CHARACTERS, Definition, find_definitions
from pipeline.syntax.trees import (
    BlobReader,
    DiffPart,
    FileContent,
    PreviousVersion,
    Version,
    VersionCache,
)

# Confidence of a touched symbol. EXACT_SPAN: it has a changed line. HUNK_HEADER: only a section heading names it.
EXACT_SPAN: Final = "ExactSpan"
HUNK_HEADER: Final = "HunkHeader"


@dataclass(frozen=True, slots=True)
class TouchedSymbol:
    """Symbol that a hunk touches. `stores.schema.HUNK_SYMBOLS` describes the fields."""

    name: str
    parent: str
    kind: str
    confidence: Literal["ExactSpan", "HunkHeader"]


class DiffPartWithSectionHeading(DiffPart, Protocol):
    """`@@` part of a diff, with its section heading."""

    @property
    def section_heading(self) -> str:
        """Text after the second `@@`: the line that git takes for the start of the enclosing function."""


class HunkLike(Protocol):
    """Fields of a hunk that `TouchedSymbolFinder` needs."""

    @property
    def file_path(self) -> str:
        """Path after the change; for a deleted file, the path before it."""

    @property
    def old_path(self) -> str | None:
        """Path before a rename; None for other changes."""

    @property
    def old_blob(self) -> str | None:
        """SHA of the blob before the change; None if there is none."""

    @property
    def new_blob(self) -> str | None:
        """SHA of the blob after the change; None if there is none."""

    @property
    def parts(self) -> Sequence[DiffPartWithSectionHeading]:
        """`@@` parts of the diff between the two blobs."""


@dataclass(frozen=True, slots=True)
class _LineSymbols:
    """Symbols on the added lines of a part, or on its removed lines.

    `is_uncertain`: True if the symbol of a line may be wrong or missing. Then the section heading is used, too.
    """

    symbols: tuple[TouchedSymbol, ...]
    is_uncertain: bool


# Result for a part without added lines, or without removed lines.
_NO_LINES: Final = _LineSymbols((), is_uncertain=False)

# Result if the version of the file is not parsable.
_NOT_PARSED: Final = _LineSymbols((), is_uncertain=True)


class TouchedSymbolFinder:
    """Finder of the symbols that hunks touch. It caches parsed file versions, to parse the next ones incrementally."""

    def __init__(self) -> None:
        self._versions = VersionCache()

    def find(self, hunk: HunkLike, blob_reader: BlobReader) -> tuple[TouchedSymbol, ...]:
        """Return the symbols that a hunk touches, each once. Earlier calls do not affect the result.

        `blob_reader`: reader of the hunk's repository.
        """
        if not hunk.parts:
            return ()
        grammar = load_grammar_for_path(hunk.file_path)
        if grammar is None:
            return find_header_symbols(hunk.parts) if has_symbol_headers(hunk.file_path) else ()
        previous = _get_previous_version(hunk)
        old_version = self._parse_old(previous, blob_reader)
        new_version = self._parse_new(hunk, grammar, previous, blob_reader)
        return find_touched_symbols(hunk.parts, old_version, new_version)

    def _parse_old(self, previous: PreviousVersion | None, blob_reader: BlobReader) -> Version | None:
        """Parse the file as it was before the hunk. Return None if no line is removed or the file cannot be parsed."""
        if previous is None or not any(part.removed for part in previous.parts):
            return None
        return self._versions.get(previous.path, previous.blob, previous.grammar, blob_reader)

    def _parse_new(
        self, hunk: HunkLike, grammar: Grammar, previous: PreviousVersion | None, blob_reader: BlobReader
    ) -> Version | None:
        """Parse the file as it is after the hunk. Return None if no line is added or the file cannot be parsed."""
        if hunk.new_blob is None or not any(part.added for part in hunk.parts):
            return None
        if previous is None:
            return self._versions.get(hunk.file_path, hunk.new_blob, grammar, blob_reader)
        return self._versions.get_successor(previous, hunk.file_path, hunk.new_blob, grammar, blob_reader)


def find_touched_symbols(
    parts: Sequence[DiffPartWithSectionHeading], old: Version | None, new: Version | None
) -> tuple[TouchedSymbol, ...]:
    """Return the symbols that the parts of a hunk touch.

    The symbols of the new version come first, in source order, then the symbols of the old version, and then the
    symbols that section headings name.
    `old`, `new`: file before and after the change; None if it is not needed or cannot be parsed.
    """
    added_results = [_find_symbols_on_lines(new, part.added) for part in parts]
    removed_results = [_find_symbols_on_lines(old, part.removed) for part in parts]
    uncertain_parts = [
        part
        for part, added, removed in zip(parts, added_results, removed_results, strict=True)
        if added.is_uncertain or removed.is_uncertain
    ]
    exact_symbols = dict.fromkeys(
        symbol for result in (*added_results, *removed_results) for symbol in result.symbols
    )
    names = {symbol.name for symbol in exact_symbols}
    header_symbols = find_header_symbols(uncertain_parts)
    return (*exact_symbols, *(symbol for symbol in header_symbols if symbol.name not in names))


def find_header_symbols(parts: Iterable[DiffPartWithSectionHeading]) -> tuple[TouchedSymbol, ...]:
    """Return the symbols that the section headings of the parts name, each once."""
    defined_names = (parse_defined_name(part.section_heading) for part in parts if part.section_heading)
    names = dict.fromkeys(name[:MAX_NAME_CHARACTERS] for name in defined_names if name)
    return tuple(TouchedSymbol(name, "", "unknown", HUNK_HEADER) for name in names)


def _get_previous_version(hunk: HunkLike) -> PreviousVersion | None:
    """Return the unparsed version before a hunk; None if the hunk adds the file or the old path has no grammar."""
    path = hunk.old_path or hunk.file_path
    grammar = load_grammar_for_path(path)
    if hunk.old_blob is None or grammar is None:
        return None
    return PreviousVersion(path, hunk.old_blob, grammar, hunk.parts)


def _find_symbols_on_lines(version: Version | None, line_numbers: Sequence[int]) -> _LineSymbols:
    """Return the innermost symbols on these lines.

    `line_numbers`: ascending, counted from 1.
    `version`: version of the file that has these lines; None if it cannot be parsed.
    """
    if not line_numbers:
        return _NO_LINES
    if version is None:
        return _NOT_PARSED
    rows = _select_non_blank_rows(version.content, [number - 1 for number in line_numbers])
    definitions = find_definitions(version, (rows[0], rows[-1]))
    owner_indices = _find_innermost(definitions, rows)
    # The definitions of a chained assignment have the same byte range, and all of them count.
    owner_ranges = {definitions[index].byte_range for index in owner_indices if index >= 0}
    owners = [definition for definition in definitions if definition.byte_range in owner_ranges]
    valid_owners = [owner for owner in owners if not owner.has_syntax_error]
    has_lines_outside = -1 in owner_indices
    return _LineSymbols(
        tuple(map(_build_touched_symbol, valid_owners)),
        is_uncertain=len(valid_owners) < len(owners) or (has_lines_outside and version.has_syntax_error),
    )


def _select_non_blank_rows(content: FileContent, rows: list[int]) -> list[int]:
    """Return the rows that are not blank, or all rows if all are blank. `rows`: ascending.

    A blank line that is added with a method is in the class of the method, and would count as a change of the class.
    """
    lines = content.get_rows(rows[0], rows[-1])
    return [row for row in rows if lines[row - rows[0]].strip()] or rows


def _find_innermost(definitions: Sequence[Definition], rows: Sequence[int]) -> list[int]:
    """Return the indices of the innermost definitions on the rows, ascending; -1 if a row is in no definition.

    Each one-line definition on the rows is included, because a line may have several. `rows`: ascending.
    """
    owner_indices = [-1] * len(rows)
    single_line_indices = set()
    # An enclosing definition comes before those in it, so the innermost one is assigned last.
    for index, definition in enumerate(definitions):
        first, last = bisect_left(rows, definition.first_comment_row), bisect_right(rows, definition.last_row)
        owner_indices[first:last] = [index] * (last - first)
        if first < last and definition.first_row == definition.last_row:
            single_line_indices.add(index)
    return sorted(single_line_indices.union(owner_indices))


def _build_touched_symbol(definition: Definition) -> TouchedSymbol:
    return TouchedSymbol(definition.name, definition.parent, definition.kind, EXACT_SPAN)
