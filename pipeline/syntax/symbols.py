"""Syntax tree -> the symbols it defines, each with its kind, its parents and its whole span; pure.

A changed file's versions and its diff -> the symbols the change touched; pure.

A symbol is touched when a changed line lies in it and in no symbol nested in it: a changed method
does not touch its class, which it names as its parent. Lines that were added are looked up in the
new version, lines that were removed in the old one; blank lines count only where nothing else changed.
A line whose symbol does not parse, or that lies in none while the file does not parse, falls back to
what git's section heading names.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

from pipeline.syntax import trees
from pipeline.syntax.grammars import Match, Node
from pipeline.syntax.trees import Content, Version

# Decorators and attributes stand before what they belong to, some of them as its siblings.
PREFIXES: Final = frozenset({"decorator", "attribute_item"})
COMMENTS: Final = frozenset({"comment", "line_comment", "block_comment", "multiline_comment"})

# Nodes that hold a definition and nothing else: `export`, `const`, the statement of an assignment.
DECLARATIONS: Final = frozenset({"lexical_declaration", "variable_declaration"})
WRAPPERS: Final = DECLARATIONS | {
    "ambient_declaration",
    "decorated_definition",
    "export_statement",
    "expression_statement",
}

CALLABLE: Final = frozenset({"function", "method"})

# Computed property names and generated code hold whole programs where a name is expected.
NAME_LIMIT: Final = 200

# People stop at five or six; a machine's tower of functions would repeat its source once a floor.
NESTING_LIMIT: Final = 16

# Comments and decorators looked through around a definition: each step costs more the further it is.
NEIGHBOURS: Final = 200


class Definition(NamedTuple):
    """A symbol in its file; rows count from 0, the last is inclusive."""

    name: str
    kind: str
    parent: str
    lead_row: int  # of the comment directly above it, else its first row
    first_row: int
    last_row: int
    start_byte: int
    end_byte: int
    exact: bool  # whether all of it parses


class _Span(NamedTuple):
    """A match with the first of its decorators, the row of its comment, and its whole statement."""

    match: Match
    first: Node
    lead_row: int
    whole: Node


def definitions(version: Version, rows: tuple[int, int] | None = None) -> list[Definition]:
    """Symbols in source order, parents before children; only those that meet the rows, if given."""
    root, grammar = version.tree.root_node, version.grammar
    matches = list(grammar.matches(root, rows))
    prefixes = [match.node for match in matches if match.kind == "prefix"]
    if rows is not None and prefixes:
        reach = _defined_row(max(prefixes, key=lambda node: node.start_byte))
        if reach > rows[1]:
            matches = list(grammar.matches(root, (rows[0], reach)))
    return list(_nested(_spans(matches), version))


def _defined_row(prefix: Node) -> int:
    """Row where the definition starts that a comment, decorator or attribute stands before."""
    node: Node | None = prefix
    for _ in range(NEIGHBOURS):
        if node is None or not _stands_before(node):
            break
        node = node.next_sibling
    return prefix.start_point[0] if node is None else node.start_point[0]


def _stands_before(node: Node) -> bool:
    return node.type in PREFIXES or node.type in COMMENTS


def _spans(matches: Iterable[Match]) -> list[_Span]:
    """The last match of each definition, in source order."""
    best = {(m.node.start_byte, m.node.end_byte): m for m in matches if m.kind != "prefix"}
    spans = [_span(match) for match in best.values()]
    return sorted(spans, key=lambda s: (s.first.start_byte, -s.whole.end_byte, s.match.node.start_byte))


def _span(match: Match) -> _Span:
    whole = _wrapped(match.node)
    first, lead_row = whole, whole.start_point[0]
    before = whole.prev_sibling
    for _ in range(NEIGHBOURS):
        if before is None or not _stands_before(before):
            break
        if before.type in PREFIXES:
            first, lead_row = before, before.start_point[0]
        elif last_row_of(before) >= lead_row - 1 and not _trails(before):
            lead_row = before.start_point[0]
        before = before.prev_sibling
    return _Span(match, first, lead_row, whole)


def _trails(comment: Node) -> bool:
    """Whether a comment stands behind code on its line."""
    before = comment.prev_sibling
    return before is not None and last_row_of(before) == comment.start_point[0]


def last_row_of(node: Node) -> int:
    """The last row a node has characters on: some end behind their line break."""
    row, column = node.end_point
    return row if column else max(row - 1, node.start_point[0])


def _wrapped(node: Node) -> Node:
    """The statement around a definition, unless it declares something else too."""
    while (parent := node.parent) is not None and parent.type in WRAPPERS:
        if parent.type in DECLARATIONS and parent.named_child_count > 1:
            break
        node = parent
    return node


def _nested(spans: Iterable[_Span], version: Version) -> Iterator[Definition]:
    """Definitions with kind and parent as their nesting says."""
    enclosing: list[Definition] = []
    for span in spans:
        while enclosing and enclosing[-1].end_byte <= span.first.start_byte:
            enclosing.pop()
        kind, name = _kind(span, enclosing, version), _name(span.match, version.content)
        # A parser that recovers makes up a name without characters.
        if kind and name and len(enclosing) < NESTING_LIMIT:
            definition = _definition(span, name, kind, ".".join(outer.name for outer in enclosing))
            enclosing.append(definition)
            yield definition


def _kind(span: _Span, enclosing: Sequence[Definition], version: Version) -> str | None:
    """A function in a class is a method; one in a function is no symbol in some languages."""
    kind, inside = span.match.kind, enclosing[-1].kind if enclosing else None
    if kind in CALLABLE and inside in CALLABLE and not version.grammar.local_functions:
        return None
    return "method" if kind == "function" and inside and inside not in CALLABLE else kind


def _definition(span: _Span, name: str, kind: str, parent: str) -> Definition:
    return Definition(
        name=name,
        kind=kind,
        parent=parent,
        lead_row=span.lead_row,
        first_row=span.first.start_point[0],
        last_row=last_row_of(span.whole),
        start_byte=span.first.start_byte,
        end_byte=span.whole.end_byte,
        exact=not span.whole.has_error,
    )


def _name(match: Match, content: Content) -> str:
    if match.name is None:
        return "Companion"
    if match.kind == "impl":
        # `Type`, or `Trait for Type`, both without their paths and arguments.
        named = [node for node in (match.second, match.name) if node is not None]
        return " for ".join(_text(_base(node), content) for node in named)
    name = _text(match.name, content)
    return _text(match.second, content) if match.second is not None and name == "exports" else name


def _base(node: Node) -> Node:
    while inner := node.child_by_field_name("name") or node.child_by_field_name("type"):
        node = inner
    return node


def _text(node: Node, content: Content) -> str:
    return " ".join(content.text(node.start_byte, node.end_byte).split())[:NAME_LIMIT]


EXACT: Final = "ExactSpan"
HEADER: Final = "HunkHeader"

# What a definition looks like, from the surest sign to the faintest: `impl Trait for Name`, a keyword
# (with the generics, receiver or qualifier that may stand before the name), a constant, parameters.
_QUALIFIED: Final = r"(?:[\w$]+(?:<[^<>]*>)?[.:]+)*([^\W\d][\w$]*)"
_SIGNS: Final = (
    re.compile(r"\bimpl\b.*\sfor\s+(?:&\s*)?(?:mut\s+)?" + _QUALIFIED),
    re.compile(
        r"\b(?:class|defmodule|defp?|enum|fn|func?|function|fun|impl|interface|macro|module|namespace|object"
        r"|package|protocol|record|struct|sub|trait|type|union)\b(?:<[^>]*>)?"
        r"[\s*]+(?:<[^>]*>\s*|\([^()]*\)\s*)?" + _QUALIFIED
    ),
    re.compile(r"\b(?:const|let|val|var)\s+([^\W\d][\w$]*)\s*="),
    re.compile(r"([^\W\d][\w$]*)\s*(?:<[^<>()]*>)?\("),
)
_CONTROL: Final = re.compile(
    r"\W*(?:assert|catch|elif|else|except|for|if|match|return|switch|throw|try|while|with)\b"
)


class Part(trees.Part, Protocol):
    """A part of a diff with git's section heading."""

    @property
    def header(self) -> str:
        """The line above the part that git takes for the start of its function."""


