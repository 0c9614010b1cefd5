"""Hunk extraction. A hunk is the diff of one file in one commit, with all of its `@@` parts.

A commit without changed files (an empty commit, or a merge in which each file equals that of a parent) has one hunk
without a file, for its message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pipeline.git import patches
from pipeline.git.changes import (
    SUBMODULE_MODE,
    SYMLINK_MODE,
    ChangeKind,
    FileChange,
    RawPatch,
    decode_path,
    is_binary,
    is_regular,
)
from pipeline.git.patches import Patch, PatchPart
from pipeline.git.repository import Repository, TreeDiff, UnreadableObject

__all__ = ["CommitChanges", "Hunk", "PatchPart", "build_message_hunk", "extract_hunks"]

HunkKind = ChangeKind | Literal["empty", "merged"]
ContentKind = Literal["text", "binary", "submodule", "symlink", "oversize", "message"]

# Files above this size have no diff, because a diff can take time that grows with the square of the lines. At the limit
# it took 0.1 to 0.2 s and up to 100 MB; 500,000 lines of one digit, the worst case, 3 s (11 s at twice the size).
OVERSIZE_BYTES: Final = 1 << 20

# Maximum number of files that the message hunk of a merge lists. A longer list would match the words of any question.
MAX_MERGED_PATHS: Final = 50


@dataclass(frozen=True, slots=True)
class Hunk:
    """Diff of one file in one commit; or a message hunk, for the message of a commit without changed files."""

    # Path after the change; of a deletion, before it. Bytes that are not UTF-8 as `\xNN`. Empty for a message hunk.
    file_path: str
    file_path_bytes: bytes | None  # the path as bytes; None if it is UTF-8
    old_path: str | None  # path before a rename; None for other changes
    change_kind: HunkKind
    content_kind: ContentKind
    # Blob of the regular file before the change. None if there is none, or if `parts` list only some of the changed
    # lines of a file that was not deleted.
    old_blob: str | None
    new_blob: str | None  # blob of the regular file after the change; None if there is none
    added_lines: int  # number of added lines before truncation; 0 for binary and oversize
    removed_lines: int  # number of removed lines before truncation; 0 for binary and oversize
    # Text of the `@@` parts, truncated after patches.MAX_DIFF_BYTES; empty except for text files and changes of type.
    # In the message hunk of a merge: the files that it lists, one per line.
    diff: str
    diff_truncated: bool
    parts: tuple[PatchPart, ...]
    # Added lines; new target of a symlink; new commit of a submodule; or the files in the message hunk of a merge.
    added_text: str
    removed_text: str  # removed lines; old target of a symlink; or old commit of a submodule


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """Hunks of a commit.

    `all_ignored`: the commit changed files, but all of them are ignored. For a merge, the files that differ from its
    first parent count as changed.
    `merged_paths`: for a merge without hunks, the files that differ from its first parent and are not ignored, sorted;
    otherwise empty.
    """

    hunks: tuple[Hunk, ...]
    all_ignored: bool
    merged_paths: tuple[str, ...] = ()


def extract_hunks(repository: Repository, sha: str, is_ignored: Callable[[str], bool]) -> CommitChanges:
    """Return one hunk for each changed file that is not ignored, in the order of their paths.

    `is_ignored`: whether a path is excluded. Raises UnreadableObject for the commit if an object is missing.
    """
    try:
        return _extract_hunks(repository, sha, is_ignored)
    except UnreadableObject as error:
        # Name the missing object, unless it is the commit or the reason names it.
        is_named = error.sha == sha or error.sha in error.reason.split()
        raise UnreadableObject(sha, error.reason if is_named else f"object {error.message}") from error


def build_message_hunk(merged_paths: Sequence[str], *, is_merge: bool) -> Hunk:
    """Return the message hunk of a commit without changed files. `merged_paths`: files to list for a merge."""
    listed_paths = merged_paths[:MAX_MERGED_PATHS]
    # Indented, so that no line looks like the header of a part.
    lines = [" " + path.replace("\n", "\\n") for path in listed_paths]
    if omitted_count := len(merged_paths) - len(listed_paths):
        lines.append(f" … and {omitted_count:,} more")
    return Hunk(
        file_path="",
        file_path_bytes=None,
        old_path=None,
        change_kind="merged" if is_merge else "empty",
        content_kind="message",
        old_blob=None,
        new_blob=None,
        added_lines=0,
        removed_lines=0,
        diff="".join(f"{line}\n" for line in lines),
        diff_truncated=bool(omitted_count),
        parts=(),
        added_text="\n".join(listed_paths),
        removed_text="",
    )


def _extract_hunks(repository: Repository, sha: str, is_ignored: Callable[[str], bool]) -> CommitChanges:
    """Do the work of `extract_hunks`. Raises UnreadableObject, which may name the missing object, not the commit."""
    tree_diffs = repository.diff_with_parents(sha)
    if len(tree_diffs) == 1:
        [tree_diff] = tree_diffs
        changes = _filter_ignored(tree_diff, is_ignored)
        hunks = tuple(_build_hunk(repository, tree_diff, change) for change in changes)
        return CommitChanges(hunks, all_ignored=bool(tree_diff.changes) and not changes)
    if merge_hunks := tuple(_build_merge_hunks(repository, tree_diffs, is_ignored)):
        return CommitChanges(merge_hunks, all_ignored=False)
    paths = list(map(decode_path, repository.list_changed_paths(sha)))
    merged_paths = tuple(path for path in paths if not is_ignored(path))
    return CommitChanges((), all_ignored=bool(paths) and not merged_paths, merged_paths=merged_paths)


def _filter_ignored(tree_diff: TreeDiff, is_ignored: Callable[[str], bool]) -> list[FileChange]:
    """Return the changes of files that are not ignored, in the order of their paths."""
    filtered_changes = (_apply_ignore_rules(change, is_ignored) for change in tree_diff.changes)
    return sorted(filter(None, filtered_changes), key=lambda change: change.path)


def _apply_ignore_rules(change: FileChange, is_ignored: Callable[[str], bool]) -> FileChange | None:
    """Return the part of a change that is not ignored; None if the whole change is ignored.

    A rename to an ignored path becomes a deletion, and a rename from an ignored path an addition.
    """
    is_new_ignored = is_ignored(decode_path(change.path))
    if change.old_path is None or is_ignored(decode_path(change.old_path)) == is_new_ignored:
        return None if is_new_ignored else change
    return change.as_deletion() if is_new_ignored else change.as_addition()


def _build_hunk(repository: Repository, tree_diff: TreeDiff, change: FileChange) -> Hunk:
    content_kind = _classify_without_content(repository, change)
    if content_kind == "oversize":
        return _build_hunk_without_diff(change, content_kind)
    raw_patch = tree_diff.read_patch(change)
    if raw_patch.is_binary or (change.has_same_content and _has_binary_content(repository, change)):
        return _build_hunk_without_diff(change, "binary")
    return _build_hunk_from_patch(
        change, content_kind, raw_patch, patches.parse_patch(patches.strip_file_header(raw_patch.data))
    )


def _build_merge_hunks(
    repository: Repository, tree_diffs: Sequence[TreeDiff], is_ignored: Callable[[str], bool]
) -> Iterator[Hunk]:
    """Yield a hunk per path that differs from every parent. The commits of the merged branches have the other changes.

    `tree_diffs`: diff of the merge with each parent.
    """
    changes_by_path = [  # one mapping per parent
        {change.path: change for change in _filter_ignored(tree_diff, is_ignored)} for tree_diff in tree_diffs
    ]
    for path in changes_by_path[0] if changes_by_path else ():
        if all(path in changes for changes in changes_by_path):
            parent_changes = [changes[path] for changes in changes_by_path]
            hunk = _build_merge_hunk(repository, tree_diffs, parent_changes)
            if hunk is not None:
                yield hunk


def _build_merge_hunk(
    repository: Repository, tree_diffs: Sequence[TreeDiff], parent_changes: Sequence[FileChange]
) -> Hunk | None:
    """Return the hunk of a file that differs from every parent; None if the merge itself changed no line of it.

    `tree_diffs`, `parent_changes`: diff with each parent, and the change of the file in it.
    """
    content_kinds = [_classify_without_content(repository, change) for change in parent_changes]
    if any(change.has_same_content for change in parent_changes):
        return _build_path_only_hunk(repository, parent_changes)
    if "oversize" in content_kinds:
        return _build_hunk_without_diff(parent_changes[0], "oversize")
    parent_patches = [
        diff.read_patch(change) for diff, change in zip(tree_diffs, parent_changes, strict=True)
    ]
    if any(patch.is_binary for patch in parent_patches):
        return _build_hunk_without_diff(parent_changes[0], "binary")
    if content_kinds[0] != "text" or all(change.kind == "deleted" for change in parent_changes):
        return _build_hunk_from_patch(
            parent_changes[0],
            content_kinds[0],
            parent_patches[0],
            patches.parse_patch(patches.strip_file_header(parent_patches[0].data)),
        )
    merge_change = patches.extract_merge_lines(
        [patches.strip_file_header(patch.data) for patch in parent_patches]
    )
    if not merge_change.parts_text:
        # A merge can replace a file by a symlink with the same bytes, or the reverse: the type changes, no line does.
        return (
            _build_hunk_without_diff(parent_changes[0], "text")
            if all(change.kind == "type_changed" for change in parent_changes)
            else None
        )
    merge_patch = RawPatch(
        merge_change.parts_text, merge_change.added_count, merge_change.removed_count, is_binary=False
    )
    return _build_hunk_from_patch(
        parent_changes[merge_change.parent],
        "text",
        merge_patch,
        patches.parse_patch(merge_change.parts_text),
        yields_new_blob=False,
    )


def _build_path_only_hunk(repository: Repository, parent_changes: Sequence[FileChange]) -> Hunk | None:
    """Return the hunk of a file with the content of one parent, but a path or mode that no parent has.

    None if another parent has this path and mode with another content, because then the merge has only chosen a parent.
    """
    if any(change.kind == "modified" for change in parent_changes):
        return None
    change = next(change for change in parent_changes if change.has_same_content)
    return _build_hunk_without_diff(
        change,
        "binary"
        if _has_binary_content(repository, change)
        else _classify_without_content(repository, change),
    )


def _classify_without_content(repository: Repository, change: FileChange) -> ContentKind:
    """Return the content kind by size and mode. A binary file counts as `text`, as only its diff shows its kind."""
    if any(repository.read_blob_size(blob) > OVERSIZE_BYTES for blob in change.blobs):
        return "oversize"
    if change.mode == SUBMODULE_MODE:
        return "submodule"
    return "symlink" if change.mode == SYMLINK_MODE else "text"


def _has_binary_content(repository: Repository, change: FileChange) -> bool:
    """Return whether a file with unchanged content is binary. libgit2 reports this only for changed content."""
    if not is_regular(change.mode):
        return False
    blob = change.blobs[-1]
    return repository.read_blob_size(blob) <= OVERSIZE_BYTES and is_binary(repository.read_blob(blob))


def _build_hunk_without_diff(change: FileChange, content_kind: ContentKind) -> Hunk:
    return _build_hunk_from_patch(
        change, content_kind, RawPatch(b"", 0, 0, is_binary=False), patches.NO_PARTS
    )


def _build_hunk_from_patch(
    change: FileChange,
    content_kind: ContentKind,
    raw_patch: RawPatch,
    patch: Patch,
    *,
    yields_new_blob: bool = True,
) -> Hunk:
    """Return the hunk of a patch. `patch`: the parsed `raw_patch`.

    `yields_new_blob`: whether the patch turns the old blob into the new one. False for the lines of a merge.
    """
    has_diff = content_kind == "text" or change.kind == "type_changed"
    file_path = decode_path(change.path)
    # If the parts list only some of the changed lines, the hunk names the old blob only for a deletion.
    names_old_blob = (yields_new_blob and patch.is_complete) or change.new_blob is None
    return Hunk(
        file_path=file_path,
        file_path_bytes=None if file_path.encode() == change.path else change.path,
        old_path=None if change.old_path is None else decode_path(change.old_path),
        change_kind=change.kind,
        content_kind=content_kind,
        old_blob=change.old_blob if names_old_blob and is_regular(change.old_mode) else None,
        new_blob=change.new_blob if is_regular(change.new_mode) else None,
        added_lines=raw_patch.added,
        removed_lines=raw_patch.removed,
        diff=patch.diff if has_diff else "",
        diff_truncated=has_diff and patch.diff_truncated,
        parts=patch.parts if has_diff else (),
        added_text=patch.added_text,
        removed_text=patch.removed_text,
    )
