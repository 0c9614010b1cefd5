"""What the observer tells of one workspace, kept for the next batch; called from the observer's thread."""

from __future__ import annotations

import os
import threading
from typing import Final

from watchdog.events import FileSystemEvent, FileSystemEventHandler

from mindmap.events import Kind
from mindmap.moments import now
from mindmap.watched import Watched

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
