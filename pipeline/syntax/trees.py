"""Syntax trees of file versions, parsed incrementally from the trees of earlier versions.

A tree must not depend on which trees are in the cache. So an incremental parse is used only if it gives the same tree
as a full parse. Grammars for which the two trees of a file were found to differ are always parsed in full
(`Grammar.is_incremental` is false), and so are files with syntax errors, because their tree depends on the state of the
parser.

Like git, tree-sitter ends a line at a line feed only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
from cachetools import LRUCache

from pipeline.syntax.grammars import Grammar, Node, Tree

# Size of the largest file to parse. Larger files are tables and generated code. Parsing this size takes 0.1 s.
MAX_PARSED_BYTES: Final = 500_000

# Longest line of a file to parse. Longer lines are minified code, in which a line has many symbols.
MAX_LINE_BYTES: Final = 20_000

# Maximum number of children of an error node. A file with more counts as not parsable, because queries of its tree
# would take quadratic time.
MAX_ERROR_CHILDREN: Final = 5_000

# Size of the largest change that is parsed without a limit on steps, because checking the limit takes a sixth of the
# time of a parse. None of 1,800 random changes of this size would have reached the limit.
SMALL_EDIT_BYTES: Final = 4_000

# Number of bytes before an edit in which `extend_edits_back` looks for a non-blank character.
MAX_LOOKBACK_BYTES: Final = 1_000

# Maximum number of bytes of source in the version cache. The trees take 20 to 40 times as much memory.
MAX_CACHED_BYTES: Final = 1_000_000
# Minimum number of bytes that an entry counts as, so that entries without a tree are evicted too. A key takes about as
# much memory as the tree of 10 bytes of source.
MIN_ENTRY_BYTES: Final = 10

# If `VersionCache` records the last version of more paths than twice the number of cached versions plus this number, it
# deletes the paths whose last version is no longer cached.
MAX_STALE_PATHS: Final = 1_000


class Position(NamedTuple):
    """Position in a file: byte offset, and (row, column in bytes), all counted from 0."""

    byte: int
    row_column: tuple[int, int]


class FileContent:
    """Bytes of a file version, with the offsets of its lines."""

    __slots__ = ("_line_feeds", "source")

    def __init__(self, source: bytes) -> None:
        self.source = source
        # numpy takes 20 microseconds for 100 KB, `split` five times as long.
        self._line_feeds = np.flatnonzero(np.frombuffer(source, dtype=np.uint8) == ord("\n"))

    def get_row_start(self, row: int) -> Position:
        """Return the start of a row; the end of the file for a row after the last."""
        if 0 < row <= len(self._line_feeds):
            return Position(int(self._line_feeds[row - 1]) + 1, (row, 0))
        if row <= 0:
            return Position(0, (0, 0))
        last_row_start = int(self._line_feeds[-1]) + 1 if len(self._line_feeds) else 0
        return Position(len(self.source), (len(self._line_feeds), len(self.source) - last_row_start))

    def get_rows(self, first: int, last: int) -> list[bytes]:
        """Return the rows `first` to `last`, inclusive, without their line feeds; fewer at the end of the file."""
        start, end = self.get_row_start(first).byte, self.get_row_start(last + 1).byte
        return self.source[start:end].split(b"\n")[: last - first + 1]

    def decode(self, start: int, end: int) -> str:
        """Decode a range of bytes. Invalid UTF-8 becomes U+FFFD."""
        return self.source[start:end].decode("utf-8", "replace")

    @property
    def max_line_bytes(self) -> int:
        """Length of the longest line in bytes, without its line feed."""
        ends = np.append(self._line_feeds, len(self.source))
        return int(np.diff(ends, prepend=-1).max()) - 1


class DiffPart(Protocol):
    """`@@` part of a diff, with its removed and added lines. Lines count from 1."""

    @property
    def old_start(self) -> int:
        """Number of the first old line, or of the line before the part if it has no old lines."""

    @property
    def old_count(self) -> int:
        """Number of old lines, context included."""

    @property
    def new_start(self) -> int:
        """Number of the first new line, or of the line before the part if it has no new lines."""

    @property
    def new_count(self) -> int:
        """Number of new lines, context included."""

    @property
    def added(self) -> Sequence[int]:
        """Numbers of the added lines in the new file, ascending."""

    @property
    def removed(self) -> Sequence[int]:
        """Numbers of the removed lines in the old file, ascending."""


class Edit(NamedTuple):
    """Range of the old file, and the range of the new file that replaces it."""

    old_start: Position
    old_end: Position
    new_start: Position
    new_end: Position


@dataclass(frozen=True, slots=True)
class Version:
    """Parsed version of a file."""

    content: FileContent
    tree: Tree
    grammar: Grammar

    @property
    def has_syntax_error(self) -> bool:
        """True if the file has a syntax error."""
        return self.tree.root_node.has_error


@dataclass(frozen=True, slots=True)
class PreviousVersion:
    """Version of a file before a change. `blob`: SHA of its content. `parts`: parts of the diff of the change."""

    path: str
    blob: str
    grammar: Grammar
    parts: Sequence[DiffPart]


class BlobReader(Protocol):
    """Reader of blobs and of diffs between them."""

    def read_blob(self, sha: str) -> bytes:
        """Return the content of a blob."""

    def diff_blobs(self, old: str, new: str) -> Sequence[DiffPart]:
        """Return the parts of the diff between two blobs; empty if there is no text diff."""


class VersionCache:
    """LRU cache of parsed file versions by grammar and blob, bounded by the size of their sources.

    It also records which version was stored last for each path.
    """

    def __init__(self, max_bytes: int = MAX_CACHED_BYTES) -> None:
        # By default every version fits, because none has more than MAX_PARSED_BYTES.
        self._versions: LRUCache[tuple[str, str], Version | None] = LRUCache(max_bytes, getsizeof=_get_size)
        self._last_key_by_path: dict[str, tuple[str, str]] = {}

    def get(self, path: str, blob: str, grammar: Grammar, blob_reader: BlobReader) -> Version | None:
        """Return the version of a blob; None if the file is not parsable.

        It comes from the cache, or is parsed from the version stored last for the path, or else is parsed in full.
        """
        key = (grammar.name, blob)
        if key in self._versions:
            return self._versions[key]
        source = blob_reader.read_blob(blob)
        last_key = self._last_key_by_path.get(path, key)
        last_version = self._versions.get(last_key) if grammar.is_incremental else None
        if last_version is None or last_version.grammar is not grammar or last_version.has_syntax_error:
            return self._store(path, key, parse_version(source, grammar))
        return self._store(
            path, key, parse_incrementally(last_version, source, blob_reader.diff_blobs(last_key[1], blob))
        )

    def get_successor(
        self, previous: PreviousVersion, path: str, blob: str, grammar: Grammar, blob_reader: BlobReader
    ) -> Version | None:
        """Return the version of a blob; None if the file is not parsable.

        If the previous version is cached and the grammar allows it, the blob is parsed from the previous version, which
        is then evicted.
        """
        old_key, key = (previous.grammar.name, previous.blob), (grammar.name, blob)
        old_version = self._versions.get(old_key)
        if (
            old_version is None
            or key in self._versions
            or previous.grammar is not grammar
            or not grammar.is_incremental
        ):
            return self.get(path, blob, grammar, blob_reader)
        # Only the commits of another branch need the old version again. `get` then parses it from the version stored
        # last for the path.
        del self._versions[old_key]
        return self._store(
            path, key, parse_incrementally(old_version, blob_reader.read_blob(blob), previous.parts)
        )

    def _store(self, path: str, key: tuple[str, str], version: Version | None) -> Version | None:
        """Store a version as the last one of its path, and return it. `key`: (grammar, blob)."""
        with suppress(ValueError):  # the version is larger than the cache
            self._versions[key] = version
        self._last_key_by_path[path] = key
        if len(self._last_key_by_path) > 2 * len(self._versions) + MAX_STALE_PATHS:
            self._last_key_by_path = {
                path: key for path, key in self._last_key_by_path.items() if key in self._versions
            }
        return version


def parse_version(source: bytes, grammar: Grammar) -> Version | None:
    """Parse a file. Return None if it is not parsable.

    A file is not parsable if it exceeds the size limits (see `is_within_size_limits`), has too many syntax errors, or
    takes too many steps.
    """
    content = FileContent(source)
    return _parse_from_scratch(content, grammar) if is_within_size_limits(content) else None


def is_within_size_limits(content: FileContent) -> bool:
    """Return whether a file has at most MAX_PARSED_BYTES, and each of its lines at most MAX_LINE_BYTES."""
    size = len(content.source)
    return size <= MAX_PARSED_BYTES and (size <= MAX_LINE_BYTES or content.max_line_bytes <= MAX_LINE_BYTES)


def parse_incrementally(old: Version, source: bytes, parts: Sequence[DiffPart]) -> Version | None:
    """Parse a file from the tree of its version `old`. Return None if the new version is not parsable.

    `source`: content of the new version. `parts`: parts of the diff from `old` to it.
    """
    content = FileContent(source)
    if not is_within_size_limits(content):
        return None
    edits = compute_edits(old.content, content, parts) if not old.has_syntax_error else None
    return _parse_from_scratch(content, old.grammar) if edits is None else _reparse(old, content, edits)


def compute_edits(old: FileContent, new: FileContent, parts: Sequence[DiffPart]) -> tuple[Edit, ...] | None:
    """Return the edits of the parts, in order; None if they do not turn `old` into `new`.

    The text between the edits is compared, because a wrong edit would corrupt the tree without an error.
    """
    edits = tuple(_build_edit(part, old, new) for part in parts)
    old_source, new_source = old.source, new.source
    old_end = new_end = 0
    for edit in edits:
        is_unchanged = old_source[old_end : edit.old_start.byte] == new_source[new_end : edit.new_start.byte]
        if not is_unchanged or edit.old_start.byte < old_end or edit.new_start.byte < new_end:
            return None
        old_end, new_end = edit.old_end.byte, edit.new_end.byte
    return edits if old_source[old_end:] == new_source[new_end:] else None


def extend_edits_back(edits: Sequence[Edit], old: FileContent, new: FileContent) -> Iterator[Edit]:
    """Yield the edits, each extended back to the last non-blank character before it.

    More of the old tree can then be reused: see "Incremental parsing" in pipeline/README.md.
    """
    previous_end = 0
    for edit in edits:
        preceding_text = new.source[
            max(previous_end, edit.new_start.byte - MAX_LOOKBACK_BYTES) : edit.new_start.byte
        ]
        text_length = len(preceding_text.rstrip())
        if text_length:
            bytes_back = len(preceding_text) - text_length + 1
            rows_back = preceding_text.count(b"\n", text_length - 1)
            edit = edit._replace(
                old_start=_move_back(old, edit.old_start, bytes_back, rows_back),
                new_start=_move_back(new, edit.new_start, bytes_back, rows_back),
            )
        yield edit
        previous_end = edit.new_end.byte


def _parse_from_scratch(content: FileContent, grammar: Grammar) -> Version | None:
    """Parse a file in full. Return None if it has too many syntax errors or takes too many steps."""
    tree = grammar.parse(content.source)
    return None if tree is None or _has_large_error_node(tree.root_node) else Version(content, tree, grammar)


def _has_large_error_node(root: Node) -> bool:
    """Return whether an error node has more than MAX_ERROR_CHILDREN children."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.has_error and node.child_count:
            if node.is_error and node.child_count > MAX_ERROR_CHILDREN:
                return True
            stack += node.children
    return False


