"""Workspace watcher: attaches changed files to the mindmaps (short: maps) of their workspaces, in batches.

One thread records the batches of all workspaces; each workspace has its own observer. All threads are daemon threads.
A watch problem stops no edit of a map: it is logged once, and git sync finds the changes that the watcher missed.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Final

from watchdog.events import FileSystemEvent, FileSystemEventHandler

from mindmap.document import Mindmap, utc_now
from mindmap.file_events import (
    DetectedChanges,
    EventBatch,
    EventKind,
    WatchedWorkspace,
    WatchStatus,
    detect_changes,
    find_refusal_reason,
    read_directory_identity,
)
from mindmap.git import GitRunner, IgnoreRules, NoWorkTree, Workspace, find_ignored_directories
from mindmap.map_store import UNREADABLE_ERRORS, MapStore
from mindmap.observer import EVENT_DELAY_SECONDS, WorkspaceObserver
from mindmap.validation import decode_path, resolve_symlinks
from stores.errors import LineageError
from stores.mindmap_files import NoSuchMindmap

# Time from the first event of a batch until the batch is recorded, so that a command that changes many
# files is one change of the map.
BATCH_SECONDS: Final = 0.6
# Interval of the check that workspaces are still the same directories, since a move of a parent causes no event.
CHECK_SECONDS: Final = 2.0
# Longest time that `stop` waits until the last batch is recorded.
LAST_BATCH_SECONDS: Final = 1.0

_EVENT_KINDS: Final = {
    "created": EventKind.CREATED,
    "modified": EventKind.MODIFIED,
    "deleted": EventKind.DELETED,
}

logger = logging.getLogger(__name__)


class WorkspaceEventHandler(FileSystemEventHandler):
    """Event handler that adds the events of a workspace to its batch, and wakes the thread that records batches.

    Events of ignored files and directories are dropped.
    """

    def __init__(self, workspace: WatchedWorkspace, wake: threading.Event) -> None:
        self._workspace = workspace
        self._wake = wake

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Handle an event of a file or directory. The observer calls this on its thread."""
        path = os.fsencode(event.src_path)
        if event.is_directory and event.event_type == "moved":
            # Only a recursive watch sends this event. Such a watch also reports each moved file, so the old path needs
            # no event. With one watch for each directory, WorkspaceObserver sends a deletion and a creation instead.
            self._add_directory_event("created", os.fsencode(event.dest_path))
        elif event.is_directory:
            self._add_directory_event(event.event_type, path)
        elif event.event_type == "moved":
            self._add_file_event(path, EventKind.DELETED)
            self._add_file_event(os.fsencode(event.dest_path), EventKind.MOVED_TO)
        elif event.event_type in _EVENT_KINDS:
            self._add_file_event(path, _EVENT_KINDS[event.event_type])

    def _add_file_event(self, path: bytes, kind: EventKind) -> None:
        relative_path = self._workspace.make_relative(path)
        if relative_path is not None and not self._workspace.ignore_rules.ignores_file(relative_path):
            with self._workspace.lock:
                self._workspace.pending.add_file_event(relative_path, kind, utc_now())
            self._wake.set()

    def _add_directory_event(self, event_type: str, path: bytes) -> None:
        relative_path = self._workspace.make_relative(path)
        if event_type == "deleted" and path == self._workspace.root:
            self._workspace.is_deleted = True
            self._wake.set()
        elif (
            relative_path is not None
            and event_type in ("created", "deleted")
            and not self._workspace.ignores_directory(path)
        ):
            with self._workspace.lock:
                if event_type == "created":
                    self._workspace.pending.created_directories.add(relative_path)
                else:
                    self._workspace.pending.add_removed_directory(relative_path, utc_now())
            self._wake.set()


