"""Definitions in the files of a commit, and the similarity of two definitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from pipeline.git.changes import decode_path
from pipeline.git.errors import UnreadableObject
from pipeline.git.repository import Repository
from pipeline.parse import Symbol, parse_symbols
from pipeline.syntax.languages import get_grammar_name
from pipeline.syntax.symbols import CALLABLE_KINDS
from pipeline.syntax.trees import MAX_PARSED_BYTES
from serve.explain.line_similarity import TOKEN, count_common_tokens
from serve.explain.line_sources import find_blob
from stores.history import get_definition_word

# Tokens of a definition that are compared, the first ones: about 400 lines, which take 10 ms.
MAX_TOKENS: Final = 4_000
CACHED_TEXTS: Final = 256


@dataclass(frozen=True, slots=True)
class Body:
    """Source of a symbol. Several definitions of one place, such as overloads, are joined."""

    text: str
    is_callable: bool

    @property
    def token_count(self) -> int:
        """Number of tokens, up to the number that are compared."""
        return len(_split(self.text))

    def compute_similarity(self, other: Body) -> float:
        """Return the similarity, 0 to 1: the share of the tokens that both have in the same order."""
        if self.text == other.text:
            return 1.0
        tokens, others = _split(self.text), _split(other.text)
        if not tokens or not others or self.is_callable != other.is_callable:
            return 0.0
        return 2 * count_common_tokens(tokens, others) / (len(tokens) + len(others))


@dataclass(frozen=True, slots=True)
class DefinitionReader:
    """Reader of the definitions in a commit's files. It parses each version of a file once."""

    repository: Repository
    _symbols_by_blob: dict[tuple[str, str], tuple[Symbol, ...] | None] = field(default_factory=dict)

    def list_symbols(self, commit: str, path: bytes, word: str = "") -> tuple[Symbol, ...] | None:
        """Return the symbols of a file: an empty tuple if the commit has no such file, or it lacks the word.

        None if the file cannot be read or parsed.
        """
        name = decode_path(path)
        if get_grammar_name(name) is None:
            return None
        try:
            blob = find_blob(self.repository, commit, path)
            if blob is None:
                return ()
            if self.repository.read_blob_size(blob) > MAX_PARSED_BYTES:
                return None
            if word and word.encode() not in self.repository.read_blob(blob):
                return ()
            key = (blob, name)
            if key not in self._symbols_by_blob:
                self._symbols_by_blob[key] = parse_symbols(self.repository.read_blob(blob), name)
        except UnreadableObject:
            return None
        return self._symbols_by_blob[key]

    def find_bodies(self, commit: str, path: bytes, name: str) -> dict[str, Body] | None:
        """Return each symbol of a name in a file by its parent; None if the file cannot be parsed."""
        symbols = self.list_symbols(commit, path, get_definition_word(name))
        if symbols is None:
            return None
        bodies = group_bodies(symbol for symbol in symbols if symbol.name == name)
        return {parent: body for (parent, _), body in bodies.items()}


def group_bodies(symbols: Iterable[Symbol]) -> dict[tuple[str, str], Body]:
    """Return the symbols by parent and name."""
    bodies: dict[tuple[str, str], Body] = {}
    for symbol in symbols:
        place = (symbol.parent, symbol.name)
        text = bodies[place].text if place in bodies else ""
        bodies[place] = Body(text + symbol.source_text, symbol.kind in CALLABLE_KINDS)
    return bodies


@lru_cache(CACHED_TEXTS)
def _split(text: str) -> tuple[str, ...]:
    return tuple(TOKEN.findall(text)[:MAX_TOKENS])
