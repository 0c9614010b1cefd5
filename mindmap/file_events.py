"""Net changes of the files in a watched workspace: computed from file events, recorded in a mindmap.

All events of a file in one batch become one change. The first event shows whether the file existed before the batch. A
rename to the file's path does not show this, so HEAD and the mindmap (short: map) decide. The disk shows whether the
file exists now. A file that was created and deleted in one batch is not recorded.

Changed files attach to the map's task in progress, or to a node for touched files. The entry of a file on a node is
called a touch. Files that git ignores, files that a checkout wrote, and changes that the map already has, are not
recorded.
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
# Arguments of the git command that lists the files of a revision. The revision is appended.
LIST_FILES: Final = ("ls-tree", "-r", "-z", "--name-only")
# Arguments of the git command that lists the files that differ from a revision. The revision is appended.
LIST_CHANGED_FILES: Final = (
    "diff",
    "--name-only",
    "-z",
    "--no-relative",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=dirty",
)
# The kernel updates its clock for file times at least every 10 ms, so a file's time is up to 10 ms too early.
KERNEL_TICK: Final = timedelta(milliseconds=10)
# Longest delay from a write to its event on a busy machine. If a file's time is earlier than the event by more than
# this, another write set it.
MAX_EVENT_DELAY: Final = timedelta(seconds=2)


class EventKind(Enum):
    """Kind of an event of one path. MOVED_TO: a file was renamed to the path; another file may have been there."""

    CREATED = auto()
    MODIFIED = auto()
    DELETED = auto()
    MOVED_TO = auto()


# Kind of the first event of a file -> whether the file existed before the event; None if unknown.
_EXISTED_BEFORE: Final = {
    EventKind.CREATED: False,
    EventKind.MODIFIED: True,
    EventKind.DELETED: True,
    EventKind.MOVED_TO: None,
}


@dataclass(frozen=True, slots=True)
class FileChange:
    """Net change of one file by all its events in a batch, or by the removal of its directory.

    `path` is relative to the workspace. `existed_before` is None if unknown. `timestamp` is the time of the last event,
    or of the removal. If the last event is MODIFIED, it is the result of `_estimate_write_time`.
    """

    path: bytes
    existed_before: bool | None
    exists: bool
    timestamp: str

    def resolve_action(self, *, is_committed: bool, is_in_map: bool) -> str | None:
        """Return the action `create`, `modify` or `delete`; None if the file existed neither before nor now.

        `is_committed`: whether HEAD has the file. `is_in_map`: whether the map has a touch of the file that is not a
        deletion. The action for a created file that HEAD has is `modify`.
        """
        existed = is_committed or is_in_map if self.existed_before is None else self.existed_before
        if self.exists:
            return "modify" if existed or is_committed else "create"
        return "delete" if existed else None


@dataclass(slots=True)
class EventBatch:
    """File events of one workspace that are recorded together. All paths are relative to the workspace.

    `_file_events` has, by path, the kinds of the first and the last event of a file, and the time of the last one.
    `_removed_directories` has the removal time of each removed directory. The files in it may have no events, since a
    directory can be moved away as a whole.
    """

    created_directories: set[bytes] = field(default_factory=set)
    _file_events: dict[bytes, tuple[EventKind, EventKind, str]] = field(default_factory=dict)
    _removed_directories: dict[bytes, str] = field(default_factory=dict)

    def add_file_event(self, path: bytes, kind: EventKind, timestamp: str) -> None:
        """Add an event of a file."""
        first_kind = self._file_events[path][0] if path in self._file_events else kind
        self._file_events[path] = first_kind, kind, timestamp

    def add_removed_directory(self, directory: bytes, timestamp: str) -> None:
        """Add the removal of a directory."""
        self._removed_directories[directory] = timestamp

    def take_all(self) -> EventBatch:
        """Return all events as a new batch, and clear this one."""
        batch = EventBatch(self.created_directories, self._file_events, self._removed_directories)
        self.created_directories, self._file_events, self._removed_directories = set(), {}, {}
        return batch

    def compute_file_changes(self, root: bytes) -> list[FileChange]:
        """Return one change for each file that has events, with its state on disk now. `root` is the workspace.

        A file that is missing, but whose last event is no deletion, is left out: its deletion is in the next batch, or
        its directory was removed as a whole and `list_removed_directories` returns it.
        """
        changes = []
        for path, (first_kind, last_kind, timestamp) in self._file_events.items():
            status = _stat_file(root + b"/" + path)
            if status is not None or last_kind is EventKind.DELETED:
                if status is not None and last_kind is EventKind.MODIFIED:
                    timestamp = _estimate_write_time(status, timestamp)
                changes.append(FileChange(path, _EXISTED_BEFORE[first_kind], status is not None, timestamp))
        return changes

    def list_removed_directories(self, root: bytes) -> dict[bytes, str]:
        """Return the removed directories with their removal timestamps, without those that exist again."""
        return {
            directory: timestamp
            for directory, timestamp in self._removed_directories.items()
            if not os.access(root + b"/" + directory, os.F_OK)
        }

    def has_ignore_rule_changes(self) -> bool:
        """Return True if a .gitignore file has events."""
        return any(path.rpartition(b"/")[2] == IGNORE_FILE for path in self._file_events)

    def __bool__(self) -> bool:
        return bool(self._file_events or self._removed_directories or self.created_directories)


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


def _estimate_write_time(status: os.stat_result, event_timestamp: str) -> str:
    """Return the timestamp of a file's last write: ctime plus KERNEL_TICK, or the event's if that is implausible."""
    # If an agent records a touch between the write and its event, the touch is older than the event. With the event's
    # time, the watcher would record the write again.
    write_time = datetime.fromtimestamp(status.st_ctime_ns / 1e9, UTC) + KERNEL_TICK
    delay = datetime.fromisoformat(event_timestamp) - write_time
    return format_timestamp(write_time) if timedelta(0) < delay <= MAX_EVENT_DELAY else event_timestamp


@dataclass(frozen=True, slots=True)
class WatchStatus:
    """Watch status of a workspace.

    `message` says why the workspace or some of its directories are not watched, or why files that git ignores are
    recorded or watched. Otherwise it is empty.
    """

    is_watched: bool
    message: str = ""


@dataclass(slots=True, eq=False)
class WatchedWorkspace:
    """State of a workspace whose changes maps record. It may be unwatched, such as while its directory is missing.

    `root` is its path with symbolic links resolved. `identity` is the device and inode of the directory when the watch
    started; None before that. `observer` is None if none is running. The event of the directory's deletion sets
    `is_deleted`. A periodic check sets `is_missing_or_replaced` if the watched directory is no longer at the path.
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
        """Convert an absolute path to one relative to the workspace; None for the workspace and paths outside it."""
        return path[len(self.root) + 1 :] if path.startswith(self.root + b"/") else None

    def ignores_directory(self, path: bytes) -> bool:
        """Return True if no files in the directory at this absolute path are recorded."""
        # Runs no git command, since it is called for every directory.
        relative_path = self.make_relative(path)
        return relative_path is not None and (
            relative_path in self.ignored_directories or self.ignore_rules.ignores_directory(relative_path)
        )


