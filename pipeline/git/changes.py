"""One file's entry in the difference of two trees, and renames where comparing contents is too much; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

Kind = Literal["added", "modified", "deleted", "renamed", "mode_changed", "type_changed"]

# git's own threshold for a rename, in percent of equal content.
SIMILARITY: Final = 50
# git's `diff.renameLimit`: above the square of this, deleted x added files are paired by equal content only.
RENAME_LIMIT: Final = 1000
# Comparing two files reads both whole; no file this large is worth that for its former name, which it has from equal
# content alone. The other files of its commit are compared as ever.
RENAME_BYTES: Final = 16 << 20

# Where git looks for a NUL byte to call a file binary.
SNIFFED_BYTES: Final = 8_000

TREE_MODE: Final = 0o040000
SYMLINK_MODE: Final = 0o120000
SUBMODULE_MODE: Final = 0o160000


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to one path."""

    index: int  # position of its patch in the difference; NO_PATCH where it has none there
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

    def gone(self) -> Change:
        """Of a rename, that the old path is no more."""
        path = self.old_path or self.path
        return replace(
            self, index=NO_PATCH, path=path, old_path=None, kind="deleted", new_mode=0, new_blob=None
        )

    def come(self) -> Change:
        """Of a rename, that the new path is there."""
        return replace(self, index=NO_PATCH, old_path=None, kind="added", old_mode=0, old_blob=None)


class RawPatch(NamedTuple):
    """A change's patch as libgit2 wrote it; of a change of type, what turns one content into the other."""

    data: bytes  # header lines, then `@@` parts
    added: int  # lines added
    removed: int  # lines removed
    binary: bool


NO_PATCH: Final = -1
EMPTY_PATCH: Final = RawPatch(b"", 0, 0, binary=False)


def regular(mode: int) -> bool:
    """Whether a mode is a regular file's: neither a symlink's nor a submodule's."""
    return mode not in (SYMLINK_MODE, SUBMODULE_MODE)


def shown_path(path: bytes) -> str:
    """A path as text; bytes that are not UTF-8 as `\\xNN`."""
    return path.decode("utf-8", errors="backslashreplace")


def is_binary(content: bytes) -> bool:
    """Whether git takes a file for one without lines."""
    return b"\0" in content[:SNIFFED_BYTES]


def too_many_to_compare(changes: Sequence[Change]) -> bool:
    """Whether pairing deleted with added files by likeness would cost too much time."""
    added = sum(change.kind == "added" for change in changes)
    return added * sum(change.kind == "deleted" for change in changes) > RENAME_LIMIT**2


def too_large_to_compare(changes: Sequence[Change], size: Callable[[str], int]) -> list[Change]:
    """The deleted and added files that likeness is not asked of, for what reading them would cost."""
    ends = (change for change in changes if change.kind in ("added", "deleted"))
    return [change for change in ends if any(size(blob) > RENAME_BYTES for blob in change.blobs)]


def exact_renames(changes: Sequence[Change]) -> list[Change]:
    """Pair deleted with added files, symlinks and submodules of equal content, those that keep their name first."""
    sources: dict[tuple[str | None, int], list[Change]] = defaultdict(list)
    for change in changes:
        if change.kind == "deleted":
            sources[change.old_blob, _type(change)].append(change)
    return renamed(changes, [pair for change in changes if (pair := _pair(change, sources))])


def renamed(changes: Sequence[Change], pairs: Iterable[tuple[Change, Change]]) -> list[Change]:
    """The changes, with renames in place of the pairs of what went and what came."""
    came = {new.path: _rename(old, new) for old, new in pairs}
    gone = {change.old_path for change in came.values()}
    return [
        came.get(change.path, change) if change.kind == "added" else change
        for change in changes
        if change.kind != "deleted" or change.path not in gone
    ]


def _type(change: Change) -> int:
    """What its mode says, but for a file's permissions, which git lets change with a name."""
    return 0 if regular(change.mode) else change.mode


def _pair(
    change: Change, sources: Mapping[tuple[str | None, int], list[Change]]
) -> tuple[Change, Change] | None:
    candidates = sources.get((change.new_blob, _type(change))) if change.kind == "added" else None
    if not candidates:
        return None
    name = change.path.rpartition(b"/")[2]
    same_name = (n for n, source in enumerate(candidates) if source.path.rpartition(b"/")[2] == name)
    return candidates.pop(next(same_name, 0)), change


def _rename(source: Change, change: Change) -> Change:
    return replace(
        change,
        index=NO_PATCH,
        kind="renamed",
        old_path=source.path,
        old_mode=source.old_mode,
        old_blob=source.old_blob,
    )
