"""What turns one tree into another, or one content, as libgit2 finds it: changes, renames, patches on request."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final, Protocol

import pygit2
from pygit2.enums import DiffFind, DiffOption

from pipeline.git.changes import (
    EMPTY_PATCH,
    NO_PATCH,
    SIMILARITY,
    Change,
    Kind,
    RawPatch,
    exact_renames,
    too_many_to_compare,
)
from pipeline.git.library import Reading

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


class Difference(Protocol):
    """What turns one tree into another: its changes, and their patches on request."""

    @property
    def changes(self) -> list[Change]:
        """One for each path that differs, or for each that is of interest."""

    def patch(self, change: Change) -> RawPatch:
        """A change's text as git prints it. Reads both files whole: ask for their size first."""


class Edited:
    """A difference of plain files that kept their names."""

    def __init__(
        self,
        sha: str,
        changes: list[Change],
        *,
        blob: Callable[[str], pygit2.Blob],
        named: Callable[[bytes], str],
    ) -> None:
        self._sha = sha
        self._blob = blob
        self._named = named
        self.changes = changes

    def patch(self, change: Change) -> RawPatch:
        """Both contents as git compares them under the file's path."""
        with Reading(self._sha):
            old = self._blob(change.old_blob) if change.old_blob else None
            new = self._blob(change.new_blob) if change.new_blob else None
            # Attributes of the path say whether it is text, and how its sections are named.
            path, options = self._named(change.path), PATCH_OPTIONS
            if old is None:  # pygit2 has libgit2 look for them in the repository of the first content alone
                old, new, options = new, old, PATCH_OPTIONS | DiffOption.REVERSE
            return _raw(
                pygit2.Patch.create_from(old, new, path, path, flag=options, context_lines=CONTEXT_LINES)
            )


class Compared:
    """A difference as libgit2 finds it."""

    def __init__(self, sha: str, diff: pygit2.Diff) -> None:
        self._sha = sha
        self._diff = diff
        self._kept: set[bytes] | None = None

    @cached_property
    def changes(self) -> list[Change]:
        """One for each path that differs, or for each that was kept."""
        kept = self._kept
        deltas = enumerate(self._diff.deltas)
        return [_change(n, delta) for n, delta in deltas if kept is None or delta.new_file.raw_path in kept]

    def paths(self) -> dict[bytes, str]:
        """The paths that differ, each with git's letter for what happened."""
        return {delta.new_file.raw_path: delta.status_char() for delta in self._diff.deltas}

    def keep(self, paths: set[bytes]) -> None:
        """Forget the changes of other paths."""
        self._kept = paths
        if "changes" in self.__dict__:
            self.changes = [change for change in self.changes if change.path in paths]

    def follow_renames(self, size: Callable[[str], int]) -> None:
        """Pair deleted with added files: by likeness, or by equal content where that costs too much."""
        if not {"A", "D"} <= {delta.status_char() for delta in self._diff.deltas}:
            return
        with Reading(self._sha):
            if too_many_to_compare(self.changes, size):
                self.changes = exact_renames(self.changes)
                return
            limit = len(self.changes)  # the pairs are bounded already: let every source be tried
            self._diff.find_similar(flags=RENAMES, rename_threshold=SIMILARITY, rename_limit=limit)
            del self.changes

    def patch(self, change: Change) -> RawPatch:
        """As libgit2 prints it; nothing for a rename that was told by equal content alone."""
        if change.index == NO_PATCH:
            return EMPTY_PATCH
        with Reading(self._sha):
            patch = self._diff[change.index]
            if patch is None:
                return EMPTY_PATCH
            return _raw(patch)


def compared(git: pygit2.Repository, old: str | None, new: str) -> pygit2.Diff:
    """How a tree differs from another, or from nothing; KeyError for what is no tree here."""
    tree = git[new]
    if not isinstance(tree, pygit2.Tree):
        raise KeyError(new)
    if old is None:
        return tree.diff_to_tree(flags=DIFF_OPTIONS, context_lines=CONTEXT_LINES, swap=True)
    former = git[old]
    if not isinstance(former, pygit2.Tree):
        raise KeyError(old)
    return former.diff_to_tree(tree, flags=DIFF_OPTIONS, context_lines=CONTEXT_LINES)


def patch_between(before: bytes | None, after: bytes | None) -> RawPatch:
    """What turns one content into another; None for no content."""
    patch = pygit2.Patch.create_from(before, after, flag=PATCH_OPTIONS, context_lines=CONTEXT_LINES)
    return _raw(patch)


def _raw(patch: pygit2.Patch) -> RawPatch:
    _, added, removed = patch.line_stats
    return RawPatch(patch.data, added, removed, binary=not added + removed and bool(patch.delta.is_binary))


def _change(index: int, delta: pygit2.DiffDelta) -> Change:
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
