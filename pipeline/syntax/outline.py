"""Outline of a file: symbols, and chunks of consecutive syntax nodes within a token budget."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from pipeline.syntax.grammars import Grammar, Node, load_grammar_for_path
from pipeline.syntax.symbols import (
    CALLABLE_KINDS,
    DECORATOR_NODES,
    Definition,
    find_definitions,
    get_last_row,
)
from pipeline.syntax.trees import FileContent, parse_version

# Maximum number of siblings (other symbols of the chunk) to list before a symbol, and after it. A chunk may have 1,000
# symbols.
MAX_SIBLINGS: Final = 50
# Token budget of a chunk.
CHUNK_TOKENS: Final = 500
# Estimated characters per token.
TOKEN_CHARACTERS: Final = 4


@dataclass(frozen=True, slots=True)
class Symbol:
    """Symbol of a file, with its decorators. Lines count from 1 and are inclusive.

    `parent`: names of the enclosing symbols, joined by dots.
    """

    name: str
    kind: str
    parent: str
    start_line: int
    end_line: int
    source_text: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive syntax nodes of a file. Lines count from 1 and are inclusive. `tokens`: estimated token count."""

    start_line: int
    end_line: int
    tokens: int


@dataclass(frozen=True, slots=True)
class SymbolInChunk:
    """Symbol, and the chunk in which it starts. `siblings`: names of the symbols near it that start there too."""

    symbol: Symbol
    chunk_index: int
    siblings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outline:
    """Symbols and chunks of a file, in source order."""

    symbols: tuple[SymbolInChunk, ...]
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """Span of consecutive syntax nodes. Rows count from 0, and the last is inclusive. `end_byte` is exclusive."""

    start_byte: int
    end_byte: int
    first_row: int
    last_row: int


class TokenBudget:
    """Estimator of the number of tokens in a part of a file, and check against the token budget of a chunk."""

    def __init__(self, content: FileContent) -> None:
        self._content = content
        self._is_ascii = content.source.isascii()

    def estimate_tokens(self, start: int, end: int) -> float:
        """Return the estimated number of tokens between two byte offsets."""
        characters = end - start if self._is_ascii else len(self._content.decode(start, end))
        return characters / TOKEN_CHARACTERS

    def fits(self, start: int, end: int) -> bool:
        """Return whether the estimate is below the budget."""
        return self.estimate_tokens(start, end) < CHUNK_TOKENS


def parse_outline(source: bytes, grammar: Grammar) -> Outline:
    """Return the symbols and chunks of a file; both empty if the file is not parsable (`parse_version`)."""
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
    """Return the symbols of a file; None if its language has no grammar, or it is not parsable (`parse_version`)."""
    grammar = load_grammar_for_path(path)
    version = parse_version(source, grammar) if grammar else None
    if version is None:
        return None
    return tuple(_build_symbol(version.content, definition) for definition in find_definitions(version))


def split_into_chunks(root: Node, definitions: Sequence[Definition], budget: TokenBudget) -> list[ChunkSpan]:
    """Return the spans of the chunks of a file, in order. Consecutive nodes are merged while they fit the budget.

    A node over the budget is split into its child nodes if it contains symbols and is not a function. Otherwise it is a
    chunk by itself. The children of a split symbol, such as a class, are not merged with nodes outside the symbol.
    """
    chunks: list[ChunkSpan] = []
    can_merge = False
    for span in _iter_spans(root, definitions, budget):
        if span is None:
            can_merge = False
        elif can_merge and budget.fits(chunks[-1].start_byte, span.end_byte):
            chunks[-1] = replace(chunks[-1], end_byte=span.end_byte, last_row=span.last_row)
        else:
            chunks.append(span)
            can_merge = True
    return chunks


def _iter_spans(
    root: Node, definitions: Sequence[Definition], budget: TokenBudget
) -> Iterator[ChunkSpan | None]:
    """Yield the spans to merge into chunks, in order. None separates spans that must not be merged."""
    nested_symbols = _NestedSymbols(definitions)
    stack: list[Node | None] = [*reversed(root.children)]  # None marks the end of a split symbol
    first_decorator: Node | None = None
    while stack:
        node = stack.pop()
        if node is None:
            yield None
        elif node.type in DECORATOR_NODES:
            first_decorator = first_decorator or node
        elif budget.fits(node.start_byte, node.end_byte) or not nested_symbols.can_split(node):
            yield _build_span(first_decorator or node, node)
            first_decorator = None
        elif nested_symbols.mark_split(node):
            yield None
            stack += [None, *reversed(node.children)]
        else:
            stack += reversed(node.children)


class _NestedSymbols:
    """Symbols of a file by position, and record of the symbols whose nodes were split."""

    def __init__(self, definitions: Sequence[Definition]) -> None:
        self._definitions = definitions
        self._starts = [definition.start_byte for definition in definitions]
        self._split_indices: set[int] = set()

    def can_split(self, node: Node) -> bool:
        """Return whether a node may be split: it contains symbols, and is no function."""
        next_index = bisect_right(self._starts, node.start_byte)
        contains_symbols = next_index < len(self._starts) and self._starts[next_index] < node.end_byte
        own_index = self._find_own_symbol(node)
        is_function = own_index is not None and self._definitions[own_index].kind in CALLABLE_KINDS
        return contains_symbols and not is_function

    def mark_split(self, node: Node) -> bool:
        """Record that the symbol of a node is split. Return False if there is no symbol, or it was recorded before.

        The result is True only for the outermost node of a symbol: for the body of a class, which ends at the same
        byte, `_find_own_symbol` returns the class too.
        """
        own_index = self._find_own_symbol(node)
        if own_index is None or own_index in self._split_indices:
            return False
        self._split_indices.add(own_index)
        return True

    def _find_own_symbol(self, node: Node) -> int | None:
        """Return the index of the last symbol that starts at or before a node and ends where the node ends, or None."""
        index = bisect_right(self._starts, node.start_byte) - 1
        while index >= 0 and self._definitions[index].end_byte != node.end_byte:
            index -= 1
        return index if index >= 0 else None


def _build_span(first: Node, last: Node) -> ChunkSpan:
    return ChunkSpan(first.start_byte, last.end_byte, first.start_point[0], get_last_row(last))


def _build_chunk(span: ChunkSpan, budget: TokenBudget) -> Chunk:
    tokens = int(budget.estimate_tokens(span.start_byte, span.end_byte))
    return Chunk(span.first_row + 1, span.last_row + 1, tokens)


def _assign_to_chunks(
    content: FileContent, definitions: Sequence[Definition], chunk_spans: Sequence[ChunkSpan]
) -> Iterator[SymbolInChunk]:
    """Yield the symbols in source order, each with its chunk and siblings."""
    starts = [span.start_byte for span in chunk_spans]
    for chunk_index, group in groupby(
        definitions, key=lambda definition: _get_chunk_index(starts, definition.start_byte)
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


def _get_chunk_index(chunk_starts: Sequence[int], start_byte: int) -> int:
    """Return the index of the last chunk that starts at or before the byte; 0 without one."""
    return max(0, bisect_right(chunk_starts, start_byte) - 1)
