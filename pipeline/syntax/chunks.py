"""Syntax tree -> chunks: neighbouring nodes merged up to a budget, larger ones opened or left alone; pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pipeline.syntax.grammars import Node
from pipeline.syntax.symbols import CALLABLE, PREFIXES, Definition, last_row_of
from pipeline.syntax.trees import Content

# The specification's budget and its estimate of a token.
CHUNK_TOKENS: Final = 500
TOKEN_CHARACTERS: Final = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """Neighbouring nodes of a content; rows count from 0, the last is inclusive."""

    start_byte: int
    end_byte: int
    first_row: int
    last_row: int


class Budget:
    """Estimates the tokens of parts of one content."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._ascii = content.source.isascii()

    def tokens(self, start: int, end: int) -> float:
        """Estimated tokens between two bytes."""
        characters = end - start if self._ascii else len(self._content.text(start, end))
        return characters / TOKEN_CHARACTERS

    def holds(self, start: int, end: int) -> bool:
        """Whether the estimate stays under the budget."""
        return self.tokens(start, end) < CHUNK_TOKENS


def pieces(root: Node, found: Sequence[Definition], budget: Budget) -> list[Piece]:
    """Chunks of a content, in order: siblings merged depth-first while the budget holds them.

    A node over budget that has further symbols inside, such as a class, is opened, and what it
    holds is merged apart from its neighbours; any other node over budget is a chunk alone.
    """
    merged: list[Piece] = []
    joinable = False
    for unit in _units(root, found, budget):
        if unit is None:
            joinable = False
        elif joinable and budget.holds(merged[-1].start_byte, unit.end_byte):
            merged[-1] = replace(merged[-1], end_byte=unit.end_byte, last_row=unit.last_row)
        else:
            merged.append(unit)
            joinable = True
    return merged


def _units(root: Node, found: Sequence[Definition], budget: Budget) -> Iterator[Piece | None]:
    """The nodes to merge, depth-first; None where an opened symbol begins or ends."""
    insides = _Insides(found)
    stack: list[Node | None] = [*reversed(root.children)]
    prefix: Node | None = None
    while stack:
        node = stack.pop()
        if node is None:
            yield None
        elif node.type in PREFIXES:
            prefix = prefix or node
        elif budget.holds(node.start_byte, node.end_byte) or not insides.more(node):
            yield _piece(prefix or node, node)
            prefix = None
        elif insides.opens_symbol(node):
            yield None
            stack += [None, *reversed(node.children)]
        else:
            stack += reversed(node.children)


class _Insides:
    """Which symbols lie in which nodes."""

    def __init__(self, found: Sequence[Definition]) -> None:
        self._found = found
        self._starts = [definition.start_byte for definition in found]
        self._opened: set[int] = set()

    def more(self, node: Node) -> bool:
        """Whether a node has symbols inside and is not itself a function, which stays whole."""
        after = bisect_right(self._starts, node.start_byte)
        further = after < len(self._starts) and self._starts[after] < node.end_byte
        own = self._own(node)
        return further and (own is None or self._found[own].kind not in CALLABLE)

    def opens_symbol(self, node: Node) -> bool:
        """Whether this is the first node opened of a symbol: its body then stays with its head."""
        own = self._own(node)
        if own is None or own in self._opened:
            return False
        self._opened.add(own)
        return True

    def _own(self, node: Node) -> int | None:
        """The symbol a node is the whole of, but for its decorators."""
        index = bisect_right(self._starts, node.start_byte) - 1
        while index >= 0 and self._found[index].end_byte != node.end_byte:
            index -= 1
        return index if index >= 0 else None


def _piece(first: Node, last: Node) -> Piece:
    return Piece(first.start_byte, last.end_byte, first.start_point[0], last_row_of(last))


def place(piece_starts: Sequence[int], start_byte: int) -> int:
    """Ordinal of the chunk a byte lies in, from where the chunks start."""
    return max(0, bisect_right(piece_starts, start_byte) - 1)
