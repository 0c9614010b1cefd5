"""Symbols that a file defines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from pipeline.syntax.grammars import PROPERTY_FUNCTION, Match, Node
from pipeline.syntax.trees import FileContent, Version

# Types of decorator and attribute nodes. In some grammars they are siblings before the definition.
DECORATOR_NODES: Final = frozenset({"decorator", "attribute_item"})

# Types of comment nodes.
COMMENT_NODES: Final = frozenset({"comment", "line_comment", "block_comment", "multiline_comment"})

# Types of nodes that declare one or more names.
DECLARATION_NODES: Final = frozenset({"lexical_declaration", "variable_declaration"})

# Types of nodes around a definition that belong to it: `export`, `const`, a chained assignment and its statement.
WRAPPER_NODES: Final = DECLARATION_NODES | {
    "ambient_declaration",
    "assignment_expression",
    "decorated_definition",
    "export_statement",
    "expression_statement",
    "variable_declarator",
}

# Kinds of symbols that are functions. A `property` is a JavaScript property, such as a getter, that a call defines.
CALLABLE_KINDS: Final = frozenset({"function", "method", "property"})

# Maximum length of a name; the rest is cut off. In generated code and computed property names, it may be long code.
MAX_NAME_CHARACTERS: Final = 200

# Maximum number of levels of nested symbols. Deeper symbols are omitted, because the source text of each symbol repeats
# that of all symbols in it. Handwritten code has up to six levels.
MAX_NESTING: Final = 16

# Maximum number of comments and decorators to visit next to a definition. Each takes longer to find than the last.
MAX_VISITED_SIBLINGS: Final = 200


class Definition(NamedTuple):
    """Symbol that a file defines. Rows count from 0, and the last is inclusive. `end_byte` is exclusive."""

    name: str
    kind: str
    parent: str  # names of the enclosing symbols, joined by dots
    first_comment_row: int  # row of the first comment directly above the definition, or else `first_row`
    first_row: int  # row of the first decorator, or else of the definition
    last_row: int
    start_byte: int
    end_byte: int
    has_syntax_error: bool  # whether the definition contains a syntax error

    @property
    def byte_range(self) -> tuple[int, int]:
        """First byte, and the byte after the last one."""
        return self.start_byte, self.end_byte


class _DefinitionSpan(NamedTuple):
    """Match of a definition, and the nodes around and before it that belong to it.

    - `first_node`: first decorator; without decorators, the statement.
    - `first_comment_row`: as in `Definition`.
    - `statement`: outermost node that belongs to the definition, such as its `export` statement; else its own node.
    """

    match: Match
    first_node: Node
    first_comment_row: int
    statement: Node


def find_definitions(version: Version, rows: tuple[int, int] | None = None) -> list[Definition]:
    """Return the symbols of a file in source order, parents before children.

    `rows`: (first, last), inclusive; None for all symbols. Return the symbols that intersect these rows, counting the
    comments above a symbol, and possibly some symbols below the rows.
    """
    root, grammar = version.tree.root_node, version.grammar
    matches = list(grammar.find_matches(root, rows))
    prefixes = [match.node for match in matches if match.kind == "prefix"]
    # A decorator or comment in the rows may belong to a definition below them.
    if rows is not None and prefixes:
        last_definition_row = _find_definition_row(max(prefixes, key=lambda node: node.start_byte))
        if last_definition_row > rows[1]:
            matches = list(grammar.find_matches(root, (rows[0], last_definition_row)))
    # Remove duplicates: `exports = module.exports = function create() {}` defines `create` twice.
    return list(dict.fromkeys(_build_definitions(_build_spans(matches), version)))


def get_last_row(node: Node) -> int:
    """Return the last row that has characters of the node. A final line feed moves the end point one row down."""
    row, column = node.end_point
    return row if column else max(row - 1, node.start_point[0])


def _find_definition_row(prefix: Node) -> int:
    """Return the start row of the next sibling that is no comment or decorator; without one, that of `prefix`."""
    node: Node | None = prefix
    for _ in range(MAX_VISITED_SIBLINGS):
        if node is None or not _is_decorator_or_comment(node):
            break
        node = node.next_sibling
    return prefix.start_point[0] if node is None else node.start_point[0]


def _is_decorator_or_comment(node: Node) -> bool:
    return node.type in DECORATOR_NODES or node.type in COMMENT_NODES


def _build_spans(matches: Iterable[Match]) -> list[_DefinitionSpan]:
    """Return the spans of the definitions, in source order. If a node has several matches, the last one counts."""
    last_matches = {(m.node.start_byte, m.node.end_byte): m for m in matches if m.kind != "prefix"}
    spans = [_build_span(match) for match in last_matches.values()]
    return sorted(
        spans, key=lambda s: (s.first_node.start_byte, -s.statement.end_byte, s.match.node.start_byte)
    )


def _build_span(match: Match) -> _DefinitionSpan:
    """Return the span of a match, with the decorators and comments before it."""
    statement = _get_statement(match.node)
    first_node, first_comment_row = statement, statement.start_point[0]
    previous_node = statement.prev_sibling
    for _ in range(MAX_VISITED_SIBLINGS):
        if previous_node is None or not _is_decorator_or_comment(previous_node):
            break
        if previous_node.type in DECORATOR_NODES:
            first_node, first_comment_row = previous_node, previous_node.start_point[0]
        elif get_last_row(previous_node) >= first_comment_row - 1 and not _is_trailing_comment(previous_node):
            first_comment_row = previous_node.start_point[0]
        previous_node = previous_node.prev_sibling
    return _DefinitionSpan(match, first_node, first_comment_row, statement)


def _is_trailing_comment(comment: Node) -> bool:
    """Return whether there is code before the comment on its line."""
    previous_node = comment.prev_sibling
    return previous_node is not None and get_last_row(previous_node) == comment.start_point[0]


def _get_statement(node: Node) -> Node:
    """Return the outermost node that belongs to a definition: its node, or a node of `WRAPPER_NODES` around it.

    A declaration of several names belongs to none of the definitions in it.
    """
    while (parent := node.parent) is not None and parent.type in WRAPPER_NODES:
        if parent.type in DECLARATION_NODES and parent.named_child_count > 1:
            break
        node = parent
    return node


def _build_definitions(spans: Iterable[_DefinitionSpan], version: Version) -> Iterator[Definition]:
    """Yield the definitions of the spans, except spans that are no symbols or are nested too deep."""
    enclosing_definitions: list[Definition] = []
    for span in spans:
        while enclosing_definitions and not _encloses(enclosing_definitions[-1], span):
            enclosing_definitions.pop()
        kind, name = _get_kind(span, enclosing_definitions, version), _get_name(span.match, version.content)
        # The parser's error recovery may insert an empty name.
        if kind and name and len(enclosing_definitions) < MAX_NESTING:
            parent = ".".join(enclosing.name for enclosing in enclosing_definitions)
            definition = _build_definition(span, name, kind, parent)
            enclosing_definitions.append(definition)
            yield definition


def _encloses(definition: Definition, span: _DefinitionSpan) -> bool:
    """Return whether a definition encloses a span. The span must not start before the definition.

    The definitions of a chained assignment have the same byte range, and do not enclose each other.
    """
    is_chained = definition.byte_range == (span.first_node.start_byte, span.statement.end_byte)
    return definition.end_byte > span.first_node.start_byte and not is_chained


def _get_kind(
    span: _DefinitionSpan, enclosing_definitions: Sequence[Definition], version: Version
) -> str | None:
    """Return the kind of a span's symbol; None if the span is no symbol. `enclosing_definitions`: innermost last.

    A function directly in a class or another non-function symbol is a method. A function that is the value of a
    property is not a symbol. In Python and Kotlin, a function inside a function is not a symbol.
    """
    kind, callee = span.match.kind, span.match.second_name
    if kind == "property" and callee and not PROPERTY_FUNCTION.fullmatch(_get_text(callee, version.content)):
        return None
    if not enclosing_definitions:
        return kind
    enclosing = enclosing_definitions[-1]
    if enclosing.kind == "property" and kind in CALLABLE_KINDS and _is_value_of(span, enclosing):
        return None
    if enclosing.kind not in CALLABLE_KINDS:
        return "method" if kind == "function" else kind
    return None if kind in CALLABLE_KINDS and version.grammar.ignores_local_functions else kind


def _is_value_of(function: _DefinitionSpan, enclosing_property: Definition) -> bool:
    """Return whether a function is the value of the property, and not a local function in that value."""
    node: Node | None = function.first_node
    while node is not None and node.start_byte > enclosing_property.start_byte:
        if node.type == "statement_block":
            return False
        node = node.parent
    return True


def _build_definition(span: _DefinitionSpan, name: str, kind: str, parent: str) -> Definition:
    return Definition(
        name=name,
        kind=kind,
        parent=parent,
        first_comment_row=span.first_comment_row,
        first_row=span.first_node.start_point[0],
        last_row=get_last_row(span.statement),
        start_byte=span.first_node.start_byte,
        end_byte=span.statement.end_byte,
        has_syntax_error=span.statement.has_error,
    )


def _get_name(match: Match, content: FileContent) -> str:
    if match.name is None:  # a companion object of Kotlin without a name
        return "Companion"
    if match.kind == "impl":
        # `Type` or `Trait for Type`, without paths and type arguments.
        type_nodes = [node for node in (match.second_name, match.name) if node is not None]
        return " for ".join(_get_text(_get_base_type(node), content) for node in type_nodes)
    name = _get_text(match.name, content).strip("\"'")  # a property of JavaScript may be quoted
    if name == "exports" and match.second_name is not None:  # `module.exports = function name() {}`
        return _get_text(match.second_name, content)
    return name


def _get_base_type(node: Node) -> Node:
    """Return the node of a type's own name, without path and type arguments."""
    while inner := node.child_by_field_name("name") or node.child_by_field_name("type"):
        node = inner
    return node


def _get_text(node: Node, content: FileContent) -> str:
    """Return the text of a node on one line, cut to `MAX_NAME_CHARACTERS`."""
    return " ".join(content.decode(node.start_byte, node.end_byte).split())[:MAX_NAME_CHARACTERS]
