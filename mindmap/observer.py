"""Who tells of file events: inotify spared what nobody wants on Linux, watchdog's own observer elsewhere."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from typing import Final, Protocol

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

# What is on its way from one thread to the next is nowhere for an instant.
QUIET_LOOKS: Final = 3
LOOK_SECONDS: Final = 0.01

# Reading is no change.
FILE_EVENTS: Final[list[type[FileSystemEvent]]] = [
    FileCreatedEvent,
    FileModifiedEvent,
    FileDeletedEvent,
    FileMovedEvent,
]
WANTED: Final = [*FILE_EVENTS, DirCreatedEvent, DirDeletedEvent, DirMovedEvent]


class Observing(Protocol):
    """What a watcher needs of an observer."""

    def begin(
        self,
        listener: FileSystemEventHandler,
        root: bytes,
        declines: Callable[[bytes], bool],
        wanted: list[type[FileSystemEvent]],
    ) -> ObservedWatch:
        """Tell the listener what happens in a workspace; folders that are declined may be left out."""

    def unschedule(self, watch: ObservedWatch) -> None:
        """Tell no more of a workspace."""

    def leave(self, watch: ObservedWatch, folder: bytes) -> None:
        """Tell no more of a folder, where that spares something."""

    def take_up(self, watch: ObservedWatch) -> None:
        """Tell of folders that are declined no longer."""

    def is_quiet(self) -> bool:
        """Whether everything that happened by now was told."""

    def start(self) -> None:
        """Begin to tell."""

    def stop(self) -> None:
        """End."""


class WholeTrees:
    """watchdog's own observer: where the system tells of whole trees, no folder is spared and none costs anything."""

    def __init__(self) -> None:
        self._observer = Observer()
        self.unschedule = self._observer.unschedule
        self.start = self._observer.start
        self.stop = self._observer.stop

    def begin(
        self,
        listener: FileSystemEventHandler,
        root: bytes,
        _declines: Callable[[bytes], bool],
        wanted: list[type[FileSystemEvent]],
    ) -> ObservedWatch:
        """Tell the listener what happens in a workspace."""
        return self._observer.schedule(listener, os.fsdecode(root), recursive=True, event_filter=wanted)

    def leave(self, watch: ObservedWatch, folder: bytes) -> None:
        """Nothing is spared."""

    def take_up(self, watch: ObservedWatch) -> None:
        """Nothing was left out."""

    def is_quiet(self) -> bool:
        """As far as this process knows."""
        return not self._observer.event_queue.unfinished_tasks


def observer(exhausted: Callable[[str], None]) -> Observing:
    """The observer for this system; `exhausted` is told why folders are passed over."""
    if platform.system() == "Linux":
        from mindmap.inotify_observer import SparingObserver

        return SparingObserver(exhausted)
    return WholeTrees()


def wait_for_quiet(observing: Observing, seconds: float) -> None:
    """Wait until everything that happened by now was told; not for longer than so."""
    end, quiet = time.monotonic() + seconds, 0
    while quiet < QUIET_LOOKS and time.monotonic() < end:
        quiet = quiet + 1 if observing.is_quiet() else 0
        time.sleep(LOOK_SECONDS)
