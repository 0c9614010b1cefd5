"""What turns one tree into another, or one content, as libgit2 finds it: changes, renames, patches on request.

Two trees -> the files edited between them, by reading only the directories that differ; pure.

libgit2 goes through all names where most commits edit two files: together with the directories and contents that
`repository` keeps for the next commit, comparing here took 7 % off the instructions of a history's extraction.
What takes its judgement (renames, other modes, links, submodules) is left to it, and paths it cannot be told of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple, Protocol, TypeAlias, cast

import pygit2
from pygit2.enums import DiffFind, DiffOption, FileMode

from pipeline.git.changes import (
    EMPTY_PATCH,
    NO_PATCH,
    SIMILARITY,
    SUBMODULE_MODE,
    Change,
    Kind,
    RawPatch,
    exact_renames,
    regular,
    renamed,
    shown_path,
    too_large_to_compare,
    too_many_to_compare,
)
from pipeline.git.libgit2 import Reading
from pipeline.git.merges import TREE, Entries

# Context lines of git's own diffs, which people know.
CONTEXT_LINES: Final = 3

DIFF_OPTIONS: Final = DiffOption.INCLUDE_TYPECHANGE | DiffOption.INDENT_HEURISTIC
RENAMES: Final = DiffFind.FIND_RENAMES | DiffFind.FIND_DONT_IGNORE_WHITESPACE
PATCH_OPTIONS: Final = DiffOption.INDENT_HEURISTIC
KINDS: Final[dict[str, Kind]] = {
    "A": "added",
    "D": "deleted",
    "M": "modified",
    "R": "renamed",
    "T": "type_changed",
}


class Sources(NamedTuple):
    """Where contents come from."""

    blob: Callable[[str], pygit2.Blob]  # a file's or a symlink's, by its sha
    size: Callable[[str], int]  # its length, without reading it
    named: Callable[[bytes], str]  # the path a difference is made under; empty where no attribute says how


class Trees(NamedTuple):
    """Two trees to compare."""

    old: pygit2.Tree | None  # None for nothing
    new: pygit2.Tree


class Difference(Protocol):
    """What turns one tree into another: its changes, and their patches on request."""

    @property
    def changes(self) -> list[Change]:
        """One for each path that differs, or for each that is of interest."""

    def patch(self, change: Change) -> RawPatch:
        """A change's text as git prints it. Reads both files whole: ask for their size first."""


class Edited:
    """A difference of plain files that kept their names."""

    def __init__(self, sha: str, changes: list[Change], sources: Sources) -> None:
        self._sha = sha
        self._sources = sources
        self.changes = changes

    def patch(self, change: Change) -> RawPatch:
        """Both contents as git compares them under the file's path."""
        with Reading(self._sha):
            blob = self._sources.blob
            old = blob(change.old_blob) if change.old_blob else None
            new = blob(change.new_blob) if change.new_blob else None
            return _made(old, new, self._sources.named(change.path))


