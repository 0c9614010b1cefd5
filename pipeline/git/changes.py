"""One file's entry in the difference of two trees, and renames where comparing contents is too much; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

Kind = Literal["added", "modified", "deleted", "renamed", "mode_changed", "type_changed"]

# git's own threshold for a rename, in percent of equal content.
SIMILARITY: Final = 50
# git's `diff.renameLimit`: above the square of this, deleted x added files are paired by equal content only.
RENAME_LIMIT: Final = 1000
# Comparing two files reads both whole; no file this large is worth that for its former name.
RENAME_BYTES: Final = 16 << 20

# Where git looks for a NUL byte to call a file binary.
SNIFFED_BYTES: Final = 8_000

TREE_MODE: Final = 0o040000
SYMLINK_MODE: Final = 0o120000
SUBMODULE_MODE: Final = 0o160000


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to one path."""

    index: int  # position of its patch in the difference; NO_PATCH where the content is the same
    path: bytes  # after the change; before it, when deleted
    old_path: bytes | None  # only for a rename
    kind: Kind
    old_mode: int  # 0 when added
    new_mode: int  # 0 when deleted
    old_blob: str | None  # None when added; a submodule's commit
    new_blob: str | None  # None when deleted; a submodule's commit

    @property
    def mode(self) -> int:
        """The mode that says what the path is: after the change, or before it when deleted."""
        return self.new_mode or self.old_mode

    @property
    def blobs(self) -> tuple[str, ...]:
        """The contents it goes between, submodules' commits left out."""
        sides = ((self.old_mode, self.old_blob), (self.new_mode, self.new_blob))
        return tuple(blob for mode, blob in sides if blob is not None and mode != SUBMODULE_MODE)

    @property
    def same_content(self) -> bool:
        """Whether only the path or the mode changed."""
        return self.old_blob == self.new_blob and self.kind != "type_changed"


class RawPatch(NamedTuple):
    """A change's patch as libgit2 wrote it."""

    data: bytes  # header lines, then `@@` parts
    added: int  # lines added
    removed: int  # lines removed
    binary: bool


NO_PATCH: Final = -1
EMPTY_PATCH: Final = RawPatch(b"", 0, 0, binary=False)


def shown_path(path: bytes) -> str:
    """A path as text; bytes that are not UTF-8 as `\\xNN`."""
    return path.decode("utf-8", errors="backslashreplace")


def is_binary(content: bytes) -> bool:
    """Whether git takes a file for one without lines."""
    return b"\0" in content[:SNIFFED_BYTES]


def too_many_to_compare(changes: Sequence[Change], size: Callable[[str], int]) -> bool:
    """Whether pairing deleted with added files by likeness would cost too much time or memory."""
    ends = [change for change in changes if change.kind in ("added", "deleted")]
    added = sum(change.kind == "added" for change in ends)
    if added * (len(ends) - added) > RENAME_LIMIT**2:
        return True
    return any(size(blob) > RENAME_BYTES for change in ends for blob in change.blobs)


def exact_renames(changes: Sequence[Change]) -> list[Change]:
    """Pair deleted with added files of equal content, those that keep their name first."""
    sources: dict[tuple[str | None, int], list[Change]] = defaultdict(list)
    for change in changes:
        if change.kind == "deleted":
            sources[change.old_blob, change.old_mode].append(change)
    renamed = {change.path: pair for change in changes if (pair := _pair(change, sources))}
    gone = {pair.old_path for pair in renamed.values()}
    return [
        renamed.get(change.path, change)
        for change in changes
        if change.kind != "deleted" or change.path not in gone
    ]


def _pair(change: Change, sources: dict[tuple[str | None, int], list[Change]]) -> Change | None:
    candidates = sources.get((change.new_blob, change.new_mode)) if change.kind == "added" else None
    if not candidates:
        return None
    name = change.path.rpartition(b"/")[2]
    same_name = (n for n, source in enumerate(candidates) if source.path.rpartition(b"/")[2] == name)
    source = candidates.pop(next(same_name, 0))
    return replace(
        change,
        index=NO_PATCH,
        kind="renamed",
        old_path=source.path,
        old_mode=source.old_mode,
        old_blob=source.old_blob,
    )
