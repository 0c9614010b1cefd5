"""Linux's own way to be told of file events, spared what nobody wants to know; imported on Linux only.

A watch is needed for each folder, and a system has a limited number of them for everybody: a `node_modules` would
take tens of thousands. watchdog watches whatever is below a folder, says nothing where watches run out, and follows
a folder that was moved away. What differs here stands in place of its own parts, which 7.x names as below.
"""

from __future__ import annotations

import errno
import fcntl
import os
import termios
import warnings
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from watchdog.events import DirDeletedEvent, FileSystemEvent, FileSystemEventHandler
from watchdog.observers.api import BaseObserver, ObservedWatch
from watchdog.observers.inotify import InotifyEmitter, InotifyWatchGroup
from watchdog.observers.inotify_c import (
    CallbackId,
    InotifyConstants,
    InotifyEvent,
    InotifyFD,
    Mask,
    WatchCallback,
    WatchDescriptor,
)
from watchdog.observers.inotify_move_event_grouper import (
    GroupedInotifyEvent,
    InotifyMoveEventGrouper,
    PathedInotifyEvent,
)

# As much as the kernel takes 16 MB for. A workspace with more folders than that is no workspace.
MOST_WATCHES: Final = 16_384
# Of what the system allows one person; editors and other servers of this kind want theirs.
SHARE: Final = 4
ALLOWED: Final = Path("/proc/sys/fs/inotify/max_user_watches")
# Linux tells both halves of a rename at once; whatever happens after a half that stays alone waits for so long.
HALVES_SECONDS: Final = 0.1

SYSTEM_LIMIT: Final = (
    "The system's limit of watched folders is reached: changes in some folders are found by git sync only. "
    "Raise fs.inotify.max_user_watches to have them all watched."
)

Declines = Callable[[bytes], bool]