class Compared:
    """A difference as libgit2 finds it."""

    def __init__(self, sha: str, trees: Trees, sources: Sources) -> None:
        self._sha = sha
        self._trees = trees
        self._sources = sources
        self._diff = _diff(trees)
        self._kept: set[bytes] | None = None

    @cached_property
    def changes(self) -> list[Change]:
        """One for each path that differs, or for each that was kept."""
        kept = self._kept
        deltas = enumerate(self._diff.deltas)
        return [
            _change_of_delta(n, delta)
            for n, delta in deltas
            if kept is None or delta.new_file.raw_path in kept
        ]

    def paths(self) -> dict[bytes, str]:
        """The paths that differ, each with git's letter for what happened."""
        return {delta.new_file.raw_path: delta.status_char() for delta in self._diff.deltas}

    def keep(self, paths: set[bytes]) -> None:
        """Forget the changes of other paths."""
        self._kept = paths
        if "changes" in self.__dict__:
            self.changes = [change for change in self.changes if change.path in paths]

    def follow_renames(self) -> None:
        """Pair deleted with added files: by likeness, or by equal content where that costs too much.

        libgit2 is for regular files; the others git pairs by equal content.
        """
        if not {"A", "D"} <= {delta.status_char() for delta in self._diff.deltas}:
            return
        with Reading(self._sha):
            if too_many_to_compare(self.changes):
                self.changes = exact_renames(self.changes)
                return
            large = too_large_to_compare(self.changes, self._sources.size)
            if large:
                self.changes = exact_renames(renamed(self.changes, self._alike_without(large)))
                return
            _find_similar(self._diff, len(self.changes))
            del self.changes
            if any(change.kind == "deleted" and not regular(change.mode) for change in self.changes):
                self.changes = exact_renames(self.changes)

    def _alike_without(self, large: Sequence[Change]) -> list[tuple[Change, Change]]:
        """The pairs libgit2 finds when files are taken for equal that are too large to be read."""
        if self._trees.old is None:
            return []
        diff = self._trees.old.diff_to_index(_index(self._trees.new, large), flags=DIFF_OPTIONS)
        _find_similar(diff, len(self.changes))
        ends = {(change.kind, change.path): change for change in self.changes}
        pairs = (
            (ends.get(("deleted", delta.old_file.raw_path)), ends.get(("added", delta.new_file.raw_path)))
            for delta in diff.deltas
            if delta.status_char() == "R"
        )
        return [(old, new) for old, new in pairs if old and new]

    def patch(self, change: Change) -> RawPatch:
        """As libgit2 prints it. Where it has no text, both contents are compared as one file's.

        That is so of a change of type, which `git show` prints as two files and whose lines it counts like this, and
        of what was paired, or parted, here.
        """
        with Reading(self._sha):
            if change.index == NO_PATCH or change.kind == "type_changed":
                return EMPTY_PATCH if change.same_content else self._between(change)
            patch = self._diff[change.index]
            return EMPTY_PATCH if patch is None else _raw(patch)

    def _between(self, change: Change) -> RawPatch:
        old = self._content(change.old_mode, change.old_blob)
        new = self._content(change.new_mode, change.new_blob)
        return _made(old, new, self._sources.named(change.path))

    def _content(self, mode: int, sha: str | None) -> pygit2.Blob | bytes | None:
        """What git compares of a path: a file's content, a symlink's target, a line about a submodule's commit."""
        if sha is None or mode == SUBMODULE_MODE:
            return f"Subproject commit {sha}\n".encode() if sha else None
        return self._sources.blob(sha)


def _index(tree: pygit2.Tree, undone: Sequence[Change]) -> pygit2.Index:
    """A tree as it were without some of its changes; in memory alone."""
    index = pygit2.Index()
    index.read_tree(tree)
    for change in undone:
        path = cast("str", change.path)  # pygit2 takes bytes as well, and paths may be no text
        if change.old_blob is None:
            index.remove(path)
        else:
            index.add(pygit2.IndexEntry(path, pygit2.Oid(hex=change.old_blob), FileMode(change.old_mode)))
    return index


def trees(git: pygit2.Repository, old: str | None, new: str) -> Trees:
    """Two trees, or nothing and one, by their shas; KeyError for what is no tree here."""
    return Trees(None if old is None else _tree(git, old), _tree(git, new))


def _tree(git: pygit2.Repository, sha: str) -> pygit2.Tree:
    found = git[sha]
    if not isinstance(found, pygit2.Tree):
        raise KeyError(sha)
    return found


def _diff(trees: Trees) -> pygit2.Diff:
    if trees.old is None:
        return trees.new.diff_to_tree(flags=DIFF_OPTIONS, context_lines=CONTEXT_LINES, swap=True)
    return trees.old.diff_to_tree(trees.new, flags=DIFF_OPTIONS, context_lines=CONTEXT_LINES)


def _find_similar(diff: pygit2.Diff, limit: int) -> None:
    # The pairs are bounded already: let every source be tried.
    diff.find_similar(flags=RENAMES, rename_threshold=SIMILARITY, rename_limit=limit)