def _reparse(old: Version, content: FileContent, edits: Sequence[Edit]) -> Version | None:
    """Parse a file from an older tree and the edits; in full if that takes too long or finds a syntax error."""
    extended_edits = extend_edits_back(edits, old.content, content)
    parse = (
        old.grammar.parse_without_limit
        if _count_changed_bytes(edits) <= SMALL_EDIT_BYTES
        else old.grammar.parse
    )
    tree = parse(content.source, _apply_edits(old.tree, extended_edits))
    if tree is None or tree.root_node.has_error:
        return _parse_from_scratch(content, old.grammar)
    return Version(content, tree, old.grammar)


def _count_changed_bytes(edits: Iterable[Edit]) -> int:
    """Return the number of removed and added bytes."""
    return sum(
        edit.old_end.byte - edit.old_start.byte + edit.new_end.byte - edit.new_start.byte for edit in edits
    )


def _apply_edits(tree: Tree, edits: Iterable[Edit]) -> Tree:
    """Return an edited copy of the tree."""
    edited_tree = tree.copy()
    for edit in edits:
        # Earlier edits are already applied, so the start of an edit is its position in the new file.
        start, end = edit.new_start, edit.new_end
        old_end = start.byte + edit.old_end.byte - edit.old_start.byte
        edited_tree.edit(
            start.byte, old_end, end.byte, start.row_column, _get_old_end_point(edit), end.row_column
        )
    return edited_tree


