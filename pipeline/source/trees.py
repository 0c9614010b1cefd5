"""Contents -> syntax trees, each version of a file from the tree of the version before it.

A tree must not depend on which trees happened to be kept, so an incremental parse counts only where
it gives what a fresh one would: in grammars where that held over whole histories (`Grammar.incremental`),
and never around a syntax error, whose recovery starts from the state the parser happens to be in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pipeline.source.content import Content
from pipeline.source.edits import Edit, Part, edits, reaching_back
from pipeline.source.grammars import Grammar, Node, Tree

# Half a megabyte of source parses in 0.1 s; beyond it are tables and generated code without history.
PARSED_BYTES: Final = 500_000

# Minified code: one line as long as a file, where "the symbol on a touched line" says nothing.
LINE_BYTES: Final = 20_000

# Tokens side by side in what could not be parsed: queries take the square of their number.
HEAP_CHILDREN: Final = 5_000

# Bytes removed and added up to which a parse from the older tree is not watched: of 1,800 pieces of junk this small,
# put into files of four histories, none came to the steps that are allowed. Watching costs a sixth of the parse.
SMALL_EDIT: Final = 4_000

# Sources kept by one batch; their trees take 20 to 40 times as much.
KEPT_BYTES: Final = 1_000_000

# Paths remembered beyond those whose versions are kept, so that forgetting them is rare.
MOST_STALE_PATHS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Version:
    """One content of a file and its tree."""

    content: Content
    tree: Tree
    grammar: Grammar

    @property
    def sound(self) -> bool:
        """Whether the whole content parses."""
        return not self.tree.root_node.has_error


class Contents(Protocol):
    """Where contents come from, and what lies between two of them."""

    def blob(self, sha: str) -> bytes:
        """A content by its blob."""

    def parts(self, old: str, new: str) -> Sequence[Part]:
        """The parts of a diff that lead from one blob to the other; none where there is no diff."""


@dataclass(frozen=True, slots=True)
class Before:
    """The version a file had before a change, and the parts of the diff that led away from it."""

    path: str
    blob: str
    grammar: Grammar
    parts: Sequence[Part]


def parsed(source: bytes, grammar: Grammar) -> Version | None:
    """The version parsed whole; None for contents that are not parsed."""
    content = Content(source)
    return _whole(content, grammar) if parsable(content) else None


def parsable(content: Content) -> bool:
    """Whether a content has the size and shape of code that people write."""
    size = len(content.source)
    return size <= PARSED_BYTES and (size <= LINE_BYTES or content.widest <= LINE_BYTES)


def following(old: Version, source: bytes, parts: Sequence[Part]) -> Version | None:
    """Another version of a file, parsed from the tree of one that a diff leads away from."""
    content = Content(source)
    if not parsable(content):
        return None
    changed = edits(old.content, content, parts) if old.sound else None
    return _whole(content, old.grammar) if changed is None else _reparsed(old, content, changed)


def _reparsed(old: Version, content: Content, changed: Sequence[Edit]) -> Version | None:
    reaching = reaching_back(changed, old.content, content)
    parse = old.grammar.reparse if _extent(changed) <= SMALL_EDIT else old.grammar.parse
    tree = parse(content.source, _edited(old.tree, reaching))
    if tree is None or tree.root_node.has_error:
        return _whole(content, old.grammar)
    return Version(content, tree, old.grammar)


def _extent(changed: Iterable[Edit]) -> int:
    """Bytes that were removed and added."""
    sides = ((edit.old_start, edit.old_end, edit.new_start, edit.new_end) for edit in changed)
    return sum(was.byte - old.byte + now.byte - new.byte for old, was, new, now in sides)


def _whole(content: Content, grammar: Grammar) -> Version | None:
    tree = grammar.parse(content.source)
    return None if tree is None or _in_ruins(tree.root_node) else Version(content, tree, grammar)


def _in_ruins(root: Node) -> bool:
    """Whether some part of a content is so far from parsing that the tree is a heap of tokens."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.has_error and node.child_count:
            if node.is_error and node.child_count > HEAP_CHILDREN:
                return True
            stack += node.children
    return False


def _edited(tree: Tree, changed: Iterable[Edit]) -> Tree:
    """A copy of the tree that knows where the new content differs; the tree itself stays as it is."""
    copy = tree.copy()
    for edit in changed:
        # Edits come in order: all before this one are in place, so the new content's positions hold.
        start, end = edit.new_start, edit.new_end
        old_end = start.byte + edit.old_end.byte - edit.old_start.byte
        copy.edit(start.byte, old_end, end.byte, start.point, _old_end_point(edit), end.point)
    return copy


def _old_end_point(edit: Edit) -> tuple[int, int]:
    rows = edit.old_end.point[0] - edit.old_start.point[0]
    row, column = edit.new_start.point
    return row + rows, edit.old_end.point[1] + (0 if rows else column - edit.old_start.point[1])


class Versions:
    """The versions seen last, within a bound on their size, and the newest of each path."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept: OrderedDict[tuple[str, str], Version | None] = OrderedDict()
        self._newest: dict[str, tuple[str, str]] = {}
        self._bytes = 0
        self._limit = kept_bytes

    def of(self, path: str, blob: str, grammar: Grammar, contents: Contents) -> Version | None:
        """A version by its blob; when it is not kept, parsed from another of its path, or whole."""
        key = (grammar.name, blob)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        source = contents.blob(blob)
        newest = self._newest.get(path, key)
        near = self._kept.get(newest) if grammar.incremental else None
        if near is None or near.grammar is not grammar or not near.sound:
            return self._keep(path, key, parsed(source, grammar))
        return self._keep(path, key, following(near, source, contents.parts(newest[1], blob)))

    def after(
        self, before: Before, path: str, blob: str, grammar: Grammar, contents: Contents
    ) -> Version | None:
        """A version by its blob, parsed from the one before it where that one is kept."""
        old_key, key = (before.grammar.name, before.blob), (grammar.name, blob)
        old = self._kept.get(old_key)
        if old is None or key in self._kept or before.grammar is not grammar or not grammar.incremental:
            return self.of(path, blob, grammar, contents)
        # Let go: only a side branch asks for it again, and has it from its nearest version.
        del self._kept[old_key]
        self._bytes -= _size(old)
        return self._keep(path, key, following(old, contents.blob(blob), before.parts))

    def _keep(self, path: str, key: tuple[str, str], version: Version | None) -> Version | None:
        self._kept[key] = version
        self._newest[path] = key
        self._bytes += _size(version)
        while self._bytes > self._limit and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= _size(dropped)
        if len(self._newest) > 2 * len(self._kept) + MOST_STALE_PATHS:
            self._newest = {path: key for path, key in self._newest.items() if key in self._kept}
        return version


def _size(version: Version | None) -> int:
    return 0 if version is None else len(version.content.source)