def patch_between(before: bytes | None, after: bytes | None) -> RawPatch:
    """What turns one content into another; None for no content."""
    patch = pygit2.Patch.create_from(before, after, flag=PATCH_OPTIONS, context_lines=CONTEXT_LINES)
    return _raw(patch)


def _made(old: pygit2.Blob | bytes | None, new: pygit2.Blob | bytes | None, path: str) -> RawPatch:
    """A patch under a path, whose attributes say whether it is text, and how its sections are named."""
    options = PATCH_OPTIONS
    if not isinstance(old, pygit2.Blob):  # libgit2 looks for them in the first content's repository alone
        old, new, options = new, old, PATCH_OPTIONS | DiffOption.REVERSE
    return _raw(pygit2.Patch.create_from(old, new, path, path, flag=options, context_lines=CONTEXT_LINES))


def _raw(patch: pygit2.Patch) -> RawPatch:
    _, added, removed = patch.line_stats
    return RawPatch(patch.data, added, removed, binary=not added + removed and bool(patch.delta.is_binary))


def _change_of_delta(index: int, delta: pygit2.DiffDelta) -> Change:
    kind = KINDS[delta.status_char()]
    old, new = delta.old_file, delta.new_file
    old_blob = None if kind == "added" else str(old.id)
    new_blob = None if kind == "deleted" else str(new.id)
    return Change(
        index=index,
        path=old.raw_path if kind == "deleted" else new.raw_path,
        old_path=old.raw_path if kind == "renamed" else None,
        kind="mode_changed" if kind == "modified" and old_blob == new_blob else kind,
        old_mode=0 if kind == "added" else int(old.mode),
        new_mode=0 if kind == "deleted" else int(new.mode),
        old_blob=old_blob,
        new_blob=new_blob,
    )


# What one side has at a path, its mode and object; None for no file.
Side: TypeAlias = tuple[bytes, bytes] | None

FILE_MODES: Final = {b"100644": 0o100644, b"100755": 0o100755}


def edits(old: Entries, new: Entries, read: Callable[[bytes], Entries]) -> list[Change] | None:
    """The changes in the order of their paths; None where they are not plain files that kept their mode and name."""
    changes: list[Change] = []
    for path, was, now in sorted(differing(old, new, read), key=lambda found: found[0]):
        change = _change_of_entries(len(changes), path, was, now)
        if change is None:
            return None
        changes.append(change)
    # A file that came and one that went may be the same.
    return None if {"added", "deleted"} <= {change.kind for change in changes} else changes


def differing(
    old: Entries, new: Entries, read: Callable[[bytes], Entries]
) -> Iterator[tuple[bytes, Side, Side]]:
    """Each path with what either side has there, where these differ; directories looked through."""
    folders = [(b"", old, new)]
    while folders:
        folder, before, after = folders.pop()
        for name in {name for name, _ in before.items() ^ after.items()}:
            sides = before.get(name), after.get(name)
            was, now = (None if side is None or side[0] == TREE else side for side in sides)
            if was or now:
                yield folder + name, was, now
            if (was, now) != sides:
                inside, beside = (read(side[1]) if side and side[0] == TREE else {} for side in sides)
                folders.append((folder + name + b"/", inside, beside))


def _change_of_entries(index: int, path: bytes, old: Side, new: Side) -> Change | None:
    old_mode, new_mode = (0 if side is None else FILE_MODES.get(side[0]) for side in (old, new))
    kind: Kind = "added" if old is None else "deleted" if new is None else "modified"
    if old_mode is None or new_mode is None or (kind == "modified" and old_mode != new_mode):
        return None
    if not path.isascii() and "\\x" in shown_path(path):
        return None
    return Change(
        index=index,
        path=path,
        old_path=None,
        kind=kind,
        old_mode=old_mode,
        new_mode=new_mode,
        old_blob=old[1].hex() if old else None,
        new_blob=new[1].hex() if new else None,
    )
