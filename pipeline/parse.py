"""Symbols and chunks of a file, and symbols that a hunk (the diff of one file in one commit) touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Protocol

from pipeline.file_classification import has_symbol_headers
from pipeline.syntax.chunks import ChunkSpan, TokenBudget, get_chunk_index, split_into_chunks
from pipeline.syntax.grammars import Grammar, load_grammar_for_path
from pipeline.syntax.symbols import (
    Definition,
    DiffPartWithHeader,
    TouchedSymbol,
    find_definitions,
    find_header_symbols,
    find_touched_symbols,
)
from pipeline.syntax.trees import (
    ContentSource,
    FileContent,
    PreviousVersion,
    Version,
    VersionCache,
    parse_version,
)

__all__ = [
    "Chunk",
    "Outline",
    "Symbol",
    "SymbolInChunk",
    "TouchedSymbol",
    "TouchedSymbolFinder",
    "parse_outline",
    "parse_symbols",
]

# Limit on sibling names before and after a symbol, because a chunk may hold a thousand symbols.
MAX_SIBLINGS: Final = 50


@dataclass(frozen=True, slots=True)
class Symbol:
    """Symbol of a file. Lines count from 1 and are inclusive; decorators belong to the symbol."""

    name: str
    kind: str
    parent: str
    start_line: int
    end_line: int
    source_text: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive syntax nodes of a file, up to the token budget. Lines as in `Symbol`."""

    start_line: int
    end_line: int
    tokens: int


@dataclass(frozen=True, slots=True)
class SymbolInChunk:
    """Symbol with the index of the chunk it starts in, and the names of other symbols that start there."""

    symbol: Symbol
    chunk_index: int
    siblings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outline:
    """Symbols and chunks of a file, in source order."""

    symbols: tuple[SymbolInChunk, ...]
    chunks: tuple[Chunk, ...]


class HunkLike(Protocol):
    """Hunk, reduced to the fields that finding its symbols needs."""

    @property
    def file_path(self) -> str:
        """Path after the change, or before it when deleted."""

    @property
    def old_path(self) -> str | None:
        """Path before a rename; None for other changes."""

    @property
    def old_blob(self) -> str | None:
        """Blob that the parts apply to; None if there is none."""

    @property
    def new_blob(self) -> str | None:
        """Blob that the parts result in; None if there is none."""

    @property
    def parts(self) -> Sequence[DiffPartWithHeader]:
        """`@@` parts of the diff between the two blobs."""


def parse_outline(source: bytes, grammar: Grammar) -> Outline:
    """Return the symbols and chunks of a file; empty if it is too large or has too long lines to parse."""
    version = parse_version(source, grammar)
    if version is None:
        return Outline((), ())
    root, budget = version.tree.root_node, TokenBudget(version.content)
    definitions = find_definitions(version)
    chunk_spans = split_into_chunks(root, definitions, budget)
    return Outline(
        symbols=tuple(_assign_to_chunks(version.content, definitions, chunk_spans)),
        chunks=tuple(_build_chunk(span, budget) for span in chunk_spans),
    )


def parse_symbols(source: bytes, path: str) -> tuple[Symbol, ...] | None:
    """Return the symbols of a file; None if its language has no grammar, or if it is too large to parse."""
    grammar = load_grammar_for_path(path)
    version = parse_version(source, grammar) if grammar else None
    if version is None:
        return None
    return tuple(_build_symbol(version.content, definition) for definition in find_definitions(version))


def _build_chunk(span: ChunkSpan, budget: TokenBudget) -> Chunk:
    tokens = int(budget.estimate_tokens(span.start_byte, span.end_byte))
    return Chunk(span.first_row + 1, span.last_row + 1, tokens)


def _assign_to_chunks(
    content: FileContent, definitions: Sequence[Definition], chunk_spans: Sequence[ChunkSpan]
) -> Iterator[SymbolInChunk]:
    """Yield the symbols in source order, each with its chunk and siblings."""
    starts = [span.start_byte for span in chunk_spans]
    for chunk_index, group in groupby(
        definitions, key=lambda definition: get_chunk_index(starts, definition.start_byte)
    ):
        symbols = [_build_symbol(content, definition) for definition in group]
        names = tuple(symbol.name for symbol in symbols)
        for index, symbol in enumerate(symbols):
            siblings = (
                *names[max(0, index - MAX_SIBLINGS) : index],
                *names[index + 1 : index + 1 + MAX_SIBLINGS],
            )
            yield SymbolInChunk(symbol, chunk_index, siblings)


def _build_symbol(content: FileContent, definition: Definition) -> Symbol:
    return Symbol(
        name=definition.name,
        kind=definition.kind,
        parent=definition.parent,
        start_line=definition.first_row + 1,
        end_line=definition.last_row + 1,
        source_text=content.decode(definition.start_byte, definition.end_byte),
    )


class TouchedSymbolFinder:
    """Finder of the symbols that hunks touch. It parses each file version incrementally from the previous one."""

    def __init__(self) -> None:
        self._versions = VersionCache()

    def find(self, hunk: HunkLike, source: ContentSource) -> tuple[TouchedSymbol, ...]:
        """Return the symbols that a hunk touched, each once. The result does not depend on earlier calls."""
        if not hunk.parts:
            return ()
        grammar = load_grammar_for_path(hunk.file_path)
        if grammar is None:
            return find_header_symbols(hunk.parts) if has_symbol_headers(hunk.file_path) else ()
        previous = _get_previous_version(hunk)
        old_version = self._parse_old(previous, source)
        new_version = self._parse_new(hunk, grammar, previous, source)
        return find_touched_symbols(hunk.parts, old_version, new_version)

    def _parse_old(self, previous: PreviousVersion | None, source: ContentSource) -> Version | None:
        """Return the version before the hunk; None if no line was removed."""
        if previous is None or not any(part.removed for part in previous.parts):
            return None
        return self._versions.get(previous.path, previous.blob, previous.grammar, source)

    def _parse_new(
        self, hunk: HunkLike, grammar: Grammar, previous: PreviousVersion | None, source: ContentSource
    ) -> Version | None:
        """Return the version after the hunk, if possible parsed from the one before; None if no line was added."""
        if hunk.new_blob is None or not any(part.added for part in hunk.parts):
            return None
        if previous is None:
            return self._versions.get(hunk.file_path, hunk.new_blob, grammar, source)
        return self._versions.get_successor(previous, hunk.file_path, hunk.new_blob, grammar, source)


def _get_previous_version(hunk: HunkLike) -> PreviousVersion | None:
    path = hunk.old_path or hunk.file_path
    grammar = load_grammar_for_path(path)
    if hunk.old_blob is None or grammar is None:
        return None
    return PreviousVersion(path, hunk.old_blob, grammar, hunk.parts)
