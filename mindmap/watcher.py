"""What the observer tells of one workspace, kept for the next batch; called from the observer's thread.

What is said once: a failing watch fails at every event, and nobody reads the same line twice.

Watches workspaces and attaches what changes in them to the maps that belong to them, batch by batch.

One observer and one thread for all maps and folders of the process; both are daemons, and end with it. Nothing here
is needed for a map to be right: whatever cannot be watched is said once, and left.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from watchdog.events import FileSystemEvent, FileSystemEventHandler

from mindmap.auto_attach import Detected, detected
from mindmap.document import Mindmap, now
from mindmap.file_events import Kind, Pending, Watched, Watching, identity, unwatchable
from mindmap.git import Git, NoWorkTree, Workspace
from mindmap.ignore import Ignoring, ignored_folders
from mindmap.map_store import UNREADABLE, Maps
from mindmap.observer import WANTED, Observing, observer, wait_for_quiet
from mindmap.paths import real, shown
from stores.errors import LineageError
from stores.mindmap_files import NoSuchMindmap

_KINDS: Final = {"created": Kind.CREATED, "modified": Kind.MODIFIED, "deleted": Kind.DELETED}


class Listener(FileSystemEventHandler):
    """Keeps what happens in a workspace, less what is never recorded, and says so with `happened`."""

    def __init__(self, watched: Watched, happened: threading.Event) -> None:
        self._watched = watched
        self._happened = happened

    def on_any_event(self, event: FileSystemEvent) -> None:
        """The system tells of a file or a folder."""
        path = os.fsencode(event.src_path)
        if event.is_directory and event.event_type == "moved":
            self._folder("created", os.fsencode(event.dest_path))  # its files are told of one by one
        elif event.is_directory:
            self._folder(event.event_type, path)
        elif event.event_type == "moved":
            self._file(path, Kind.DELETED)
            self._file(os.fsencode(event.dest_path), Kind.ARRIVED)
        elif event.event_type in _KINDS:
            self._file(path, _KINDS[event.event_type])

    def _file(self, path: bytes, kind: Kind) -> None:
        relative = self._watched.relative(path)
        if relative is not None and not self._watched.ignoring.leaves_out(relative):
            with self._watched.lock:
                self._watched.pending.add(relative, kind, now())
            self._happened.set()

    def _folder(self, what: str, path: bytes) -> None:
        relative = self._watched.relative(path)
        if what == "deleted" and path == self._watched.root:
            self._watched.is_gone = True
            self._happened.set()
        elif relative is not None and what in ("created", "deleted") and not self._watched.declines(path):
            with self._watched.lock:
                if what == "created":
                    self._watched.pending.made.add(relative)
                else:
                    self._watched.pending.lose(relative, now())
            self._happened.set()


class Once:
    """Says things to the log, and keeps some of them for the next who asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said: set[str] = set()
        self._untold: list[str] = []

    def say(self, what: str, *, tell: bool = False) -> None:
        """Say something if it was not said yet; `tell` has it told to who asks, too."""
        with self._lock:
            if what in self._said:
                return
            self._said.add(what)
            self._untold += [what] if tell else []
        logging.getLogger(__name__).warning("event=watching %s", what)

    def tell(self, what: str) -> None:
        """Say something that whoever asks next should know."""
        self.say(what, tell=True)

    def told(self) -> str:
        """What was kept for who asks now."""
        with self._lock:
            told, self._untold = " ".join(self._untold), []
        return told


# As the specification has it.
BATCH_SECONDS: Final = 0.6
# How often it is looked whether the workspaces are still the same folders: nobody tells of a parent that is moved.
LOOK_SECONDS: Final = 2.0
# A process that ends waits this long for what happened just before, and then this long for its last batch.
QUIET_SECONDS: Final = 0.5
LAST_SECONDS: Final = 1.0

logger = logging.getLogger(__name__)


