"""Watches workspaces and attaches what changes in them to the maps that belong to them, batch by batch.

One observer and one thread for all maps and folders of the process; both are daemons, and end with it. Nothing here
is needed for a map to be right: whatever cannot be watched is said once, and left.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from watchdog.events import (
    DirDeletedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers.api import BaseObserver, ObservedWatch

from mindmap.autodetect import detected
from mindmap.events import Kind, Pending
from mindmap.ignoring import Ignoring
from mindmap.maps import UNREADABLE, Maps
from mindmap.moments import now
from mindmap.paths import shown
from mindmap.program import Git
from stores.errors import LineageError
from stores.mindmaps import NoSuchMindmap

# As the specification has it.
BATCH_SECONDS: Final = 0.6
# A process that ends waits this long for its last batch.
LAST_SECONDS: Final = 1.0

_KINDS: Final = {"created": Kind.CREATED, "modified": Kind.MODIFIED, "deleted": Kind.DELETED}
_WANTED: Final = [FileCreatedEvent, FileModifiedEvent, FileDeletedEvent, FileMovedEvent, DirDeletedEvent]

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Watched:
    """A workspace that is watched; `identity` tells whether a folder of this name is still the same."""

    root: bytes
    identity: tuple[int, int]
    ignoring: Ignoring
    maps: set[str] = field(default_factory=set)
    pending: Pending = field(default_factory=Pending)
    watch: ObservedWatch | None = None
    is_gone: bool = False


class Watcher:
    """Watches the workspaces of maps; `git_for` gives the git program for a folder, None outside repositories."""

    def __init__(self, maps: Maps, git_for: Callable[[str], Git | None]) -> None:
        self._maps = maps
        self._git_for = git_for
        self._lock = threading.Lock()
        self._watched: dict[bytes, _Watched] = {}
        self._observer: BaseObserver | None = None
        self._happened = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._said: set[str] = set()

    def watch(self, mindmap_id: str, workspace: str) -> bool:
        """Attach what changes in the workspace to the map from now on; whether that can be done."""
        root = os.fsencode(os.path.realpath(workspace))
        with self._lock:
            watched = self._watched.get(root)
            try:
                if watched is None or watched.is_gone or watched.identity != _identity(root):
                    watched = self._begin(root, watched)
            except OSError as error:
                self._say(f"{shown(root)} is not watched: {error.strerror or error}.")
                return False
            watched.maps.add(mindmap_id)
        return True

    def stop(self) -> None:
        """Record what is pending, and end."""
        self._ended.set()
        self._happened.set()
        if self._thread is not None:
            self._thread.join(LAST_SECONDS)
        if self._observer is not None:
            self._observer.stop()

    def _begin(self, root: bytes, before: _Watched | None) -> _Watched:
        watched = _Watched(root, _identity(root), Ignoring.of(root, self._maps.path))
        if before is not None:
            watched.maps |= before.maps
            self._unschedule(before)
        observer = self._started()
        watched.watch = observer.schedule(
            _Listener(self, watched), os.fsdecode(root), recursive=True, event_filter=_WANTED
        )
        self._watched[root] = watched
        return watched

    def _started(self) -> BaseObserver:
        if self._observer is None:
            observer = _observer(lambda: self._say(_EXHAUSTED))
            observer.start()
            self._observer = observer
            self._thread = threading.Thread(target=self._run, name="mindmap-batches", daemon=True)
            self._thread.start()
        return self._observer

    def _unschedule(self, watched: _Watched) -> None:
        if self._observer is not None and watched.watch is not None:
            with suppress(KeyError, OSError):
                self._observer.unschedule(watched.watch)

    def happened(self, watched: _Watched, path: str | bytes, kind: Kind) -> None:
        """The system tells of a file; called from the observer's thread."""
        name = os.fsencode(path)
        if not name.startswith(watched.root + b"/"):
            return
        relative = name[len(watched.root) + 1 :]
        if not watched.ignoring.leaves_out(relative):
            with self._lock:
                watched.pending.add(relative, kind, now())
            self._happened.set()

    def ended(self, watched: _Watched, path: str | bytes) -> None:
        """A folder was deleted; the watch of a workspace ends with it."""
        if os.fsencode(path) == watched.root:
            watched.is_gone = True
            self._happened.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._happened.wait()
            self._ended.wait(BATCH_SECONDS)
            self._happened.clear()
            self._record_all()

    def _record_all(self) -> None:
        with self._lock:
            batches = [(watched, watched.pending.take()) for watched in self._watched.values()]
        for watched, batch in batches:
            try:
                if batch:
                    self._record(watched, batch)
            except Exception:
                # The next batch may be recorded again; a thread that ended would record none.
                logger.exception("event=watch_failed workspace=%s", shown(watched.root))
            if watched.is_gone or not watched.maps:
                self._forget(watched)

    def _record(self, watched: _Watched, batch: Pending) -> None:
        happened = detected(watched.root, batch.settled(watched.root), self._git(watched.root))
        for mindmap_id in sorted(watched.maps) if happened.events else ():
            try:
                self._maps.change(mindmap_id, lambda document: happened.recorded(document, now()))
            except (NoSuchMindmap, *UNREADABLE) as error:
                watched.maps.discard(mindmap_id)
                self._say(f"{mindmap_id} is watched for no longer: {error.message}")
            except LineageError as error:
                self._say(str(error))

    def _git(self, root: bytes) -> Git | None:
        try:
            return self._git_for(os.fsdecode(root))
        except LineageError as error:  # not ours to ask in, or damaged: files are files all the same
            self._say(str(error))
            return None

    def _forget(self, watched: _Watched) -> None:
        with self._lock:
            self._unschedule(watched)
            if self._watched.get(watched.root) is watched:
                del self._watched[watched.root]

    def _say(self, what: str) -> None:
        """Say something once: a failing watch fails at every event."""
        if what not in self._said:
            self._said.add(what)
            logger.warning("event=watching %s", what)


class _Listener(FileSystemEventHandler):
    """What the observer tells of one workspace."""

    def __init__(self, watcher: Watcher, watched: _Watched) -> None:
        self._watcher = watcher
        self._watched = watched

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.is_directory:
            if event.event_type == "deleted":
                self._watcher.ended(self._watched, event.src_path)
        elif event.event_type == "moved":
            self._watcher.happened(self._watched, event.src_path, Kind.DELETED)
            self._watcher.happened(self._watched, event.dest_path, Kind.ARRIVED)
        elif event.event_type in _KINDS:
            self._watcher.happened(self._watched, event.src_path, _KINDS[event.event_type])


_EXHAUSTED: Final = (
    "The system's limit of watched folders is reached: changes in some folders are found by git sync only. "
    "Raise fs.inotify.max_user_watches to have them all watched."
)


def _observer(exhausted: Callable[[], None]) -> BaseObserver:
    if platform.system() == "Linux":
        from mindmap.inotify import SparingObserver

        return SparingObserver(exhausted)
    from watchdog.observers import Observer

    return Observer()


def _identity(root: bytes) -> tuple[int, int]:
    status = Path(os.fsdecode(root)).stat()
    return status.st_dev, status.st_ino
