"""Chunks of a file: consecutive syntax nodes, merged up to a token budget. Pure functions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pipeline.syntax.grammars import Node
from pipeline.syntax.symbols import CALLABLE_KINDS, PREFIX_NODES, Definition, get_last_row
from pipeline.syntax.trees import FileContent

# Token budget of a chunk.
CHUNK_TOKENS: Final = 500
# Estimated characters per token.
TOKEN_CHARACTERS: Final = 4


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """Span of consecutive syntax nodes. Rows count from 0; the last is inclusive."""

    start_byte: int
    end_byte: int
    first_row: int
    last_row: int


class TokenBudget:
    """Estimator of the tokens in parts of a file, which compares them with the budget."""

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


def split_into_chunks(root: Node, definitions: Sequence[Definition], budget: TokenBudget) -> list[ChunkSpan]:
    """Return the chunks of a file, in order. Siblings are merged while they fit the budget.

    A node over the budget that contains symbols, such as a class, is split, and its content is not merged with its
    neighbours. Any other node over the budget is a chunk by itself.
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
    """Yield the spans of the nodes to merge, depth first; None at the start and end of a symbol that is split."""
    nested = _NestedSymbols(definitions)
    stack: list[Node | None] = [*reversed(root.children)]
    prefix: Node | None = None
    while stack:
        node = stack.pop()
        if node is None:
            yield None
        elif node.type in PREFIX_NODES:
            prefix = prefix or node
        elif budget.fits(node.start_byte, node.end_byte) or not nested.has_inner_symbols(node):
            yield _build_span(prefix or node, node)
            prefix = None
        elif nested.mark_split(node):
            yield None
            stack += [None, *reversed(node.children)]
        else:
            stack += reversed(node.children)


class _NestedSymbols:
    """Index of the symbols by position, and record of the symbols that were split."""

    def __init__(self, definitions: Sequence[Definition]) -> None:
        self._definitions = definitions
        self._starts = [definition.start_byte for definition in definitions]
        self._split_indices: set[int] = set()

    def has_inner_symbols(self, node: Node) -> bool:
        """Return whether a node contains symbols and is not itself a function, which is never split."""
        next_index = bisect_right(self._starts, node.start_byte)
        has_inner = next_index < len(self._starts) and self._starts[next_index] < node.end_byte
        own_index = self._find_own_symbol(node)
        return has_inner and (own_index is None or self._definitions[own_index].kind not in CALLABLE_KINDS)

    def mark_split(self, node: Node) -> bool:
        """Mark the symbol of a node as split. Return False if there is none or it was marked before.

        So only the outermost node of a symbol counts as split, and its inner nodes, such as the body, can be merged.
        """
        own_index = self._find_own_symbol(node)
        if own_index is None or own_index in self._split_indices:
            return False
        self._split_indices.add(own_index)
        return True

    def _find_own_symbol(self, node: Node) -> int | None:
        """Return the index of the symbol that the node defines, with or without decorators; None if there is none."""
        index = bisect_right(self._starts, node.start_byte) - 1
        while index >= 0 and self._definitions[index].end_byte != node.end_byte:
            index -= 1
        return index if index >= 0 else None


def _build_span(first: Node, last: Node) -> ChunkSpan:
    return ChunkSpan(first.start_byte, last.end_byte, first.start_point[0], get_last_row(last))


def get_chunk_index(chunk_starts: Sequence[int], start_byte: int) -> int:
    """Return the index of the chunk that contains a byte, given the start bytes of the chunks."""
    return max(0, bisect_right(chunk_starts, start_byte) - 1)
