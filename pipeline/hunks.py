"""A commit -> one hunk per changed file; renames, merges, binaries and huge files are decided here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pipeline.git import merges, patches
from pipeline.git.changes import (
    SUBMODULE_MODE,
    SYMLINK_MODE,
    Change,
    Kind,
    RawPatch,
    is_binary,
    regular,
    shown_path,
)
from pipeline.git.patches import Part, Patch
from pipeline.git.repository import Difference, Repository, UnreadableObject

__all__ = ["Changed", "Hunk", "Part", "hunks"]

ContentKind = Literal["text", "binary", "submodule", "symlink", "oversize"]

# Files larger than this on either side are named, never opened: hardly anybody writes one by hand, and the
# time of a difference can grow with the square of its lines. Two files of this size took 0.1 to 0.2 s and
# up to 100 MB; the worst found, half a million lines of one digit each, took 3 s (11 s at twice the size).
OVERSIZE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Hunk:
    """One changed file of one commit: its `@@` parts together."""

    file_path: str  # after the change; before it, when deleted; bytes that are not UTF-8 as `\\xNN`
    file_path_bytes: bytes | None  # only where the path is not UTF-8
    old_path: str | None  # only for a rename
    change_kind: Kind
    content_kind: ContentKind
    old_blob: str | None  # a regular file's; None where there is none, or the parts do not lead away from it
    new_blob: str | None  # a regular file's, whom the parts lead to: what a symlink points to is no source
    added_lines: int  # before any cut; 0 for binary and oversize
    removed_lines: int
    diff: str  # the `@@` parts, cut after patches.DIFF_BYTES; empty unless text or a change of type
    diff_truncated: bool
    parts: tuple[Part, ...]
    added_text: str  # the added lines, or a symlink's target, or a submodule's commit
    removed_text: str


@dataclass(frozen=True, slots=True)
class Changed:
    """What a commit changed, as far as it is indexed."""

    hunks: tuple[Hunk, ...]
    all_ignored: bool  # it changed files, and the ignore rules leave out every one; never so for a merge


def hunks(repository: Repository, sha: str, ignored: Callable[[str], bool]) -> Changed:
    """One hunk for each changed file that is not ignored, in the order of their paths.

    All of a commit's hunks or none: one object missing makes the commit unreadable.
    """
    try:
        return _changed(repository, sha, ignored)
    except UnreadableObject as error:
        reason = error.reason if error.sha in (sha, *error.reason.split()) else f"object {error.message}"
        raise UnreadableObject(sha, reason) from error


def _changed(repository: Repository, sha: str, ignored: Callable[[str], bool]) -> Changed:
    differences = repository.differences(sha)
    if len(differences) == 1:
        [difference] = differences
        kept = _kept(difference, ignored)
        found = tuple(_hunk(repository, difference, change) for change in kept)
        return Changed(found, all_ignored=bool(difference.changes) and not kept)
    return Changed(tuple(_merge_hunks(repository, differences, ignored)), all_ignored=False)


def _kept(difference: Difference, ignored: Callable[[str], bool]) -> list[Change]:
    """What a difference changed outside of what is ignored, in the order of the paths."""
    kept = [seen for change in difference.changes if (seen := _seen(change, ignored)) is not None]
    return sorted(kept, key=lambda change: change.path)


def _seen(change: Change, ignored: Callable[[str], bool]) -> Change | None:
    """A change as far as it is not ignored: what moves behind the rules goes, what moves out from there comes."""
    new = ignored(shown_path(change.path))
    if change.old_path is None:
        return None if new else change
    old = ignored(shown_path(change.old_path))
    if new == old:
        return None if new else change
    return change.gone() if new else change.come()


def _hunk(repository: Repository, difference: Difference, change: Change) -> Hunk:
    kind = _kind_unread(repository, change)
    if kind == "oversize":
        return _unopened(change, kind)
    patch = difference.patch(change)
    if patch.binary or (change.same_content and _is_binary(repository, change)):
        return _unopened(change, "binary")
    return _opened(change, kind, patch, patches.read(patches.body(patch.data)))


def _merge_hunks(
    repository: Repository, differences: Sequence[Difference], ignored: Callable[[str], bool]
) -> Iterator[Hunk]:
    """Only what differs from every parent, so that a branch is not indexed twice."""
    tables = [{change.path: change for change in _kept(difference, ignored)} for difference in differences]
    for path in tables[0] if tables else ():
        if all(path in table for table in tables):
            hunk = _merged(repository, differences, [table[path] for table in tables])
            if hunk is not None:
                yield hunk


def _merged(
    repository: Repository, differences: Sequence[Difference], sides: Sequence[Change]
) -> Hunk | None:
    kinds = [_kind_unread(repository, side) for side in sides]
    if any(side.same_content for side in sides):
        return _path_only(repository, sides)
    if "oversize" in kinds:
        return _unopened(sides[0], "oversize")
    found = [difference.patch(side) for difference, side in zip(differences, sides, strict=True)]
    if any(patch.binary for patch in found):
        return _unopened(sides[0], "binary")
    if kinds[0] != "text" or all(side.kind == "deleted" for side in sides):
        return _opened(sides[0], kinds[0], found[0], patches.read(patches.body(found[0].data)))
    own = merges.own_lines([patches.body(patch.data) for patch in found])
    if not own.parts:
        # A symlink's target and a file may be the same bytes, and then its type is all that the merge wrote.
        return _unopened(sides[0], "text") if all(side.kind == "type_changed" for side in sides) else None
    counted = RawPatch(own.parts, own.added, own.removed, binary=False)
    return _opened(sides[own.parent], "text", counted, patches.read(own.parts), leads=False)


def _path_only(repository: Repository, sides: Sequence[Change]) -> Hunk | None:
    """A merge that took one parent's content: of interest only where its path or mode is no parent's."""
    if any(side.kind == "modified" for side in sides):
        return None
    side = next(side for side in sides if side.same_content)
    return _unopened(side, "binary" if _is_binary(repository, side) else _kind_unread(repository, side))


def _kind_unread(repository: Repository, change: Change) -> ContentKind:
    """What can be said without reading the content."""
    if any(repository.size(blob) > OVERSIZE_BYTES for blob in change.blobs):
        return "oversize"
    if change.mode == SUBMODULE_MODE:
        return "submodule"
    return "symlink" if change.mode == SYMLINK_MODE else "text"


def _is_binary(repository: Repository, change: Change) -> bool:
    """Whether content that did not change is binary; libgit2 does not look at it."""
    if not regular(change.mode):
        return False
    blob = change.blobs[-1]
    return repository.size(blob) <= OVERSIZE_BYTES and is_binary(repository.blob(blob))


def _unopened(change: Change, kind: ContentKind) -> Hunk:
    return _opened(change, kind, RawPatch(b"", 0, 0, binary=False), patches.NOTHING)


def _opened(change: Change, kind: ContentKind, raw: RawPatch, patch: Patch, *, leads: bool = True) -> Hunk:
    shows = kind == "text" or change.kind == "type_changed"
    shown = shown_path(change.path)
    leads = (leads and patch.complete) or change.new_blob is None
    return Hunk(
        file_path=shown,
        file_path_bytes=None if shown.encode() == change.path else change.path,
        old_path=None if change.old_path is None else shown_path(change.old_path),
        change_kind=change.kind,
        content_kind=kind,
        old_blob=change.old_blob if leads and regular(change.old_mode) else None,
        new_blob=change.new_blob if regular(change.new_mode) else None,
        added_lines=raw.added,
        removed_lines=raw.removed,
        diff=patch.diff if shows else "",
        diff_truncated=patch.diff_truncated if shows else False,
        parts=patch.parts if shows else (),
        added_text=patch.added_text,
        removed_text=patch.removed_text,
    )
