"""File-system observer of one workspace, a directory whose changed files are recorded in a mindmap.

inotify (Linux) needs one watch for each directory, and the system limits the number of watches. So every directory that
is not ignored has its own watch, and an ignored `node_modules` has none. On other systems one recursive watch covers
the tree.
"""

from __future__ import annotations

import errno
import os
import platform
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import ObservedWatch

FILE_EVENTS: Final[list[type[FileSystemEvent]]] = [
    FileCreatedEvent,
    FileModifiedEvent,
    FileDeletedEvent,
    FileMovedEvent,
]
EVENTS: Final = [*FILE_EVENTS, DirCreatedEvent, DirDeletedEvent, DirMovedEvent]

# Maximum number of watches of one workspace. watchdog starts a thread for each watch: 2,000 watches took 45 MB and
# 2.5 s (on two shared cores).
MAX_WATCHES: Final = 2_048
# A workspace may use a quarter of the user's watches, since editors and other servers need some too.
SYSTEM_LIMIT_DIVISOR: Final = 4
SYSTEM_LIMIT_FILE: Final = Path("/proc/sys/fs/inotify/max_user_watches")
# watchdog holds the first event of a rename back for up to 0.5 s. After this delay, all earlier events have arrived.
EVENT_DELAY_SECONDS: Final = 0.6

OWN_LIMIT_REACHED: Final = (
    "The limit of {:,} watched directories is reached. A git sync of the map finds changes in other directories. "
    "Add directories that nobody edits to .gitignore, or choose a smaller workspace."
)
SYSTEM_LIMIT_REACHED: Final = (
    "The system's limit of watched directories is reached. A git sync of the map finds changes in other directories. "
    "Increase fs.inotify.max_user_watches to watch all directories."
)
# Reason why not even the root is watched, without a full stop.
NO_WATCH_ALLOWED: Final = "the system allows no more watches (fs.inotify.max_user_watches) or threads"


class WorkspaceObserver(FileSystemEventHandler):
    """Observer of a workspace. It calls `handler.dispatch` for each event.

    The handler is called on the observer's thread, or on the thread that calls `unwatch_removed_directories`.

    `root` is the workspace's path without symbolic links. `is_ignored` receives absolute paths of directories.
    `report_limit` is called with a message each time a limit prevents a watch.
    """

    def __init__(
        self,
        root: bytes,
        handler: FileSystemEventHandler,
        is_ignored: Callable[[bytes], bool],
        report_limit: Callable[[str], None],
    ) -> None:
        self._root = root
        self._handler = handler
        self._is_ignored = is_ignored
        self._report_limit = report_limit
        self._is_recursive = platform.system() != "Linux"
        self._max_watches = compute_max_watches()
        # The caller's thread and the observer's thread change these dicts without a lock, because each change is
        # atomic and idempotent.
        self._watches: dict[bytes, ObservedWatch] = {}
        # Removed directory -> `time.monotonic()` of the event, until its watch is released.
        self._removed_directories: dict[bytes, float] = {}
        self._observer = Observer()

    def start(self) -> None:
        """Watch the workspace. Raises OSError if its root cannot be watched."""
        if self._is_recursive:
            self._observer.schedule(
                self._handler, os.fsdecode(self._root), recursive=True, event_filter=EVENTS
            )
        self._observer.start()
        try:
            self.add_missing_directories()
        except OSError:
            self._observer.stop()
            raise

    def stop(self) -> None:
        """Stop reporting events."""
        self._observer.stop()

    def unwatch_directory(self, directory: bytes) -> None:
        """Release the watches of a directory and its subdirectories."""
        if directory not in self._watches:
            return
        prefix = directory + b"/"
        for path in self._watches.copy():
            if path == directory or path.startswith(prefix):
                with suppress(KeyError, OSError):
                    self._observer.unschedule(self._watches.pop(path))

    def unwatch_removed_directories(self) -> None:
        """Release the watches of directories that were removed at least EVENT_DELAY_SECONDS ago.

        Directories that were removed later keep their watches, since events of them may still arrive.
        """
        latest_removal = time.monotonic() - EVENT_DELAY_SECONDS
        for directory, removed_at in self._removed_directories.copy().items():
            if removed_at <= latest_removal:
                self._removed_directories.pop(directory, None)
                if not os.path.isdir(directory):  # noqa: PTH112 - bytes
                    self.unwatch_directory(directory)
                    # The directory may have been created again since the check above.
                    self._watch_tree(directory, is_new=True)

    def add_missing_directories(self) -> None:
        """Watch all directories that are neither watched nor ignored. Raises OSError if the root cannot be watched.

        Does nothing with a recursive watch.
        """
        if not self._is_recursive:
            self._watch_tree(self._root)

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Pass an event to the handler, and watch a new directory. A moved directory counts as deleted and created."""
        path = os.fsencode(event.src_path)
        if not event.is_directory or path == self._root:
            self._handler.dispatch(event)
        elif event.event_type == "moved":
            self.on_any_event(DirDeletedEvent(event.src_path))
            self.on_any_event(DirCreatedEvent(event.dest_path))
        else:
            self._handler.dispatch(event)
            if event.event_type == "deleted":
                self._removed_directories[path] = time.monotonic()
                return
            if self._removed_directories.pop(path, None):
                self.unwatch_directory(path)  # a new directory has the path of a removed one
            self._watch_tree(path, is_new=True)

    def _watch_tree(self, top: bytes, *, is_new: bool = False) -> None:
        """Watch a directory and its subdirectories. If `is_new`, report all their files and directories as created.

        A directory is listed after its watch exists. So no file is missed, but some files are reported twice.
        """
        pending_directories = [top]
        while pending_directories:
            directory = pending_directories.pop()
            if self._is_ignored(directory) or not self._add_watch(directory):
                continue
            with suppress(OSError), os.scandir(directory) as entries:
                for entry in entries:
                    is_directory = entry.is_dir(follow_symlinks=False)
                    if is_directory:
                        pending_directories.append(entry.path)
                    if is_new:
                        event_type = DirCreatedEvent if is_directory else FileCreatedEvent
                        self._handler.dispatch(event_type(os.fsdecode(entry.path)))

    def _add_watch(self, directory: bytes) -> bool:
        """Watch a directory if no limit prevents it. Returns True if it is watched now. Raises OSError for the root."""
        if directory in self._watches:
            return True
        if len(self._watches) >= self._max_watches:
            self._report_own_limit(directory)
            return False
        try:
            if not stat.S_ISDIR(os.lstat(directory).st_mode):
                return False
            self._watches[directory] = self._observer.schedule(
                self, os.fsdecode(directory), event_filter=EVENTS
            )
        except RuntimeError:  # the system allows no more threads; the second call reports the limit
            self._max_watches = len(self._watches)
            return self._add_watch(directory)
        except OSError as error:
            if directory == self._root:
                raise
            if error.errno == errno.ENOSPC:
                self._report_limit(SYSTEM_LIMIT_REACHED)
            return False
        return True

    def _report_own_limit(self, directory: bytes) -> None:
        """Report that `_max_watches` are in use. Raises OSError for the root: then no watch is possible."""
        if directory == self._root:
            raise OSError(errno.ENOSPC, NO_WATCH_ALLOWED)
        self._report_limit(OWN_LIMIT_REACHED.format(self._max_watches))


def compute_max_watches() -> int:
    """Return the largest number of directories of one workspace to watch."""
    try:
        return min(MAX_WATCHES, int(SYSTEM_LIMIT_FILE.read_text()) // SYSTEM_LIMIT_DIVISOR)
    except (OSError, ValueError):
        return MAX_WATCHES
