"""File events of a watched workspace: batches of events, net changes of files, and their attachment to a mindmap.

Several events of one file become one change. The first event shows whether the file existed before; the disk shows
whether it exists now. So a save that writes another file and renames it over the old one is a modification. A file that
was created and deleted between two batches has no change.

Changed files attach to the task in progress of a mindmap (short: map). The entry of a file on a node is a touch. Files
that git ignores, files that a checkout wrote, and changes that the map already has, are left out.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from pathlib import Path
from typing import Final

from mindmap.document import EditResult, FileTouch, Mindmap, format_timestamp
from mindmap.file_touches import RENAME, TouchInput, attach_files, choose_target, keep_rename
from mindmap.git import IgnoreRules, Workspace, find_ignored_paths
from mindmap.observer import WorkspaceObserver
from mindmap.validation import decode_path

IGNORE_FILE: Final = b".gitignore"
# git command that lists the files of a revision.
LIST_FILES: Final = ("ls-tree", "-r", "-z", "--name-only")
# git command that lists the files that differ from a revision.
LIST_CHANGED_FILES: Final = (
    "diff",
    "--name-only",
    "-z",
    "--no-relative",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=dirty",
)
# The kernel updates its clock for file times every 4 or 10 ms, so a file's time is up to 10 ms too early.
KERNEL_TICK: Final = timedelta(milliseconds=10)
# Longest delay between a write and its event on a busy machine. A file time that is longer before the event is not the
# time of that write.
MAX_EVENT_DELAY: Final = timedelta(seconds=2)


class EventKind(Enum):
    """Kind of a file event. MOVED_TO is a rename to this path; a file may have existed there before."""

    CREATED = auto()
    MODIFIED = auto()
    DELETED = auto()
    MOVED_TO = auto()


# Kind of the first event of a file -> True if the file existed before the event; None if unknown.
_EXISTED_BEFORE: Final = {
    EventKind.CREATED: False,
    EventKind.MODIFIED: True,
    EventKind.DELETED: True,
    EventKind.MOVED_TO: None,
}


@dataclass(frozen=True, slots=True)
class FileChange:
    """Net change of one file since the last batch.

    `path` is relative to the workspace. `existed_before` is None if unknown. `timestamp` is the time of the last event;
    for a modification, it is the time of the write itself if the file shows it.
    """

    path: bytes
    existed_before: bool | None
    exists: bool
    timestamp: str

    def resolve_action(self, *, is_committed: bool, is_in_map: bool) -> str | None:
        """Return the action `create`, `modify` or `delete`; None for a file that was created and deleted.

        `is_committed` says if HEAD has the file. `is_in_map` says if the map has a touch of it other than a deletion. A
        file that HEAD has counts as modified when it is created again.
        """
        existed = is_committed or is_in_map if self.existed_before is None else self.existed_before
        if self.exists:
            return "modify" if existed or is_committed else "create"
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

        A missing file whose last event is no deletion is left out, since its directory was removed as a whole.
        `list_removed_directories` returns this directory.
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
    """Return the timestamp of the last write of a file: its ctime, or `event_time` if the ctime is implausible."""
    # An agent may record a touch between the write and its event. With the event's time, which is later than the touch,
    # the write would be recorded again.
    write_time = datetime.fromtimestamp(status.st_ctime_ns / 1e9, UTC) + KERNEL_TICK
    delay = datetime.fromisoformat(event_time) - write_time
    return format_timestamp(write_time) if timedelta(0) < delay <= MAX_EVENT_DELAY else event_time


@dataclass(frozen=True, slots=True)
class WatchStatus:
    """Watch status of a workspace.

    `message` says why the workspace or some of its directories are not watched, or why ignored files are recorded;
    otherwise it is empty.
    """

    is_watched: bool
    message: str = ""


@dataclass(slots=True, eq=False)
class WatchedWorkspace:
    """State of a watched workspace.

    `root` is its path with symbolic links resolved. `identity` is the device and inode of the directory when the watch
    started; None before that. `observer` is None while nothing is watched. The event of the directory's deletion sets
    `is_deleted`. A periodic check sets `is_missing_or_replaced` if the path is missing or is another directory.
    `map_ids` are the ids of the maps that record changes of the workspace. `ignored_directories` are the directories
    that git ignores, relative to the workspace. `pending` has the events since the last batch; `lock` guards `pending`.
    """

    root: bytes
    ignore_rules: IgnoreRules
    identity: tuple[int, int] | None = None
    observer: WorkspaceObserver | None = None
    is_deleted: bool = False
    is_missing_or_replaced: bool = False
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
        """Return an absolute path relative to the workspace; None for the workspace itself and paths outside it."""
        return path[len(self.root) + 1 :] if path.startswith(self.root + b"/") else None

    def ignores_directory(self, path: bytes) -> bool:
        """Return True if files in this directory, given by its absolute path, are never recorded."""
        # Runs no git command, since it is called for every directory.
        relative_path = self.make_relative(path)
        return relative_path is not None and (
            relative_path in self.ignored_directories or self.ignore_rules.ignores_directory(relative_path)
        )


def read_directory_identity(root: bytes) -> tuple[int, int]:
    """Return the device and inode of a directory. Another directory at the same path has different ones."""
    status = Path(os.fsdecode(root)).stat()
    return status.st_dev, status.st_ino


def find_refusal_reason(root: bytes) -> str:
    """Return why a directory must not be watched; an empty text if it may be. `root` has no symbolic links."""
    try:
        home = os.fsencode(os.path.realpath(Path.home()))
    except RuntimeError:  # the user has no home
        home = b"/"
    contains_home = root == b"/" or (home + b"/").startswith(root + b"/")
    if not contains_home:
        return ""
    description = "your home directory" if root == home != b"/" else "a parent of your home directory"
    return (
        f"{decode_path(root)} is not watched: it is {description}. "
        "Give the directory of one project as workspacePath."
    )


# A touch whose timestamp is further in the future than this comes from a wrong clock; its timestamp is ignored.
MAX_CLOCK_SKEW: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class DetectedChanges:
    """The changes of a batch, without those of files that git ignores. Paths are relative to the workspace.

    `committed_paths`: files of HEAD; empty if no change needs them. `unchanged_paths`: files of HEAD that were created
    again with their content in HEAD, as in a directory that was moved away and back. `removed_directories`: removed
    directories with their removal timestamps; `apply_to` adds a deletion for every file of the map that is in one.
    """

    changes: Sequence[FileChange]
    committed_paths: frozenset[bytes]
    unchanged_paths: frozenset[bytes]
    removed_directories: Mapping[bytes, str]

    def __bool__(self) -> bool:
        return bool(self.changes or self.removed_directories)

    def apply_to(self, document: Mindmap, now: str) -> EditResult | None:
        """Attach the changed files to the node of `choose_target`. Returns None if there is nothing to record.

        A change is left out if the map has a touch of the file that is at least as new: the agent, or another server
        that watches the workspace, has recorded the change.
        """
        touches_by_path = _group_touches_by_path(document)
        latest_valid = format_timestamp(datetime.now(UTC) + MAX_CLOCK_SKEW)

        def is_recorded(change: FileChange) -> bool:
            return change.timestamp <= _find_latest_timestamp(touches_by_path, change) <= latest_valid

        rename_sources = {touch.previous_path for touches in touches_by_path.values() for touch in touches}
        target = choose_target(document)
        target_touches = {touch.path: touch for touch in target.document.nodes[target.node_id].files}
        new_touches = []
        for change in (*self.changes, *self._iter_removed_files(touches_by_path)):
            path = decode_path(change.path)
            touches = touches_by_path.get(path, ())
            is_unchanged = change.path in self.unchanged_paths and all(
                touch.action == "read" for touch in touches
            )
            if is_recorded(change) or is_unchanged:
                continue
            action = change.resolve_action(
                is_committed=change.path in self.committed_paths,
                is_in_map=any(touch.action != "delete" for touch in touches),
            )
            # The rename of a file also deletes its old path. This deletion is recorded only if the map has a new file
            # at the old path.
            is_rename_source = path in rename_sources and path not in touches_by_path
            if action is not None and not (action == "delete" and is_rename_source):
                touch = TouchInput(path, action, summary=f"Auto-detected file {action}")
                new_touches.append(keep_rename(touch, target_touches.get(path)))
        if not new_touches:
            return None
        message = _format_message(new_touches)
        changed = attach_files(target.document, target.node_id, new_touches, message, now)
        return EditResult(changed, message, (target.node_id,), node_count=1)

    def _iter_removed_files(self, touches_by_path: Mapping[str, Sequence[FileTouch]]) -> Iterator[FileChange]:
        """Yield a deletion for each file of the map that is in a removed directory and has no change of its own."""
        if not self.removed_directories:
            return
        changed_paths = {change.path for change in self.changes}
        for path, touches in touches_by_path.items():
            raw_path = path.encode()
            time = find_removal_time(raw_path, self.removed_directories)
            is_present = any(touch.action != "delete" for touch in touches)
            if time and is_present and raw_path not in changed_paths:
                yield FileChange(raw_path, existed_before=True, exists=False, timestamp=time)


def detect_changes(
    ignore_rules: IgnoreRules, batch: EventBatch, workspace: Workspace | None
) -> DetectedChanges:
    """Return the changes of a batch, without those of files that git ignores.

    Files that git wrote or deleted when it moved HEAD, as a branch switch does, are left out too: they equal HEAD.
    `workspace` is None outside repositories, or if git failed; then no file counts as ignored by git.
    """
    changes = batch.compute_file_changes(ignore_rules.root)
    removed_directories = batch.list_removed_directories(ignore_rules.root)
    if workspace is None:
        return DetectedChanges(changes, frozenset(), frozenset(), removed_directories)
    ignored_paths = find_ignored_paths(workspace, [change.path for change in changes])
    changes = [change for change in changes if change.path not in ignored_paths]
    checkout_time = datetime.fromtimestamp(workspace.find_checkout_time(), UTC)
    # Latest time of an event that git caused when it moved HEAD.
    last_checkout_event = format_timestamp(checkout_time + MAX_EVENT_DELAY)
    has_checkout = any(change.timestamp <= last_checkout_event for change in changes)
    committed_paths = unchanged_paths = frozenset[bytes]()
    if removed_directories or has_checkout or not all(change.existed_before for change in changes):
        base = workspace.find_diff_base()
        committed_paths = workspace.list_relative_paths(*LIST_FILES, base)
        created_again = committed_paths & {
            change.path for change in changes if change.existed_before is False and change.exists
        }
        if created_again or has_checkout:
            differing_paths = workspace.list_relative_paths(*LIST_CHANGED_FILES, base)
            unchanged_paths = created_again - differing_paths
            changes = [
                change
                for change in changes
                if change.timestamp > last_checkout_event
                or change.path in differing_paths
                or change.exists != (change.path in committed_paths)
            ]
    deletions = []
    if removed_directories:
        changed_paths = {change.path for change in changes}
        deletions = [
            FileChange(path, existed_before=True, exists=False, timestamp=time)
            for path in committed_paths - changed_paths
            if (time := find_removal_time(path, removed_directories)) and not ignore_rules.ignores_file(path)
        ]
        removed_directories = {
            directory: time for directory, time in removed_directories.items() if time > last_checkout_event
        }
    return DetectedChanges([*changes, *deletions], committed_paths, unchanged_paths, removed_directories)


def _group_touches_by_path(document: Mindmap) -> dict[str, list[FileTouch]]:
    touches: dict[str, list[FileTouch]] = {}
    for node in document.nodes.values():
        for touch in node.files:
            touches.setdefault(touch.path, []).append(touch)
    return touches


def _find_latest_timestamp(touches_by_path: Mapping[str, Sequence[FileTouch]], change: FileChange) -> str:
    touches = touches_by_path.get(decode_path(change.path), ())
    return max((touch.timestamp for touch in touches), default="")


def _format_message(touches: Sequence[TouchInput]) -> str:
    if len(touches) > 1:
        return f"Auto-detected changes of {len(touches):,} files"
    return f"Auto-detected file {touches[0].action or RENAME}: {touches[0].path}"