class Watcher:
    """Watches the workspaces of maps; `git_for` gives the git program for a folder, None outside repositories.

    The observer tells with its own lock held, and the lock of a workspace is taken then: so nothing is asked of the
    observer under that, nor under `_lock`. `_placing` is for those who begin and end watches.
    """

    def __init__(self, maps: Maps, git_for: Callable[[str], Git | None]) -> None:
        self._maps = maps
        self._git_for = git_for
        self._placing = threading.Lock()
        self._lock = threading.Lock()
        self._watched: dict[bytes, Watched] = {}
        self._observer: Observing | None = None
        self._happened = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._once = Once()

    def watch(self, mindmap_id: str, workspace: str) -> Watching:
        """Attach what changes in the workspace to the map from now on, and to no map what changes in another."""
        root = os.fsencode(os.path.realpath(workspace))
        reason = unwatchable(root)
        with self._placing:
            try:
                watched = None if reason else self._placed(root)
            except OSError as error:
                watched, reason = None, f"{shown(root)} is not watched: {error.strerror or error}."
            with self._lock:
                for other in self._watched.values():
                    other.maps.discard(mindmap_id)
                if watched is not None:
                    self._watched[root] = watched
                    watched.maps.add(mindmap_id)
        if reason:
            self._once.say(reason)
        return Watching(watched is not None, reason or self._once.told())

    def watching(self, mindmap_id: str) -> Watching:
        """Whether a map's workspace is watched by now."""
        with self._lock:
            found = [watched for watched in self._watched.values() if mindmap_id in watched.maps]
        return Watching(any(watched.stands() for watched in found))

    def stop(self) -> None:
        """Record what is pending, and end."""
        if self._observer is not None:
            wait_for_quiet(self._observer, QUIET_SECONDS)
        self._ended.set()
        self._happened.set()
        if self._thread is not None:
            self._thread.join(LAST_SECONDS)
        if self._observer is not None:
            self._observer.stop()

    def _placed(self, root: bytes) -> Watched:
        """The workspace under watch: as it is, begun, or begun again."""
        watched = self._watched.get(root) or Watched(root, Ignoring.of(root, self._maps.path))
        if not watched.stands():
            self._begin(watched)
        return watched

    def _begin(self, watched: Watched) -> None:
        self._unschedule(watched)
        watched.identity = identity(watched.root)
        watched.is_gone = watched.is_doubted = False
        watched.declined = self._ignored_folders(watched)
        listener = Listener(watched, self._happened)
        watched.watch = self._started().begin(listener, watched.root, watched.declines, WANTED)

    def _started(self) -> Observing:
        if self._observer is None:
            started = observer(self._once.tell)
            started.start()
            self._observer = started
            self._thread = threading.Thread(target=self._run, name="mindmap-batches", daemon=True)
            self._thread.start()
        return self._observer

    def _unschedule(self, watched: Watched) -> None:
        if self._observer is not None and watched.watch is not None:
            with suppress(KeyError, OSError):
                self._observer.unschedule(watched.watch)
        watched.watch = None

    def _run(self) -> None:
        while not self._ended.is_set():
            if self._happened.wait(LOOK_SECONDS):
                self._ended.wait(BATCH_SECONDS)
            self._happened.clear()
            for watched in self._all():
                self._guarded(self._record_batch, watched)
                self._guarded(self._look_after, watched)
        for watched in self._all():
            self._guarded(self._record_batch, watched)

    def _all(self) -> list[Watched]:
        with self._lock:
            return list(self._watched.values())

    def _guarded(self, step: Callable[[Watched], None], watched: Watched) -> None:
        try:
            step(watched)
        except Exception:
            # The next batch may be recorded again; a thread that ended would record none.
            logger.exception("event=watch_failed workspace=%s", shown(watched.root))

    def _record_batch(self, watched: Watched) -> None:
        if self._is_in_doubt(watched):
            return
        with watched.lock:
            batch = watched.pending.take()
        with self._lock:
            maps = sorted(watched.maps)
        if batch and not watched.is_doubted:
            self._record(watched, maps, self._detected(watched, batch))
            self._spare(watched, batch)

    def _is_in_doubt(self, watched: Watched) -> bool:
        """Whether the folder is another all of a sudden: its end may be told of yet, and if not it was moved away.

        What is told of it from then on happens elsewhere.
        """
        before = watched.is_doubted
        watched.is_doubted = watched.watch is not None and not watched.is_gone and not watched.is_same()
        return watched.is_doubted and not before

    def _record(self, watched: Watched, maps: list[str], happened: Detected) -> None:
        for mindmap_id in maps if happened else ():
            try:
                document, _ = self._maps.change(
                    mindmap_id,
                    lambda document: (
                        happened.recorded(document, now()) if _is_in(document, watched) else None
                    ),
                )
                if not _is_in(document, watched):
                    self._leave(watched, mindmap_id)
            except (NoSuchMindmap, *UNREADABLE) as error:
                self._leave(watched, mindmap_id)
                self._once.say(f"{mindmap_id} is watched for no longer: {error.message}")
            except LineageError as error:
                self._once.say(str(error))

    def _leave(self, watched: Watched, mindmap_id: str) -> None:
        with self._lock:
            watched.maps.discard(mindmap_id)

    def _detected(self, watched: Watched, batch: Pending) -> Detected:
        try:
            return detected(watched.ignoring, batch, self._workspace(watched))
        except (LineageError, OSError) as error:
            # No git program, or one that fails: files are files all the same.
            self._once.tell(f"What git ignores is recorded too: {error}")
            return detected(watched.ignoring, batch, None)

    def _spare(self, watched: Watched, batch: Pending) -> None:
        """Watch no folder that git ignores, though it was made after the watch began or its rules are new."""
        if self._observer is None or watched.watch is None:
            return
        if batch.changes_rules():
            watched.declined = ignored = self._ignored_folders(watched)
            self._observer.take_up(watched.watch)
        else:
            ignored = self._ignored_folders(watched, batch.made) if batch.made else frozenset()
            watched.declined |= ignored
        for folder in ignored:
            self._observer.leave(watched.watch, watched.root + b"/" + folder)

    def _ignored_folders(self, watched: Watched, among: Collection[bytes] = ()) -> frozenset[bytes]:
        try:
            workspace = self._workspace(watched)
            return ignored_folders(workspace, among) if workspace is not None else frozenset()
        except (LineageError, OSError) as error:
            self._once.tell(f"Folders that git ignores are watched too: {error}")
            return frozenset()

    def _workspace(self, watched: Watched) -> Workspace | None:
        root = os.fsdecode(watched.root)
        with suppress(NoWorkTree):
            git = self._git_for(root)
            return Workspace.of(root, git) if git is not None else None
        return None

    def _look_after(self, watched: Watched) -> None:
        """End what nobody's map is of; begin again where another folder has the name."""
        with self._placing:
            if not watched.maps:
                self._forget(watched)
            elif not watched.stands() and not (watched.is_doubted and watched.pending):
                self._unschedule(watched)
                with suppress(OSError):  # not there; it is looked again
                    self._begin(watched)

    def _forget(self, watched: Watched) -> None:
        with self._lock:
            if watched.maps:
                return
            if self._watched.get(watched.root) is watched:
                del self._watched[watched.root]
        self._unschedule(watched)


def _is_in(document: Mindmap, watched: Watched) -> bool:
    """Whether the workspace is still the map's; it may have got another where its own was gone."""
    workspace = document.workspace_path
    return workspace is not None and os.fsencode(real(workspace)) == watched.root