@dataclass(frozen=True, slots=True)
class Touched:
    """A symbol that a hunk touched; the fields are those of `stores.schema.HUNK_SYMBOLS`."""

    name: str
    parent: str
    kind: str
    confidence: Literal["ExactSpan", "HunkHeader"]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the changed lines of one part say on one side of the diff."""

    symbols: tuple[Touched, ...]
    doubtful: bool


_NOTHING: Final = _Reading((), doubtful=False)
_UNKNOWN: Final = _Reading((), doubtful=True)


def touched(parts: Sequence[Part], old: Version | None, new: Version | None) -> tuple[Touched, ...]:
    """Symbols of the new version in source order, then those only the old one has, then headings."""
    added = [_reading(new, part.added) for part in parts]
    removed = [_reading(old, part.removed) for part in parts]
    doubtful = [a.doubtful or r.doubtful for a, r in zip(added, removed, strict=True)]
    exact = dict.fromkeys(symbol for reading in (*added, *removed) for symbol in reading.symbols)
    names = {symbol.name for symbol in exact}
    headings = headed(part for part, doubt in zip(parts, doubtful, strict=True) if doubt)
    return (*exact, *(symbol for symbol in headings if symbol.name not in names))


def headed(parts: Iterable[Part]) -> tuple[Touched, ...]:
    """What git's section headings name, each once."""
    names = (heading_name(part.header) for part in parts if part.header)
    return tuple(Touched(name, "", "unknown", HEADER) for name in dict.fromkeys(names) if name)


