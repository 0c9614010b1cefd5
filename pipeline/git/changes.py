"""File changes of a tree diff, and detection of renames that libgit2 misses or would take too long to find."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, product
from typing import Final, Literal, NamedTuple

ChangeKind = Literal["added", "modified", "deleted", "renamed", "mode_changed", "type_changed"]

# git's default threshold for a rename, in percent of equal content.
RENAME_SIMILARITY: Final = 50
# git's default for `diff.renameLimit`. If a commit has more (deleted, added) pairs of files than the square of this
# number, only files with equal content are paired.
RENAME_LIMIT: Final = 1000
# Larger files are paired only by equal content, because comparing two files reads both completely. This does not affect
# the other files of the commit.
MAX_RENAME_BYTES: Final = 16 << 20
# Number of lines that libgit2 compares of a file: those with the 127 lowest and the 127 highest hashes. Similar lines
# have similar hashes, so in a longer file the compared lines can be just the changed ones.
MAX_SAMPLED_LINES: Final = 254
# Maximum sum, over all pairs of files, of the size of the larger file. Above it, no pair is compared by all lines.
MAX_COMPARED_BYTES: Final = 4 << 20

# A file is binary for git if one of this many bytes at its start is NUL.
BINARY_CHECK_BYTES: Final = 8_000

TREE_MODE: Final = 0o040000
SYMLINK_MODE: Final = 0o120000
SUBMODULE_MODE: Final = 0o160000


@dataclass(frozen=True, slots=True)
class FileChange:
    """Change of one path."""

    path: bytes  # path after the change; for a deletion, before it
    old_path: bytes | None  # path before a rename; None for other changes
    kind: ChangeKind
    old_mode: int  # mode before the change; 0 for an addition
    new_mode: int  # mode after the change; 0 for a deletion
    old_blob: str | None  # blob, or commit of a submodule, before the change; None for an addition
    new_blob: str | None  # blob, or commit of a submodule, after the change; None for a deletion

    @property
    def mode(self) -> int:
        """Mode after the change; for a deletion, before it."""
        return self.new_mode or self.old_mode

    @property
    def blobs(self) -> tuple[str, ...]:
        """Blobs before and after the change, without the commits of submodules."""
        versions = ((self.old_mode, self.old_blob), (self.new_mode, self.new_blob))
        return tuple(blob for mode, blob in versions if blob is not None and mode != SUBMODULE_MODE)

    @property
    def has_same_content(self) -> bool:
        """True if only the path or the mode changed."""
        return self.old_blob == self.new_blob and self.kind != "type_changed"

    def as_deletion(self) -> FileChange:
        """Return the change that only deletes the old path of this rename."""
        path = self.old_path or self.path
        return replace(
            self,
            path=path,
            old_path=None,
            kind="deleted",
            new_mode=0,
            new_blob=None,
        )

    def as_addition(self) -> FileChange:
        """Return the change that only adds the new path of this rename."""
        return replace(self, old_path=None, kind="added", old_mode=0, old_blob=None)


class RawPatch(NamedTuple):
    """Patch of one change as libgit2 writes it."""

    data: bytes  # file header lines, then `@@` parts
    added: int  # number of added lines
    removed: int  # number of removed lines
    is_binary: bool


EMPTY_PATCH: Final = RawPatch(b"", 0, 0, is_binary=False)


_ESCAPED_BYTE: Final = re.compile(rb"\\x(?!00)([0-9a-f]{2})")


def is_regular(mode: int) -> bool:
    """Return whether a mode is that of a regular file, and not of a directory, symlink or submodule."""
    return mode not in (TREE_MODE, SYMLINK_MODE, SUBMODULE_MODE)


def decode_path(path: bytes) -> str:
    """Return a path as text, with bytes that are not UTF-8 as `\\xNN`."""
    return path.decode("utf-8", errors="backslashreplace")


def decode_escapes(text: str) -> str:
    """Undo the escapes of `decode_path`. Bytes that are not UTF-8 become surrogates."""
    return os.fsdecode(_ESCAPED_BYTE.sub(lambda match: bytes.fromhex(match[1].decode()), os.fsencode(text)))


def list_parent_directories(path: str) -> list[str]:
    """Return the directories that contain a path, topmost first: `a` and `a/b` for `a/b/c`, none for `c`."""
    return list(accumulate(path.split("/")[:-1], "{}/{}".format))


def is_binary(content: bytes) -> bool:
    """Return whether git treats a file with this content as binary."""
    return b"\0" in content[:BINARY_CHECK_BYTES]


def exceeds_rename_limit(changes: Sequence[FileChange]) -> bool:
    """Return whether there are too many deleted and added files to compare their contents."""
    addition_count = sum(change.kind == "added" for change in changes)
    deletion_count = sum(change.kind == "deleted" for change in changes)
    return addition_count * deletion_count > RENAME_LIMIT**2


def find_oversized_files(changes: Sequence[FileChange], read_size: Callable[[str], int]) -> list[FileChange]:
    """Return the deleted and added files that are too large to compare their contents.

    `read_size`: returns the size of a blob in bytes.
    """
    candidates = (change for change in changes if change.kind in ("added", "deleted"))
    return [
        change for change in candidates if any(read_size(blob) > MAX_RENAME_BYTES for blob in change.blobs)
    ]


def pair_exact_renames(changes: Sequence[FileChange]) -> list[FileChange]:
    """Turn deleted and added paths of equal content into renames, preferring pairs with the same file name."""
    deletions_by_content: dict[tuple[str | None, int], list[FileChange]] = defaultdict(list)
    for change in changes:
        if change.kind == "deleted":
            deletions_by_content[change.old_blob, _get_file_type(change)].append(change)
    pairs = [pair for change in changes if (pair := _match_exact_rename(change, deletions_by_content))]
    return apply_renames(changes, pairs)


def pair_long_renames(
    changes: Sequence[FileChange], read_size: Callable[[str], int], read_content: Callable[[str], bytes]
) -> list[FileChange]:
    """Turn deleted and added paths of similar content into renames, if libgit2 compared only some of their lines.

    The most similar files are paired first. Above MAX_COMPARED_BYTES, the changes are returned unchanged.
    `read_size`, `read_content`: return the size and the content of a blob.
    """
    deletions, additions = (
        {
            change: read_size(change.blobs[0])
            for change in changes
            if change.kind == kind and is_regular(change.mode)
        }
        for kind in ("deleted", "added")
    )
    larger_size_by_pair: dict[tuple[FileChange, FileChange], int] = {}
    total_bytes = 0
    for (deletion, old_size), (addition, new_size) in product(deletions.items(), additions.items()):
        larger_size = max(old_size, new_size)
        if 100 * min(old_size, new_size) >= RENAME_SIMILARITY * larger_size:
            larger_size_by_pair[deletion, addition] = larger_size
            total_bytes += larger_size
            if total_bytes > MAX_COMPARED_BYTES:
                return list(changes)

    @cache
    def count_lines(change: FileChange) -> Counter[bytes]:
        return Counter(read_content(change.blobs[0]).split(b"\n"))

    similarities = {
        pair: 100 * _measure_equal_lines(*map(count_lines, pair)) / max(1, larger_size)
        for pair, larger_size in larger_size_by_pair.items()
    }
    return apply_renames(changes, _choose_pairs(similarities))


def _choose_pairs(
    similarities: Mapping[tuple[FileChange, FileChange], float],
) -> list[tuple[FileChange, FileChange]]:
    """Return (deleted, added) pairs of at least RENAME_SIMILARITY, most similar first, with each file at most once.

    `similarities`: similarity of each pair in percent.
    """
    pairs: list[tuple[FileChange, FileChange]] = []
    paired_files: set[FileChange] = set()
    for pair in sorted(similarities, key=similarities.__getitem__, reverse=True):
        if similarities[pair] >= RENAME_SIMILARITY and paired_files.isdisjoint(pair):
            pairs.append(pair)
            paired_files.update(pair)
    return pairs


def _measure_equal_lines(old: Counter[bytes], new: Counter[bytes]) -> int:
    """Return the size in bytes of the lines that both files have; 0 if libgit2 has compared all lines of both."""
    if max(old.total(), new.total()) <= MAX_SAMPLED_LINES:
        return 0
    # The set operation of keys runs in C, whereas `old & new` is a loop in Python over all lines.
    return sum((len(line) + 1) * min(old[line], new[line]) for line in old.keys() & new.keys())


def apply_renames(
    changes: Sequence[FileChange], pairs: Iterable[tuple[FileChange, FileChange]]
) -> list[FileChange]:
    """Return the changes with a rename in place of each (deleted, added) pair."""
    rename_by_path = {addition.path: _build_rename(deletion, addition) for deletion, addition in pairs}
    old_paths = {rename.old_path for rename in rename_by_path.values()}
    return [
        rename_by_path.get(change.path, change) if change.kind == "added" else change
        for change in changes
        if change.kind != "deleted" or change.path not in old_paths
    ]


def _get_file_type(change: FileChange) -> int:
    """Return the mode of a symlink or submodule; 0 for a regular file, because a rename may change its permissions."""
    return 0 if is_regular(change.mode) else change.mode


def _match_exact_rename(
    change: FileChange, deletions_by_content: Mapping[tuple[str | None, int], list[FileChange]]
) -> tuple[FileChange, FileChange] | None:
    """Pair an addition with a deletion of the same content, and remove the deletion from the mapping.

    Return (deletion, addition); None if the change is no addition or no deletion matches.
    """
    if change.kind != "added":
        return None
    deletions = deletions_by_content.get((change.new_blob, _get_file_type(change)))
    if not deletions:
        return None
    name = _get_file_name(change)
    indices_with_same_name = (n for n, deletion in enumerate(deletions) if _get_file_name(deletion) == name)
    return deletions.pop(next(indices_with_same_name, 0)), change


def _get_file_name(change: FileChange) -> bytes:
    return change.path.rpartition(b"/")[2]


def _build_rename(deletion: FileChange, addition: FileChange) -> FileChange:
    return replace(
        addition,
        kind="renamed",
        old_path=deletion.path,
        old_mode=deletion.old_mode,
        old_blob=deletion.old_blob,
    )
