"""A file's content -> its symbols and chunks; a hunk -> the symbols it touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Protocol

from pipeline.syntax.chunks import Budget, Piece, pieces, place
from pipeline.syntax.grammars import Grammar, grammar_of
from pipeline.syntax.languages import names_symbols
from pipeline.syntax.symbols import Definition, Part, Touched, definitions, headed, touched
from pipeline.syntax.trees import Before, Content, Contents, Version, Versions, parsed

__all__ = ["Chunk", "Outline", "Parses", "Placed", "Symbol", "Touched", "outline"]

# Sibling names kept on either side: a chunk of one huge function may hold a thousand others.
SIBLINGS: Final = 50


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol of a file; lines count from 1, both ends inclusive, decorators included."""

    name: str
    kind: str
    parent: str
    start_line: int
    end_line: int
    source_text: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """Neighbouring nodes of a file, about as much as fits a model; lines as in `Symbol`."""

    start_line: int
    end_line: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A symbol, the chunk it starts in, and the names of the other symbols that start there."""

    symbol: Symbol
    chunk: int
    siblings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outline:
    """What a file defines, in source order."""

    symbols: tuple[Placed, ...]
    chunks: tuple[Chunk, ...]


class HunkLike(Protocol):
    """What of a hunk finds its symbols."""

    @property
    def file_path(self) -> str:
        """Path after the change, or before it when deleted."""

    @property
    def old_path(self) -> str | None:
        """Path before a rename."""

    @property
    def old_blob(self) -> str | None:
        """Blob that the parts lead away from."""

    @property
    def new_blob(self) -> str | None:
        """Blob that the parts lead to."""

    @property
    def parts(self) -> Sequence[Part]:
        """The `@@` parts between the two blobs."""


def outline(source: bytes, grammar: Grammar) -> Outline:
    """Symbols and chunks of a file; empty for contents too large or too wide to parse."""
    version = parsed(source, grammar)
    if version is None:
        return Outline((), ())
    root, budget = version.tree.root_node, Budget(version.content)
    found = definitions(version)
    cut = pieces(root, found, budget)
    return Outline(
        symbols=tuple(_placed(version.content, found, cut)),
        chunks=tuple(_chunk(piece, budget) for piece in cut),
    )


def _chunk(piece: Piece, budget: Budget) -> Chunk:
    tokens = int(budget.tokens(piece.start_byte, piece.end_byte))
    return Chunk(piece.first_row + 1, piece.last_row + 1, tokens)


def _placed(content: Content, found: Sequence[Definition], cut: Sequence[Piece]) -> Iterator[Placed]:
    starts = [piece.start_byte for piece in cut]
    for chunk, together in groupby(found, key=lambda definition: place(starts, definition.start_byte)):
        symbols = [_symbol(content, definition) for definition in together]
        names = tuple(symbol.name for symbol in symbols)
        for index, symbol in enumerate(symbols):
            near = (*names[max(0, index - SIBLINGS) : index], *names[index + 1 : index + 1 + SIBLINGS])
            yield Placed(symbol, chunk, near)


def _symbol(content: Content, definition: Definition) -> Symbol:
    return Symbol(
        name=definition.name,
        kind=definition.kind,
        parent=definition.parent,
        start_line=definition.first_row + 1,
        end_line=definition.last_row + 1,
        source_text=content.text(definition.start_byte, definition.end_byte),
    )


class Parses:
    """Touched symbols of hunks in the order of history, following each file from version to version."""

    def __init__(self) -> None:
        self._versions = Versions()

    def touched(self, hunk: HunkLike, contents: Contents) -> tuple[Touched, ...]:
        """Symbols a hunk touched, each once; they depend on the hunk and its blobs alone."""
        if not hunk.parts:
            return ()
        grammar = grammar_of(hunk.file_path)
        if grammar is None:
            return headed(hunk.parts) if names_symbols(hunk.file_path) else ()
        before = _before(hunk)
        old = self._old(before, contents)
        return touched(hunk.parts, old, self._new(hunk, grammar, before, contents))

    def _old(self, before: Before | None, contents: Contents) -> Version | None:
        """The version before, where lines were removed from it."""
        if before is None or not any(part.removed for part in before.parts):
            return None
        return self._versions.of(before.path, before.blob, before.grammar, contents)

    def _new(
        self, hunk: HunkLike, grammar: Grammar, before: Before | None, contents: Contents
    ) -> Version | None:
        """The version after, where lines were added to it; from the one before where that is at hand."""
        if hunk.new_blob is None or not any(part.added for part in hunk.parts):
            return None
        if before is None:
            return self._versions.of(hunk.file_path, hunk.new_blob, grammar, contents)
        return self._versions.after(before, hunk.file_path, hunk.new_blob, grammar, contents)


def _before(hunk: HunkLike) -> Before | None:
    path = hunk.old_path or hunk.file_path
    grammar = grammar_of(path)
    if hunk.old_blob is None or grammar is None:
        return None
    return Before(path, hunk.old_blob, grammar, hunk.parts)