def heading_name(header: str) -> str | None:
    """The symbol that a section heading defines, if it looks like a definition."""
    if _CONTROL.match(header):
        return None
    found = (sign.search(header) for sign in _SIGNS)
    return next((match[1][:NAME_LIMIT] for match in found if match), None)


def _reading(version: Version | None, lines: Sequence[int]) -> _Reading:
    """The innermost symbols of some lines (counted from 1) in one version."""
    if not lines:
        return _NOTHING
    if version is None:
        return _UNKNOWN
    rows = _telling(version.content, [line - 1 for line in lines])
    found = definitions(version, (rows[0], rows[-1]))
    owners = _owners(found, rows)
    whole = [found[owner] for owner in owners if owner >= 0 and found[owner].exact]
    unowned = -1 in owners and not version.sound
    return _Reading(tuple(map(_exact, whole)), unowned or len(whole) < sum(owner >= 0 for owner in owners))


def _telling(content: Content, rows: list[int]) -> list[int]:
    """The rows that say something: a blank line between two methods is part of neither."""
    lines = content.rows(rows[0], rows[-1])
    return [row for row in rows if lines[row - rows[0]].strip()] or rows


def _owners(found: Sequence[Definition], rows: Sequence[int]) -> list[int]:
    """Indices of the innermost definitions of sorted rows, in order; -1 first when a row has none."""
    painted = [-1] * len(rows)
    lines_of_their_own = set()
    for index, definition in enumerate(found):
        first, last = bisect_left(rows, definition.lead_row), bisect_right(rows, definition.last_row)
        painted[first:last] = [index] * (last - first)
        # Several symbols on one line: each of them is touched, though only the last is painted.
        if first < last and definition.first_row == definition.last_row:
            lines_of_their_own.add(index)
    return sorted(lines_of_their_own.union(painted))


def _exact(definition: Definition) -> Touched:
    return Touched(definition.name, definition.parent, definition.kind, EXACT)