def read_directory_identity(root: bytes) -> tuple[int, int]:
    """Return the device and inode of a directory, to detect another directory at its path. Raises OSError."""
    status = Path(os.fsdecode(root)).stat()
    return status.st_dev, status.st_ino


def find_refusal_reason(root: bytes) -> str:
    """Return why a directory must not be watched; empty if it may be. `root` is its path without symbolic links."""
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


# A timestamp of a touch that is further in the future than this comes from a wrong clock, and is ignored.
MAX_CLOCK_SKEW: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class DetectedChanges:
    """Changes of a batch that maps record. All paths are relative to the workspace.

    `committed_paths`: files of HEAD; empty if they are not needed. `unchanged_paths`: files that were created with the
    content that they have in HEAD, for example in a directory that was moved away and back. `removed_directories`:
    removal timestamp by directory. `apply_to` records a deletion of each file of the map in such a directory.
    """

    changes: Sequence[FileChange]
    committed_paths: frozenset[bytes]
    unchanged_paths: frozenset[bytes]
    removed_directories: Mapping[bytes, str]

    def __bool__(self) -> bool:
        return bool(self.changes or self.removed_directories)

    def apply_to(self, document: Mindmap, now: str) -> EditResult | None:
        """Attach the changed files to the node of `choose_target`. Returns None if there is nothing to record.

        A change is left out if the map has a touch of the file that is at least as new: an agent, or another watcher
        of the workspace, has recorded the change.
        """
        touches_by_path = _group_touches_by_path(document)
        max_timestamp = format_timestamp(datetime.now(UTC) + MAX_CLOCK_SKEW)

        def is_recorded(change: FileChange) -> bool:
            return change.timestamp <= _find_latest_timestamp(touches_by_path, change) <= max_timestamp

        rename_sources = {touch.previous_path for touches in touches_by_path.values() for touch in touches}
        target = choose_target(document)
        target_touches = {touch.path: touch for touch in target.document.nodes[target.node_id].files}
        new_touches = []
        for change in (*self.changes, *self._iter_removed_files(touches_by_path)):
            path = decode_path(change.path)
            touches = touches_by_path.get(path, ())
            # If the map has a change of the file, such as its deletion, the new creation is recorded, too.
            is_unchanged = change.path in self.unchanged_paths and all(
                touch.action == "read" for touch in touches
            )
            if is_recorded(change) or is_unchanged:
                continue
            action = change.resolve_action(
                is_committed=change.path in self.committed_paths,
                is_in_map=any(touch.action != "delete" for touch in touches),
            )
            # A rename causes a deletion event of the old path, but its touch has this path as the previous path. So
            # the deletion is recorded only if the map has a new file at the old path.
            is_rename_source = path in rename_sources and path not in touches_by_path
            if action is not None and not (action == "delete" and is_rename_source):
                touch = TouchInput(path, action, summary=f"Auto-detected file {action}")
                new_touches.append(keep_rename(touch, target_touches.get(path)))
        if not new_touches:
            return None
        message = _format_message(new_touches)
        new_document = attach_files(target.document, target.node_id, new_touches, message, now)
        return EditResult(new_document, message, (target.node_id,), node_count=1)

    def _iter_removed_files(self, touches_by_path: Mapping[str, Sequence[FileTouch]]) -> Iterator[FileChange]:
        """Yield a deletion of each file of the map that was in a removed directory and has no change of its own."""
        if not self.removed_directories:
            return
        changed_paths = {change.path for change in self.changes}
        for path, touches in touches_by_path.items():
            raw_path = path.encode()
            removal_time = find_removal_time(raw_path, self.removed_directories)
            is_in_map = any(touch.action != "delete" for touch in touches)
            if removal_time and is_in_map and raw_path not in changed_paths:
                yield FileChange(raw_path, existed_before=True, exists=False, timestamp=removal_time)


