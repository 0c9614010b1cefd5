"""A file's bytes and where its lines start; tree-sitter, like git, ends a line at a line feed alone.

Two contents and the diff between them -> the ranges that were replaced; pure.

Contents -> syntax trees, each version of a file from the tree of the version before it.

A tree must not depend on which trees happened to be kept, so an incremental parse counts only where
it gives what a fresh one would: in grammars where that held over whole histories (`Grammar.incremental`),
and never around a syntax error, whose recovery starts from the state the parser happens to be in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np

from pipeline.syntax.grammars import Grammar, Node, Tree


class Place(NamedTuple):
    """A position in a content: its byte, and its row and column counted from 0."""

    byte: int
    point: tuple[int, int]


class Content:
    """The bytes of one version of a file."""

    __slots__ = ("_breaks", "source")

    def __init__(self, source: bytes) -> None:
        self.source = source
        # numpy finds the lines of 100 KB in 20 microseconds; a split takes five times as long.
        self._breaks = np.flatnonzero(np.frombuffer(source, dtype=np.uint8) == ord("\n"))

    def place(self, row: int) -> Place:
        """Start of a row; the end of the content for a row below the last."""
        if 0 < row <= len(self._breaks):
            return Place(int(self._breaks[row - 1]) + 1, (row, 0))
        if row <= 0:
            return Place(0, (0, 0))
        last = int(self._breaks[-1]) + 1 if len(self._breaks) else 0
        return Place(len(self.source), (len(self._breaks), len(self.source) - last))

    def rows(self, first: int, last: int) -> list[bytes]:
        """The rows from one to another, both included, without their line feeds."""
        return self.source[self.place(first).byte : self.place(last + 1).byte].split(b"\n")

    def text(self, start: int, end: int) -> str:
        """Some of the bytes, decoded; bytes that are not UTF-8 are shown as replaced."""
        return self.source[start:end].decode("utf-8", "replace")

    @property
    def widest(self) -> int:
        """Bytes of the longest line, its line feed included."""
        ends = np.append(self._breaks, len(self.source))
        return int(np.diff(ends, prepend=-1).max())


# Blank lines looked over before an edit; where there are more, less of the old tree is reused.
FURTHEST_BACK: Final = 1_000


class Part(Protocol):
    """The lines of one `@@` part, counted from 1, that were removed and added."""

    @property
    def old_start(self) -> int:
        """First line of the old content; the line before, when it has none."""

    @property
    def old_count(self) -> int:
        """Lines of the old content, context included."""

    @property
    def new_start(self) -> int:
        """As `old_start`, in the new content."""

    @property
    def new_count(self) -> int:
        """As `old_count`, in the new content."""

    @property
    def added(self) -> Sequence[int]:
        """Lines of the new content that were added, in order."""

    @property
    def removed(self) -> Sequence[int]:
        """Lines of the old content that were removed, in order."""


class Edit(NamedTuple):
    """What lay between two places of the old content is now what lies between two of the new one."""

    old_start: Place
    old_end: Place
    new_start: Place
    new_end: Place


def edits(old: Content, new: Content, parts: Sequence[Part]) -> tuple[Edit, ...] | None:
    """The replaced ranges in order; None when the parts do not turn `old` into `new`.

    A tree that is told of an edit that did not happen stays wrong in silence, so what lies between
    the edits is compared byte for byte.
    """
    found = tuple(_edit(part, old, new) for part in parts)
    was, now = old.source, new.source
    old_end = new_end = 0
    for edit in found:
        kept = was[old_end : edit.old_start.byte] == now[new_end : edit.new_start.byte]
        if not kept or edit.old_start.byte < old_end or edit.new_start.byte < new_end:
            return None
        old_end, new_end = edit.old_end.byte, edit.new_end.byte
    return found if was[old_end:] == now[new_end:] else None


def reaching_back(found: Sequence[Edit], old: Content, new: Content) -> Iterator[Edit]:
    """The edits, each begun at the last character that is not blank before it.

    A token that looked ahead into an edit is read again, and in Python the line break and the dedent before
    a definition do, both without a character of their own. The parser then stands before them while the
    old tree, which it reuses by position, stands behind: it lets go of every definition that follows. An
    edit that covers a character of the line before keeps the two together: half the work of an average parse.
    """
    kept_from = 0
    for edit in found:
        above = new.source[max(kept_from, edit.new_start.byte - FURTHEST_BACK) : edit.new_start.byte]
        filled = len(above.rstrip())
        if filled:
            back, rows = len(above) - filled + 1, above.count(b"\n", filled - 1)
            starts = (_before(old, edit.old_start, back, rows), _before(new, edit.new_start, back, rows))
            edit = Edit(starts[0], edit.old_end, starts[1], edit.new_end)
        yield edit
        kept_from = edit.new_end.byte


def _before(content: Content, place: Place, back: int, rows: int) -> Place:
    """The place so many bytes, and with them so many line breaks, further up."""
    byte, row = place.byte - back, place.point[0] - rows
    return Place(byte, (row, byte - content.place(row).byte))


def _edit(part: Part, old: Content, new: Content) -> Edit:
    """One edit from the first to the last changed line; the part's context stays outside."""
    # A side without lines names the line before the gap.
    old_row = part.old_start - (part.old_count > 0)
    new_row = part.new_start - (part.new_count > 0)
    above = min(
        part.removed[0] - 1 - old_row if part.removed else part.old_count,
        part.added[0] - 1 - new_row if part.added else part.new_count,
    )
    below = min(
        old_row + part.old_count - part.removed[-1] if part.removed else part.old_count - above,
        new_row + part.new_count - part.added[-1] if part.added else part.new_count - above,
    )
    return Edit(
        old.place(old_row + above),
        old.place(old_row + part.old_count - below),
        new.place(new_row + above),
        new.place(new_row + part.new_count - below),
    )


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
