"""Path -> grammar: the parsers and symbol queries of seven grammars, each loaded once per process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from tree_sitter import Language, Node, Parser, Query, QueryCursor, Tree
from tree_sitter_language_pack import get_language

from pipeline.syntax.languages import grammar_name, language_of

if TYPE_CHECKING:
    from tree_sitter import Point
    from tree_sitter_language_pack import SupportedLanguage

__all__ = ["Grammar", "Match", "Node", "Tree", "grammar_of", "language_of", "load"]

# Where the specification says "top-level and member functions", a function inside one is its detail.
WITHOUT_LOCAL_FUNCTIONS: Final = frozenset({"python", "kotlin"})

# Where no scanner makes up semicolons. Where one does, a comment behind a statement without one hangs
# inside or outside of it as the parser came there: of 10,000 incremental parses of express 11 differed.
INCREMENTAL: Final = frozenset({"python", "rust", "java"})

# The parser's own measure of its work, one step being a hundred operations. Of 3,500 files of four
# histories the hungriest took 0.022 a byte; what is no code at all takes ten a byte and more.
STEPS_PER_BYTE: Final = 0.2
STEPS_AT_LEAST: Final = 100

# TSX is TypeScript with another syntax for casts, and defines the same symbols.
QUERY_OF: Final = {"tsx": "typescript"}


class Match(NamedTuple):
    """One match of a symbol query: a definition with its kind and what names it, or a prefix of one."""

    node: Node
    kind: str
    name: Node | None
    second: Node | None  # the trait of an `impl Trait for Type`, the own name of an assigned function


@dataclass(frozen=True, slots=True)
class Grammar:
    """What it takes to parse one language and to find its symbols."""

    name: str
    language: Language
    query: Query
    local_functions: bool  # whether functions inside functions are symbols
    incremental: bool  # whether a parse from the last version's tree equals a fresh one

    def reparse(self, source: bytes, old: Tree) -> Tree | None:
        """The tree of a content that is all but the edited older tree's, however many steps it takes."""
        return Parser(self.language).parse(source, old)

    def parse(self, source: bytes, old: Tree | None = None) -> Tree | None:
        """The tree of a content, from an edited older tree if given; None when it takes too many steps."""
        steps = iter(range(STEPS_AT_LEAST + int(len(source) * STEPS_PER_BYTE)))
        whole = memoryview(source)
        lent = {0: whole}

        def read(byte: int, _: Point) -> memoryview:
            return lent.setdefault(byte, whole[byte:])

        def stop(_byte: int, _error: bool) -> bool:
            return next(steps, None) is None

        parser = Parser(self.language)
        try:
            if old is None:
                return parser.parse(read, progress_callback=stop)
            return parser.parse(read, old, progress_callback=stop)
        except ValueError:
            # The binding's word for a parse that was told to stop.
            return None
        finally:
            # The binding (0.26.1) never lets go of what a function gives it, and only such a parse can be stopped.
            for view in lent.values():
                view.release()

    def matches(self, root: Node, rows: tuple[int, int] | None = None) -> Iterator[Match]:
        """Matches in the order of the patterns, of definitions that meet the rows (first, last)."""
        cursor = QueryCursor(self.query)
        if rows is not None:
            cursor.set_point_range((rows[0], 0), (rows[1] + 1, 0))
        for _, captures in sorted(cursor.matches(root), key=_pattern):
            yield _match(captures)


def grammar_of(path: str) -> Grammar | None:
    """The grammar that parses this file; None for other languages and for declaration files."""
    name = grammar_name(path)
    return None if name is None else load(name)


@cache
def load(name: str) -> Grammar:
    """A grammar by its name, with its query compiled."""
    language = get_language(cast("SupportedLanguage", name))
    source = (files("pipeline.syntax") / "queries" / f"{QUERY_OF.get(name, name)}.scm").read_text(
        encoding="utf-8"
    )
    return Grammar(
        name=name,
        language=language,
        query=Query(language, source),
        local_functions=name not in WITHOUT_LOCAL_FUNCTIONS,
        incremental=name in INCREMENTAL,
    )


def _pattern(match: tuple[int, dict[str, list[Node]]]) -> int:
    return match[0]


def _match(captures: dict[str, list[Node]]) -> Match:
    name, second = captures.pop("name", None), captures.pop("second", None)
    kind, (node,) = captures.popitem()
    return Match(node, kind, name[0] if name else None, second[0] if second else None)