def detect_changes(
    ignore_rules: IgnoreRules, batch: EventBatch, workspace: Workspace | None
) -> DetectedChanges:
    """Return the changes of a batch, without changes of files that git ignores.

    Files that git wrote or deleted when it moved HEAD, such as in a branch switch, are left out, too: they equal HEAD.
    `workspace` is None outside repositories, or if git failed. Then all changes are returned.
    """
    changes = batch.compute_file_changes(ignore_rules.root)
    removed_directories = batch.list_removed_directories(ignore_rules.root)
    if workspace is None:
        return DetectedChanges(changes, frozenset(), frozenset(), removed_directories)
    ignored_paths = find_ignored_paths(workspace, [change.path for change in changes])
    changes = [change for change in changes if change.path not in ignored_paths]
    checkout_time = datetime.fromtimestamp(workspace.find_checkout_time(), UTC)
    # Git may have caused the events up to this time when it moved HEAD.
    checkout_end = format_timestamp(checkout_time + MAX_EVENT_DELAY)
    may_have_checkout_changes = any(change.timestamp <= checkout_end for change in changes)
    committed_paths = unchanged_paths = frozenset[bytes]()
    if (
        removed_directories
        or may_have_checkout_changes
        or not all(change.existed_before for change in changes)
    ):
        revision = workspace.find_diff_base()
        committed_paths = workspace.list_relative_paths(*LIST_FILES, revision)
        recreated_paths = committed_paths & {
            change.path for change in changes if change.existed_before is False and change.exists
        }
        if recreated_paths or may_have_checkout_changes:
            differing_paths = workspace.list_relative_paths(*LIST_CHANGED_FILES, revision)
            unchanged_paths = recreated_paths - differing_paths
            # A checkout made the earlier changes of files that equal HEAD now.
            changes = [
                change
                for change in changes
                if change.timestamp > checkout_end
                or change.path in differing_paths
                or change.exists != (change.path in committed_paths)
            ]
    deletions = []
    if removed_directories:
        changed_paths = {change.path for change in changes}
        deletions = [
            FileChange(path, existed_before=True, exists=False, timestamp=removal_time)
            for path in committed_paths - changed_paths
            if (removal_time := find_removal_time(path, removed_directories))
            and not ignore_rules.ignores_file(path)
        ]
        # A checkout may have removed the directories that are left out here.
        removed_directories = {
            directory: removal_time
            for directory, removal_time in removed_directories.items()
            if removal_time > checkout_end
        }
    return DetectedChanges([*changes, *deletions], committed_paths, unchanged_paths, removed_directories)


def _group_touches_by_path(document: Mindmap) -> dict[str, list[FileTouch]]:
    touches_by_path: dict[str, list[FileTouch]] = {}
    for node in document.nodes.values():
        for touch in node.files:
            touches_by_path.setdefault(touch.path, []).append(touch)
    return touches_by_path


def _find_latest_timestamp(touches_by_path: Mapping[str, Sequence[FileTouch]], change: FileChange) -> str:
    """Return the timestamp of the newest touch of the changed file; empty if the file has no touch."""
    touches = touches_by_path.get(decode_path(change.path), ())
    return max((touch.timestamp for touch in touches), default="")


def _format_message(touches: Sequence[TouchInput]) -> str:
    if len(touches) > 1:
        return f"Auto-detected changes of {len(touches):,} files"
    # `keep_rename` removes the action of a touch only if the file was renamed.
    return f"Auto-detected file {touches[0].action or RENAME}: {touches[0].path}"
