"""Tree-sitter parsers and symbol queries of seven grammars, each loaded once per process.

A symbol query (`queries/*.scm`) finds the nodes of a syntax tree that define a symbol.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from tree_sitter import Language, Node, Parser, Query, QueryCursor, Tree
from tree_sitter_language_pack import get_language

from pipeline.file_classification import get_grammar_name

if TYPE_CHECKING:
    from tree_sitter import Point
    from tree_sitter_language_pack import SupportedLanguage

__all__ = ["Grammar", "Match", "Node", "Tree", "load_grammar", "load_grammar_for_path"]

# Grammars in which a function inside a function is not recorded as a symbol.
GRAMMARS_IGNORING_LOCAL_FUNCTIONS: Final = frozenset({"python", "kotlin"})

# Grammars in which an incremental parse gives the same tree as a full parse. In a grammar with automatic
# semicolons, a comment may get another place in the tree (11 of 10,000 parses of the JavaScript project express).
INCREMENTAL_GRAMMARS: Final = frozenset({"python", "rust", "java"})

# Limit on the steps of a parse, per byte of source; a step is a hundred operations. Of 3,500 source files of four
# projects, the slowest took 0.022 steps per byte. Input that is not code takes ten or more steps per byte.
STEPS_PER_BYTE: Final = 0.2
# Steps that every parse may take besides STEPS_PER_BYTE, so that short files have enough.
EXTRA_STEPS: Final = 100

# Names of a grammar's query files, in order. A grammar without an entry has one file, with its own name. TSX has the
# queries of TypeScript, because it differs only in casts.
QUERY_FILES_BY_GRAMMAR: Final = {
    "javascript": ("ecmascript", "javascript"),
    "typescript": ("ecmascript", "typescript"),
    "tsx": ("ecmascript", "typescript"),
}

# Types of nodes whose last child is the rest of a chained assignment, such as `first = second = function () {}`.
CHAIN_NODES: Final = frozenset({"variable_declarator", "assignment_expression", "parenthesized_expression"})

# Kind of a JavaScript function or class that ends a chained assignment or is an argument of a call, by its node's type.
KIND_BY_VALUE_TYPE: Final = {
    "arrow_function": "function",
    "function_expression": "function",
    "generator_function": "function",
    "class": "class",
}

# Names of JavaScript functions that define a property, including helpers of libraries such as `defineGetter`.
PROPERTY_FUNCTION: Final = re.compile(r"__define[GS]etter__|define[A-Z]\w*")


class Match(NamedTuple):
    """Match of a symbol query: a definition, or a decorator or comment that may precede a definition.

    `second_name`: None, or a second name that the query captures. Its meaning depends on the kind of the match:

    - `impl`: the trait in `impl Trait for Type`
    - `property`: the called function, such as `defineGetter` in `defineGetter(req, "ip", function () {})`. The call
      is a definition only if this name matches PROPERTY_FUNCTION
    - other kinds: the own name of an assigned function or class, such as `create` in `exports = function create() {}`
    """

    node: Node
    kind: str  # kind of the symbol; `prefix` for a decorator or comment
    name: Node | None
    second_name: Node | None


@dataclass(frozen=True, slots=True)
class Grammar:
    """Parser and symbol query of a language."""

    name: str
    language: Language
    query: Query
    ignores_local_functions: bool  # whether functions inside functions are not recorded as symbols
    is_incremental: bool  # whether an incremental parse gives the same tree as a full one

    def parse_without_limit(self, source: bytes, old: Tree) -> Tree | None:
        """Parse without a limit on steps. `old`: tree of an earlier version, edited to fit (`Tree.edit`)."""
        return Parser(self.language).parse(source, old)

    def parse(self, source: bytes, old: Tree | None = None) -> Tree | None:
        """Parse a file. Return None if that takes too many steps.

        `old`: as in `parse_without_limit`; None for a full parse.
        """
        remaining_steps = iter(range(EXTRA_STEPS + int(len(source) * STEPS_PER_BYTE)))
        buffer = memoryview(source)
        views = {0: buffer}

        # Only a parse that reads the source with a function can be stopped.
        def read(byte: int, _: Point) -> memoryview:
            return views.setdefault(byte, buffer[byte:])

        def should_stop(_byte: int, _error: bool) -> bool:
            return next(remaining_steps, None) is None

        parser = Parser(self.language)
        try:
            if old is None:
                return parser.parse(read, progress_callback=should_stop)
            return parser.parse(read, old, progress_callback=should_stop)
        except ValueError:
            # tree_sitter raises ValueError when `should_stop` ends the parse.
            return None
        finally:
            # tree_sitter 0.26.1 never frees what `read` returns, so its memory is released here.
            for view in views.values():
                view.release()

    def find_matches(self, root: Node, rows: tuple[int, int] | None = None) -> Iterator[Match]:
        """Yield the matches in the order of the query's patterns.

        `rows`: (first, last), both inclusive. Only matches that intersect these rows are yielded; None for all matches.
        """
        cursor = QueryCursor(self.query)
        if rows is not None:
            cursor.set_point_range((rows[0], 0), (rows[1] + 1, 0))
        for _, captures in sorted(cursor.matches(root), key=_get_pattern_index):
            if match := _resolve_kind(_build_match(captures)):
                yield match


def load_grammar_for_path(path: str) -> Grammar | None:
    """Return the grammar for a file; None if there is none, and for TypeScript declaration files."""
    name = get_grammar_name(path)
    return None if name is None else load_grammar(name)


@cache
def load_grammar(name: str) -> Grammar:
    """Load a grammar by its name and compile its query."""
    language = get_language(cast("SupportedLanguage", name))
    queries = files("pipeline.syntax") / "queries"
    source = "\n".join(
        (queries / f"{query}.scm").read_text(encoding="utf-8")
        for query in QUERY_FILES_BY_GRAMMAR.get(name, (name,))
    )
    return Grammar(
        name=name,
        language=language,
        query=Query(language, source),
        ignores_local_functions=name in GRAMMARS_IGNORING_LOCAL_FUNCTIONS,
        is_incremental=name in INCREMENTAL_GRAMMARS,
    )


def _get_pattern_index(match: tuple[int, dict[str, list[Node]]]) -> int:
    return match[0]


def _resolve_kind(match: Match) -> Match | None:
    """Replace the kinds `chain` and `argument` by the kind of the assigned or passed value.

    Return None if the value is neither a function nor a class, or an `argument` is in no call. A match of another kind
    is returned unchanged.
    """
    value = match.node
    if match.kind == "chain":
        while value.type in CHAIN_NODES and value.named_children:
            value = value.named_children[-1]
    elif match.kind != "argument":
        return match
    elif value.parent is None or value.parent.type != "arguments":
        return None
    kind = KIND_BY_VALUE_TYPE.get(value.type)
    return match._replace(kind=kind, second_name=value.child_by_field_name("name")) if kind else None


def _build_match(captures: dict[str, list[Node]]) -> Match:
    """Build a match from its captures: `name`, `second`, and the matched node, captured as `@KIND`."""
    names, second_names = captures.pop("name", None), captures.pop("second", None)
    kind, (node,) = captures.popitem()
    return Match(node, kind, names[0] if names else None, second_names[0] if second_names else None)