def _get_old_end_point(edit: Edit) -> tuple[int, int]:
    """Return row and column of the end of an edit's old range, moved so that the range starts at `new_start`."""
    rows = edit.old_end.row_column[0] - edit.old_start.row_column[0]
    row, column = edit.new_start.row_column
    return row + rows, edit.old_end.row_column[1] + (0 if rows else column - edit.old_start.row_column[1])


def _build_edit(part: DiffPart, old: FileContent, new: FileContent) -> Edit:
    """Return the edit from the first to the last changed line of a part, without its context."""
    # Lines count from 1, rows from 0. The start of a side without lines is the number of the line before it, which is
    # also the number of the row after that line.
    old_row = part.old_start - (part.old_count > 0)
    new_row = part.new_start - (part.new_count > 0)
    # Context lines before the first change and after the last. Without changed lines, all lines of a side are context.
    context_above = min(
        part.removed[0] - 1 - old_row if part.removed else part.old_count,
        part.added[0] - 1 - new_row if part.added else part.new_count,
    )
    context_below = min(
        old_row + part.old_count - part.removed[-1] if part.removed else part.old_count - context_above,
        new_row + part.new_count - part.added[-1] if part.added else part.new_count - context_above,
    )
    return Edit(
        old.get_row_start(old_row + context_above),
        old.get_row_start(old_row + part.old_count - context_below),
        new.get_row_start(new_row + context_above),
        new.get_row_start(new_row + part.new_count - context_below),
    )


def _move_back(content: FileContent, position: Position, bytes_back: int, rows_back: int) -> Position:
    """Return the position that is `bytes_back` bytes before a position, and thereby `rows_back` rows above it."""
    byte, row = position.byte - bytes_back, position.row_column[0] - rows_back
    return Position(byte, (row, byte - content.get_row_start(row).byte))


def _get_size(version: Version | None) -> int:
    """Return the size of an entry in the version cache, in bytes of source."""
    return max(MIN_ENTRY_BYTES, len(version.content.source) if version else 0)
