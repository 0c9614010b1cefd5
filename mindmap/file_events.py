"""File events of a watched workspace: batches of events, net changes of files, and the state of the workspace.

Several events of one file become one change. The first event shows whether the file existed before, the disk shows
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
# The kernel updates the time that it gives to files every 4 or 10 ms, so a file's time is up to 10 ms too early.
KERNEL_TICK: Final = timedelta(milliseconds=10)
# Longest delay between a write and its event on a busy machine. An older file time is from another machine's clock.
MAX_EVENT_DELAY: Final = timedelta(seconds=2)


class EventKind(Enum):
    """Kind of a file event. MOVED_TO is a rename to this path; a file may have existed there before."""

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
    """Net change of one file since the last batch.

    `path` is relative to the workspace. `existed_before` is None if unknown. `timestamp` is the time of the last write
    or event.
    """

    path: bytes
    existed_before: bool | None
    exists: bool
    timestamp: str

    def resolve_action(self, *, was_recorded: bool) -> str | None:
        """Return the action `create`, `modify` or `delete`; None for a file that was created and deleted.

        `was_recorded` (git tracks the file, or the map has it) is used if `existed_before` is None.
        """
        existed = was_recorded if self.existed_before is None else self.existed_before
        if self.exists:
            return "modify" if existed else "create"
        return "delete" if existed else None


@dataclass(slots=True)
class EventBatch:
    """Events of one workspace since the last batch. All paths are relative to the workspace.

    `_files` has the first and the last event of each file, with the time of the last one. Files in a removed directory
    may have no events of their own, since a directory can be moved away as a whole.
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
        batch = EventBatch(self.created_directories, self._files, self._removed_directories)
        self.created_directories, self._files, self._removed_directories = set(), {}, {}
        return batch

    def compute_file_changes(self, root: bytes) -> list[FileChange]:
        """Return one change for each file of the workspace at `root`, with its state on disk now.

        A missing file without a deletion event is left out: it was in a directory of `list_removed_directories`.
        """
        changes = []
        for path, (first, last, timestamp) in self._files.items():
            status = _stat_file(root + b"/" + path)
            if status is not None or last is EventKind.DELETED:
                if status is not None and last is EventKind.MODIFIED:
                    timestamp = _estimate_write_time(status, timestamp)
                changes.append(FileChange(path, _EXISTED_BEFORE[first], status is not None, timestamp))
        return changes

    def list_removed_directories(self, root: bytes) -> dict[bytes, str]:
        """Return the removed directories with their removal timestamps, without those that exist again."""
        return {
            directory: timestamp
            for directory, timestamp in self._removed_directories.items()
            if not os.access(root + b"/" + directory, os.F_OK)
        }

    def has_ignore_rule_changes(self) -> bool:
        """Return True if a .gitignore file changed."""
        return any(path.rpartition(b"/")[2] == IGNORE_FILE for path in self._files)

    def __bool__(self) -> bool:
        return bool(self._files or self._removed_directories or self.created_directories)


def find_removal_time(path: bytes, removed_directories: Mapping[bytes, str]) -> str | None:
    """Return the removal timestamp of the nearest removed directory above a file; None if there is none."""
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


def _estimate_write_time(status: os.stat_result, event_time: str) -> str:
    """Return the timestamp of the last write of a file: its ctime, or the time of the event if ctime is implausible.

    If the event time were always used, a touch that an agent recorded between the write and the event would be older
    than the event, and the write would be recorded twice.
    """
    write_time = datetime.fromtimestamp(status.st_ctime_ns / 1e9, UTC) + KERNEL_TICK
    delay = datetime.fromisoformat(event_time) - write_time
    return format_timestamp(write_time) if timedelta(0) < delay <= MAX_EVENT_DELAY else event_time


@dataclass(frozen=True, slots=True)
class WatchStatus:
    """Watch status of a workspace.

    `message` gives the reason if the workspace, or some of its directories, are not watched; otherwise it is empty.
    """

    is_watched: bool
    message: str = ""


@dataclass(slots=True, eq=False)
class WatchedWorkspace:
    """State of a watched workspace.

    `root` is its path with symbolic links resolved. `identity` is the device and inode of the directory when the watch
    started. The event of the directory's deletion sets `is_deleted`. A periodic check sets `is_replaced` if the path is
    missing or is another directory. `map_ids` are the maps that record its changes. `ignored_directories` are those
    that git ignores, relative to the workspace. `pending` has the events since the last batch; `lock` guards it.
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
        """Return True if the directory that is at the workspace's path now is watched."""
        return self.observer is not None and not self.is_deleted and self.is_same_directory()

    def is_same_directory(self) -> bool:
        """Return True if the directory that was watched last is still at the workspace's path."""
        try:
            return self.identity == read_directory_identity(self.root)
        except OSError:
            return False

    def make_relative(self, path: bytes) -> bytes | None:
        """Return a path relative to the workspace; None for a path outside it."""
        return path[len(self.root) + 1 :] if path.startswith(self.root + b"/") else None

    def ignores_directory(self, path: bytes) -> bool:
        """Return True if nothing in a directory is recorded. Called for every directory, so it must be fast."""
        relative_path = self.make_relative(path)
        return relative_path is not None and (
            relative_path in self.ignored_directories or self.ignore_rules.ignores_directory(relative_path)
        )


def read_directory_identity(root: bytes) -> tuple[int, int]:
    """Return the device and inode of a directory. Another directory at the same path has different ones."""
    status = Path(os.fsdecode(root)).stat()
    return status.st_dev, status.st_ino


def find_refusal_reason(root: bytes) -> str:
    """Return the reason if a directory must not be watched, or an empty text. The path must have no symbolic links."""
    try:
        home = os.fsencode(os.path.realpath(Path.home()))
    except RuntimeError:  # the user has no home
        home = b"/"
    if root != b"/" and not (home + b"/").startswith(root + b"/"):
        return ""
    description = "your home directory" if root == home != b"/" else "a parent of your home directory"
    return (
        f"{decode_path(root)} is not watched: it is {description}. "
        "Give the directory of one project as workspacePath."
    )
