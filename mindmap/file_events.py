"""File events of a watched workspace: coalescing of events into changes, and the state of the workspace.

Several events of one file become one change. The first event says whether the file existed before, the disk says
whether it exists now. So a save by rename is a modification, and a file that was created and deleted between two
batches is no change.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from pathlib import Path
from typing import Final

from mindmap.document import format_timestamp
from mindmap.ignore import IgnoreRules
from mindmap.observer import WorkspaceObserver
from mindmap.paths import decode_path

IGNORE_FILE: Final = b".gitignore"
# The kernel dates files by its tick of at most 10 ms, so slightly before they were written.
KERNEL_TICK: Final = timedelta(milliseconds=10)
# Longest delay between a write and its event on a busy machine. An older file time comes from another clock.
MAX_EVENT_DELAY: Final = timedelta(seconds=2)


class EventKind(Enum):
    """Kind of a file event. MOVED_TO is a rename onto the path, which may have existed before."""

    CREATED = auto()
    MODIFIED = auto()
    DELETED = auto()
    MOVED_TO = auto()


# Kind of the first event -> whether the file existed before; None if unknown.
_EXISTED_BEFORE: Final = {
    EventKind.CREATED: False,
    EventKind.MODIFIED: True,
    EventKind.DELETED: True,
    EventKind.MOVED_TO: None,
}


@dataclass(frozen=True, slots=True)
class FileChange:
    """Net change of one file. `existed_before` is None if unknown; `timestamp` is the time of the last event."""

    path: bytes
    existed_before: bool | None
    exists: bool
    timestamp: str

    def action(self, *, was_known: bool) -> str | None:
        """Return the touch action; None for a file that was created and deleted.

        `was_known` replaces an unknown `existed_before`.
        """
        existed = was_known if self.existed_before is None else self.existed_before
        if self.exists:
            return "modify" if existed else "create"
        return "delete" if existed else None


@dataclass(slots=True)
class EventBatch:
    """Events of one workspace since the last batch. All paths are relative to the workspace.

    Files in a removed directory may have no events of their own, since a directory can be moved away as a whole.
    """

    created_directories: set[bytes] = field(default_factory=set)
    _files: dict[bytes, tuple[EventKind, EventKind, str]] = field(default_factory=dict)
    _removed_directories: dict[bytes, str] = field(default_factory=dict)

    def add_file_event(self, path: bytes, kind: EventKind, timestamp: str) -> None:
        """Add an event of a file."""
        first = self._files[path][0] if path in self._files else kind
        self._files[path] = first, kind, timestamp

    def add_removed_directory(self, directory: bytes, timestamp: str) -> None:
        """Add the removal of a directory."""
        self._removed_directories[directory] = timestamp

    def take_all(self) -> EventBatch:
        """Return all events as a new batch, and clear this one."""
        taken = EventBatch(self.created_directories, self._files, self._removed_directories)
        self.created_directories, self._files, self._removed_directories = set(), {}, {}
        return taken

    def file_changes(self, root: bytes) -> list[FileChange]:
        """Return one change for each file, with its state on disk now.

        A file that is gone without a deletion event was in a removed directory and is left out here.
        """
        changes = []
        for path, (first, last, timestamp) in self._files.items():
            status = _stat_file(root + b"/" + path)
            if status is not None or last is EventKind.DELETED:
                if status is not None and last is EventKind.MODIFIED:
                    timestamp = _write_time(status, timestamp)
                changes.append(FileChange(path, _EXISTED_BEFORE[first], status is not None, timestamp))
        return changes

    def removed_directories(self, root: bytes) -> dict[bytes, str]:
        """Return the removed directories that do not exist again, with the time of their removal."""
        return {
            directory: timestamp
            for directory, timestamp in self._removed_directories.items()
            if not os.access(root + b"/" + directory, os.F_OK)
        }

    def changes_ignore_rules(self) -> bool:
        """Return True if a .gitignore file changed."""
        return any(path.rpartition(b"/")[2] == IGNORE_FILE for path in self._files)

    def __bool__(self) -> bool:
        return bool(self._files or self._removed_directories or self.created_directories)


def removal_time(path: bytes, removed_directories: Mapping[bytes, str]) -> str | None:
    """Return when a removed directory that contained the file was removed; None if there is none."""
    while path:
        path = path.rpartition(b"/")[0]
        if path in removed_directories:
            return removed_directories[path]
    return None


def _stat_file(path: bytes) -> os.stat_result | None:
    """Return the status of a regular file or a symbolic link; None for anything else."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode) else None


def _write_time(status: os.stat_result, event_time: str) -> str:
    """Return when a file was written: its change time, or the time of the event if that is not plausible.

    With the event time, a touch that an agent recorded between the write and the event would count as older.
    """
    written = datetime.fromtimestamp(status.st_ctime_ns / 1e9, UTC) + KERNEL_TICK
    delay = datetime.fromisoformat(event_time) - written
    return format_timestamp(written) if timedelta(0) < delay <= MAX_EVENT_DELAY else event_time


@dataclass(frozen=True, slots=True)
class WatchStatus:
    """Watch status of a workspace. `message` is the reason if it is not watched, or names the part that is not."""

    is_watched: bool
    message: str = ""


@dataclass(slots=True, eq=False)
class WatchedWorkspace:
    """State of a watched workspace.

    `identity` is that of the directory when the watch started. `is_deleted` is set by the event of its deletion,
    `is_replaced` by a check that found the path deleted or leading to another directory. `ignored_directories` are
    those that git ignores, relative to the workspace. `lock` guards `pending`.
    """

    root: bytes
    ignore_rules: IgnoreRules
    identity: tuple[int, int] | None = None
    observer: WorkspaceObserver | None = None
    is_deleted: bool = False
    is_replaced: bool = False
    map_ids: set[str] = field(default_factory=set)
    ignored_directories: frozenset[bytes] = frozenset()
    pending: EventBatch = field(default_factory=EventBatch)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def is_watched(self) -> bool:
        """Return True if the directory that has the workspace's path now is watched."""
        return self.observer is not None and not self.is_deleted and self.is_same_directory()

    def is_same_directory(self) -> bool:
        """Return True if the path still leads to the directory that was watched last."""
        try:
            return self.identity == directory_identity(self.root)
        except OSError:
            return False

    def relative_path(self, path: bytes) -> bytes | None:
        """Return a path relative to the workspace; None for a path outside it."""
        return path[len(self.root) + 1 :] if path.startswith(self.root + b"/") else None

    def ignores_directory(self, path: bytes) -> bool:
        """Return True if nothing in a directory is recorded. Called for every directory, so it must be fast."""
        relative = self.relative_path(path)
        return relative is not None and (
            relative in self.ignored_directories or self.ignore_rules.ignores_directory(relative)
        )


def directory_identity(root: bytes) -> tuple[int, int]:
    """Return device and inode, which differ when another directory takes the path."""
    status = Path(os.fsdecode(root)).stat()
    return status.st_dev, status.st_ino


def refusal_reason(root: bytes) -> str:
    """Return why a directory must not be watched; empty if it may be. The path must have no symbolic links."""
    try:
        home = os.fsencode(os.path.realpath(Path.home()))
    except RuntimeError:  # the user has no home
        home = b"/"
    if root != b"/" and not (home + b"/").startswith(root + b"/"):
        return ""
    description = "your home directory" if root == home != b"/" else "a parent of your home directory"
    return (
        f"{decode_path(root)} is not watched: it is {description}. "
        "Name the directory of one project as workspacePath."
    )