class OneTimeLogger:
    """Logger that writes each warning once per workspace. `warn_and_report` also collects its warnings for the agent.

    `root` is the path that identifies a workspace.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logged_warnings: set[tuple[bytes, str]] = set()
        self._unreported_messages: dict[bytes, list[str]] = {}

    def warn(self, root: bytes, message: str) -> None:
        """Log a warning unless it was logged before."""
        self._warn(root, message, is_reported=False)

    def warn_and_report(self, root: bytes, message: str) -> None:
        """Log a warning unless it was logged before, and add it to the messages of `take_messages`."""
        self._warn(root, message, is_reported=True)

    def take_messages(self, root: bytes) -> str:
        """Return the collected warnings of a workspace as one text, and clear them."""
        with self._lock:
            return " ".join(self._unreported_messages.pop(root, []))

    def _warn(self, root: bytes, message: str, *, is_reported: bool) -> None:
        with self._lock:
            if (root, message) in self._logged_warnings:
                return
            self._logged_warnings.add((root, message))
            if is_reported:
                self._unreported_messages.setdefault(root, []).append(message)
        logger.warning("event=watch_warning workspace=%s %s", decode_path(root), message)


class Watcher:
    """Watcher that attaches changed files to the maps of their workspaces.

    `find_git` returns the git runner of a directory; None outside repositories.

    `_lock` guards changes of `_workspaces` and of a workspace's `map_ids`. `_start_lock` guards starts and stops of
    observers. An observer holds its own lock when it calls the event handler, which takes the lock of the workspace. So
    a thread that holds `_lock` or a workspace's lock must call no method of an observer: it could wait forever.
    """

    def __init__(self, store: MapStore, find_git: Callable[[str], GitRunner | None]) -> None:
        self._store = store
        self._find_git = find_git
        self._start_lock = threading.Lock()
        self._lock = threading.Lock()
        self._workspaces: dict[bytes, WatchedWorkspace] = {}
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._warnings = OneTimeLogger()

    def watch(self, mindmap_id: str, workspace_path: str) -> WatchStatus:
        """From now on, attach changes in this workspace to the map, and no changes in other workspaces.

        `is_watched` of the result is False if the workspace must not or cannot be watched; `message` says why.
        """
        root = os.fsencode(os.path.realpath(workspace_path))
        reason = find_refusal_reason(root)
        with self._start_lock:
            try:
                workspace = None if reason else self._ensure_watched(root)
            except OSError as error:
                workspace, reason = None, _describe_watch_error(root, error)
            with self._lock:
                for other_workspace in self._workspaces.values():
                    other_workspace.map_ids.discard(mindmap_id)
                if workspace is not None:
                    self._workspaces[root] = workspace
                    workspace.map_ids.add(mindmap_id)
        if reason:
            self._warnings.warn(root, reason)
        return WatchStatus(workspace is not None, reason or self._warnings.take_messages(root))

    def watch_status(self, mindmap_id: str) -> WatchStatus:
        """Return the watch status of a map's workspace now, without a message."""
        with self._lock:
            workspaces = [
                workspace for workspace in self._workspaces.values() if mindmap_id in workspace.map_ids
            ]
        return WatchStatus(any(workspace.is_watched() for workspace in workspaces))

    def stop(self) -> None:
        """Record the last events and stop.

        Takes at most EVENT_DELAY_SECONDS + LAST_BATCH_SECONDS, unless an observer is still starting.
        """
        if self._thread is None:
            return
        time.sleep(EVENT_DELAY_SECONDS)
        self._stopped.set()
        self._wake.set()
        self._thread.join(LAST_BATCH_SECONDS)
        with self._start_lock:
            for workspace in self._list_workspaces():
                self._stop_observer(workspace)

    def _ensure_watched(self, root: bytes) -> WatchedWorkspace:
        """Return the workspace, with a running observer of the directory that is at its path now. Raises OSError."""
        workspace = self._workspaces.get(root) or WatchedWorkspace(
            root, IgnoreRules.from_workspace(root, self._store.path)
        )
        if not workspace.is_watched():
            self._start_observer(workspace)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mindmap-batches", daemon=True)
            self._thread.start()
        return workspace

    def _start_observer(self, workspace: WatchedWorkspace) -> None:
        self._stop_observer(workspace)
        workspace.identity = read_directory_identity(workspace.root)
        workspace.is_deleted = workspace.is_missing_or_replaced = False
        workspace.ignored_directories = self._find_ignored_directories(workspace)
        handler = WorkspaceEventHandler(workspace, self._wake)
        observer = WorkspaceObserver(
            workspace.root,
            handler,
            workspace.ignores_directory,
            partial(self._warnings.warn_and_report, workspace.root),
        )
        observer.start()
        workspace.observer = observer

    def _stop_observer(self, workspace: WatchedWorkspace) -> None:
        observer, workspace.observer = workspace.observer, None
        if observer is not None:
            observer.stop()

    def _run(self) -> None:
        while not self._stopped.is_set():
            if self._wake.wait(CHECK_SECONDS):
                self._stopped.wait(BATCH_SECONDS)  # until then further events of the batch may arrive
            self._wake.clear()
            for workspace in self._list_workspaces():
                self._run_guarded(self._process_workspace, workspace)
        for workspace in self._list_workspaces():
            self._run_guarded(self._record_batch, workspace)

    def _list_workspaces(self) -> list[WatchedWorkspace]:
        with self._lock:
            return list(self._workspaces.values())

    def _run_guarded(self, step: Callable[[WatchedWorkspace], None], workspace: WatchedWorkspace) -> None:
        try:
            step(workspace)
        except Exception:
            # The thread must not end, as the next batch may succeed.
            logger.exception("event=watch_failed workspace=%s", decode_path(workspace.root))

    def _process_workspace(self, workspace: WatchedWorkspace) -> None:
        """Record the batch and update the observer.

        If the directory was moved or replaced since the last call, do nothing until the next call.
        """
        was_missing_or_replaced = workspace.is_missing_or_replaced
        workspace.is_missing_or_replaced = workspace.observer is not None and not workspace.is_watched()
        if workspace.is_missing_or_replaced and not was_missing_or_replaced:
            self._wake.set()  # the next batch is after BATCH_SECONDS; until then the last events may arrive
            return
        self._record_batch(workspace)
        if workspace.observer is not None:
            workspace.observer.unwatch_removed_directories()
        self._update_observer(workspace)

    def _record_batch(self, workspace: WatchedWorkspace) -> None:
        if workspace.pending and self._is_git_busy(workspace) and not self._stopped.is_set():
            self._wake.set()  # the next batch is after BATCH_SECONDS
            return
        with workspace.lock:
            batch = workspace.pending.take_all()
        with self._lock:
            map_ids = sorted(workspace.map_ids)
        # If the workspace was moved, the batch is dropped, because its latest events may be of another directory.
        if batch and (workspace.is_deleted or workspace.is_same_directory()):
            self._attach_to_maps(workspace, map_ids, self._detect_changes(workspace, batch))
            self._update_ignored_directories(workspace, batch)

    def _attach_to_maps(
        self, workspace: WatchedWorkspace, map_ids: list[str], changes: DetectedChanges
    ) -> None:
        if not changes:
            return
        for mindmap_id in map_ids:
            try:
                document, _ = self._store.change(
                    mindmap_id,
                    lambda document: (
                        changes.apply_to(document, utc_now()) if _belongs_to(document, workspace) else None
                    ),
                )
                if not _belongs_to(document, workspace):
                    self._detach_map(workspace, mindmap_id)
            except (NoSuchMindmap, *UNREADABLE_ERRORS) as error:
                self._detach_map(workspace, mindmap_id)
                self._warnings.warn(
                    workspace.root, f"Changed files no longer attach to {mindmap_id}. {error.message}"
                )
            except LineageError as error:
                self._warnings.warn(workspace.root, str(error))

    def _detach_map(self, workspace: WatchedWorkspace, mindmap_id: str) -> None:
        with self._lock:
            workspace.map_ids.discard(mindmap_id)

    def _detect_changes(self, workspace: WatchedWorkspace, batch: EventBatch) -> DetectedChanges:
        try:
            return detect_changes(workspace.ignore_rules, batch, self._open_workspace(workspace))
        except (LineageError, OSError) as error:
            self._warnings.warn_and_report(
                workspace.root, f"Files that git ignores are recorded too. {error}"
            )
            return detect_changes(workspace.ignore_rules, batch, None)

    def _update_ignored_directories(self, workspace: WatchedWorkspace, batch: EventBatch) -> None:
        """After new directories or ignore rules, watch exactly the directories that git does not ignore."""
        if workspace.observer is None:
            return
        if batch.has_ignore_rule_changes():
            workspace.ignored_directories = ignored = self._find_ignored_directories(workspace)
            workspace.observer.add_missing_directories()
        elif batch.created_directories:
            ignored = self._find_ignored_directories(workspace, batch.created_directories)
            workspace.ignored_directories |= ignored
        else:
            return
        for directory in ignored:
            workspace.observer.unwatch_directory(workspace.root + b"/" + directory)

    def _find_ignored_directories(
        self, workspace: WatchedWorkspace, top_directories: Collection[bytes] = ()
    ) -> frozenset[bytes]:
        try:
            git_workspace = self._open_workspace(workspace)
            if git_workspace is None:
                return frozenset()
            return find_ignored_directories(git_workspace, top_directories)
        except (LineageError, OSError) as error:
            self._warnings.warn_and_report(
                workspace.root, f"Directories that git ignores are watched too. {error}"
            )
            return frozenset()

    def _is_git_busy(self, workspace: WatchedWorkspace) -> bool:
        with suppress(LineageError, OSError):
            git_workspace = self._open_workspace(workspace)
            return git_workspace is not None and git_workspace.is_locked()
        return False

    def _open_workspace(self, workspace: WatchedWorkspace) -> Workspace | None:
        root = os.fsdecode(workspace.root)
        with suppress(NoWorkTree):
            git = self._find_git(root)
            return Workspace.from_path(root, git) if git is not None else None
        return None

    def _update_observer(self, workspace: WatchedWorkspace) -> None:
        """Stop watching if the workspace has no maps; otherwise, start an observer if none watches its directory."""
        with self._start_lock:
            if self._stopped.is_set():
                return
            if not workspace.map_ids:
                with self._lock:
                    del self._workspaces[workspace.root]
                self._stop_observer(workspace)
            elif workspace.observer is None or (
                workspace.is_missing_or_replaced and not workspace.is_watched()
            ):
                self._stop_observer(workspace)
                # The next check tries again after an error.
                try:
                    self._start_observer(workspace)
                except (FileNotFoundError, NotADirectoryError):
                    pass  # no directory is there now
                except OSError as error:
                    self._warnings.warn(workspace.root, _describe_watch_error(workspace.root, error))


def _describe_watch_error(root: bytes, error: OSError) -> str:
    return f"Cannot watch {decode_path(root)}: {error.strerror or error}."


def _belongs_to(document: Mindmap, workspace: WatchedWorkspace) -> bool:
    """Return True if the map has this workspace. A map gets another workspace if its own no longer exists."""
    path = document.workspace_path
    return path is not None and os.fsencode(resolve_symlinks(path)) == workspace.root