def most_watches() -> int:
    """How many folders one process watches."""
    try:
        return min(MOST_WATCHES, int(ALLOWED.read_text()) // SHARE)
    except (OSError, ValueError):
        return MOST_WATCHES


class SparingInotify(InotifyFD):
    """Takes no more watches than it may, and calls `exhausted` with the reason each time it declines one for that."""

    def __init__(self, exhausted: Callable[[str], None], most: int) -> None:
        super().__init__()
        self._exhausted = exhausted
        self._most = most
        # A folder that is made while its parent's content is looked through is found twice, and warned of.
        warnings.filterwarnings("ignore", "Callback with id", RuntimeWarning)

    def add_callback(
        self, path: bytes, mask: Mask, callback: WatchCallback, id_: CallbackId
    ) -> WatchDescriptor:
        """As its base does; a folder below the watched one that cannot be watched is passed over there."""
        if len(self._watch_for_wd) >= self._most and path != getattr(callback, "path", path):
            self._exhausted(_own_limit(self._most))
            raise OSError(errno.ENOSPC, "more folders than are watched")
        try:
            return super().add_callback(path, mask, callback, id_)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                self._exhausted(SYSTEM_LIMIT)
            raise

    def has_unread(self) -> bool:
        """Whether the system has told something that was not read yet."""
        waiting = array("i", [0])
        try:
            fcntl.ioctl(self._inotify_fd, termios.FIONREAD, waiting)
        except OSError:  # closed
            return False
        return waiting[0] > 0


class Halves(InotifyMoveEventGrouper):
    """Puts the halves of a rename together, without keeping what comes after them waiting for long."""

    delay = HALVES_SECONDS

    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return self._queue.find(lambda _: True) is None


@dataclass
class SparingGroup(InotifyWatchGroup):
    """The watches of one workspace: none in a folder that is declined, none in one that was moved away."""

    declines: Declines = field(default=lambda _: False)
    _move_event_grouper: Halves = field(default_factory=Halves, init=False)

    def on_event(self, event: InotifyEvent) -> None:
        """A folder that is moved is let go; where it arrives in the workspace it is taken up like a new one."""
        if event.is_moved_from and event.is_directory and (moved := self._build_event_source_path(event)):
            self.leave(moved)
        super().on_event(event)

    def leave(self, folder: bytes) -> None:
        """Watch a folder and whatever is below it no longer."""
        with self._lock:
            self._remove_callbacks(
                [
                    watch
                    for watch, path in self._active_callbacks_by_watch.items()
                    if (path + b"/").startswith(folder + b"/")
                ]
            )

    def take_up(self) -> None:
        """Watch what is declined no longer."""
        with self._lock:
            if self.is_active:
                self._add_all_callbacks(self.path)

    def is_idle(self) -> bool:
        """Whether everything that was read was passed on."""
        return self._move_event_grouper.is_empty()

    def _add_all_callbacks(self, path: bytes) -> None:
        if path == self.path or self._is_wanted(path):
            self._add_callback(path)
            for root, names, _ in self._walked(path):
                for name in names:
                    self._add_callback(root + b"/" + name)

    def _recursive_simulate(self, src_path: bytes) -> list[InotifyEvent]:
        """What would have been told of a folder's content if the folder had been watched in time."""
        events = []
        folder = Mask(InotifyConstants.IN_CREATE | InotifyConstants.IN_ISDIR)
        for root, names, files in self._walked(src_path):
            watch = self._active_callbacks_by_path.get(root)
            if watch is not None:
                events += [InotifyEvent(watch, folder, 0, name) for name in names]
                events += [InotifyEvent(watch, InotifyConstants.IN_CREATE, 0, name) for name in files]
        return events

    def _remove_watch_internally(self, wd: WatchDescriptor) -> None:
        path = self._active_callbacks_by_watch.pop(wd, None)
        # By now another folder may have this path.
        if path is not None and self._active_callbacks_by_path.get(path) == wd:
            del self._active_callbacks_by_path[path]

    def _walked(self, path: bytes) -> Iterator[tuple[bytes, list[bytes], list[bytes]]]:
        for root, names, files in os.walk(path):
            names[:] = [name for name in names if self._is_wanted(root + b"/" + name)]
            yield root, names, files

    def _is_wanted(self, path: bytes) -> bool:
        return not self.declines(path) and not os.path.islink(path)  # noqa: PTH114 - bytes


class SparingEmitter(InotifyEmitter):
    """Passes on what its group is told; ends with the workspace, be it deleted or moved."""

    def __init__(self, *arguments: Any, descriptor: SparingInotify, rules: dict[str, Declines], **more: Any):
        super().__init__(*arguments, inotify_fd=descriptor, **more)
        self._rules = rules
        self.group: SparingGroup | None = None

    def on_thread_start(self) -> None:
        """Watch the workspace."""
        mask = Mask(self.get_event_mask_from_filter() | InotifyConstants.IN_MOVE_SELF)
        self._inotify = self.group = SparingGroup(
            self._inotify_fd,
            os.fsencode(self.watch.path),
            event_mask=mask,
            is_recursive=True,
            declines=self._rules[self.watch.path],
        )

    def build_and_queue_event(self, event: GroupedInotifyEvent, *, full_events: bool = False) -> None:
        """As its base does; a workspace that is moved is gone from where it was."""
        if not isinstance(event, PathedInotifyEvent) or not event.ev.is_move_self:
            super().build_and_queue_event(event, full_events=full_events)
        elif os.fsdecode(event.path) == self.watch.path:
            self.queue_event(DirDeletedEvent(self.watch.path))
            self.stop()


class SparingObserver(BaseObserver):
    """watchdog's observer, with one such descriptor for all that it watches."""

    def __init__(self, exhausted: Callable[[str], None]) -> None:
        self._descriptor = SparingInotify(exhausted, most_watches())
        self._descriptor.start()
        self._rules: dict[str, Declines] = {}
        super().__init__(SparingEmitter, descriptor=self._descriptor, rules=self._rules)

    def begin(
        self,
        listener: FileSystemEventHandler,
        root: bytes,
        declines: Declines,
        wanted: list[type[FileSystemEvent]],
    ) -> ObservedWatch:
        """Tell the listener what happens in a workspace, but for folders that are declined."""
        path = os.fsdecode(root)
        self._rules[path] = declines
        return self.schedule(listener, path, recursive=True, event_filter=wanted)

    def leave(self, watch: ObservedWatch, folder: bytes) -> None:
        """Watch a folder no longer."""
        if group := self._group(watch):
            group.leave(folder)

    def take_up(self, watch: ObservedWatch) -> None:
        """Watch folders that are declined no longer."""
        if group := self._group(watch):
            group.take_up()

    def is_quiet(self) -> bool:
        """Whether everything the system has told of by now was passed on to the listeners."""
        with self._lock:
            groups = [self._group(watch) for watch in self._emitter_for_watch]
        idle = all(group is None or group.is_idle() for group in groups)
        return idle and not self._descriptor.has_unread() and not self.event_queue.unfinished_tasks

    def on_thread_stop(self) -> None:
        """Let go of the descriptor too."""
        super().on_thread_stop()
        self._descriptor.stop()

    def _group(self, watch: ObservedWatch) -> SparingGroup | None:
        emitter = self._emitter_for_watch.get(watch)
        return emitter.group if isinstance(emitter, SparingEmitter) else None


def _own_limit(most: int) -> str:
    return (
        f"{most:,} folders are watched, and no more: changes in the others are found by git sync only. "
        "Have git ignore folders that nobody works in, or name a folder inside this workspace."
    )
