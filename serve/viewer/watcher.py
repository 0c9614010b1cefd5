"""Many writes, few news: a map that is being written is told of when it pauses, and now and then if it does not.

What changes in the data directory: told by the system, and looked for now and then besides.

The system's word is quick, and not to be relied on: it may have no watches left, tells nothing of what another
machine writes on a shared disk, and of nothing at all in a folder that was deleted and made again. So the folder is
looked through every two seconds too, or four times a second where that is all there is.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from mindmap.observer import FILE_EVENTS
from serve.http_common import identity
from serve.viewer.documents import Sign, sign, signs
from stores.mindmap_files import id_of

QUIET_SECONDS: Final = 0.1
# Of a map that never pauses.
MOST_SECONDS: Final = 0.5


class Handle(Protocol):
    """A call to come."""

    def cancel(self) -> None:
        """Have it not come."""


class Clock(Protocol):
    """The part of an event loop that knows the time."""

    def time(self) -> float:
        """Seconds, from any start."""

    def call_at(self, when: float, callback: Callable[..., object], *arguments: object) -> Handle:
        """Call back at that time."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    began: float
    handle: Handle


@dataclass(frozen=True, slots=True)
class Debounce:
    """Passes each name on once it has been quiet; each name has a clock of its own."""

    clock: Clock
    settled: Callable[[str], object]
    _waiting: dict[str, _Waiting] = field(default_factory=dict)

    def touch(self, name: str) -> None:
        """Something happened to it."""
        now = self.clock.time()
        before = self._waiting.get(name)
        began = before.began if before else now
        if before:
            before.handle.cancel()
        due = min(now + QUIET_SECONDS, began + MOST_SECONDS)
        self._waiting[name] = _Waiting(began, self.clock.call_at(due, self._pass_on, name))

    def _pass_on(self, name: str) -> None:
        del self._waiting[name]
        self.settled(name)


LOOK_SECONDS: Final = 2.0
# A folder of a thousand maps is looked through in 3 ms.
POLL_SECONDS: Final = 0.25
# Watches may be free again by then.
RETRY_SECONDS: Final = 60.0
EVENTS: Final = "events"
POLLING: Final = "polling"

logger = logging.getLogger(__name__)


class Watching:
    """Watches a folder's maps, and calls back on the event loop once each has changed and been quiet."""

    def __init__(self, folder: Path, changed: Callable[[str], None]) -> None:
        self._folder = folder
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._debounce = Debounce(self._loop, self._settled)
        self._known: dict[str, Sign | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._watched: _Watched | None = None
        self._tried = -RETRY_SECONDS
        self._said = False
        self._ended = False
        self.mode = POLLING

    async def begin(self) -> None:
        """Note what is there, and watch from then on."""
        await asyncio.to_thread(self._watch)
        self._known = {**await asyncio.to_thread(_signs, self._folder)}
        self._start(self._keep_looking())

    async def end(self) -> None:
        """Watch no more."""
        self._ended = True
        ending = list(self._tasks)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        if self._watched is not None:
            await asyncio.to_thread(self._watched.stop)

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS if self.mode == EVENTS else POLL_SECONDS)
            try:
                await self._look()
            except Exception:  # the next look may succeed; a watch that ended would tell nothing
                logger.exception("event=look_failed folder=%s", self._folder)

    async def _look(self) -> None:
        await asyncio.to_thread(self._watch)
        found = await asyncio.to_thread(_signs, self._folder)
        for mindmap_id in found.keys() | self._known.keys():
            if not self._is_as_it_was(mindmap_id, found.get(mindmap_id)):
                self._debounce.touch(mindmap_id)

    def _heard(self, names: set[str]) -> None:
        for mindmap_id in filter(None, map(id_of, names)):
            self._debounce.touch(mindmap_id)

    def _settled(self, mindmap_id: str) -> None:
        if not self._ended:
            self._start(self._tell(mindmap_id))

    async def _tell(self, mindmap_id: str) -> None:
        """Tell of a map unless it is as it was: what was heard may have been seen before."""
        now = await asyncio.to_thread(sign, self._folder, mindmap_id)
        if self._is_as_it_was(mindmap_id, now):
            return
        if now is None:
            del self._known[mindmap_id]
        else:
            # Of one that is not settled nothing is known: what follows is a change, whatever it looks like.
            self._known[mindmap_id] = now if now.settled else None
        self._changed(mindmap_id)

    def _is_as_it_was(self, mindmap_id: str, now: Sign | None) -> bool:
        if now is None:
            return mindmap_id not in self._known
        return self._known.get(mindmap_id) == now

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _watch(self) -> None:
        """Have the system tell of the folder, the one that is there now."""
        if self._watched is not None and self._watched.identity == identity(self._folder):
            return
        if self._watched is not None:
            self._watched.stop()
            self._watched, self._tried = None, -RETRY_SECONDS
        found, now = identity(self._folder), time.monotonic()
        if found is None or now - self._tried < RETRY_SECONDS:
            self.mode = POLLING
            return
        self._tried = now
        try:
            self._watched = _Watched(self._folder, found, self._loop, self._heard)
            self.mode = EVENTS
        except OSError as error:
            self.mode = POLLING
            self._say(error)

    def _say(self, error: OSError) -> None:
        if not self._said:
            self._said = True
            logger.warning(
                "event=polling %s is looked through every %g s: the system does not watch it (%s).",
                self._folder,
                POLL_SECONDS,
                error.strerror or error,
            )


class _Watched(FileSystemEventHandler):
    """A folder that the system watches; `identity` tells whether one of this name is still the same."""

    def __init__(
        self,
        folder: Path,
        identity: tuple[int, int],
        loop: asyncio.AbstractEventLoop,
        heard: Callable[[set[str]], None],
    ) -> None:
        self.identity = identity
        self._loop = loop
        self._heard = heard
        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._observer = observer()
        try:
            # A link to the folder would be watched itself.
            self._observer.schedule(self, os.path.realpath(folder), event_filter=FILE_EVENTS)
            self._observer.start()
        except BaseException:
            self.stop()
            raise

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Called from the observer's thread, for each event."""
        paths = (event.src_path, event.dest_path)
        names = {os.path.basename(os.fsdecode(path)) for path in paths if path}  # noqa: PTH119 - no Path for every event
        with self._lock:
            is_first = not self._names
            self._names |= names
        if is_first:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._pass_on)

    def stop(self) -> None:
        """Have the system watch no more."""
        self._observer.stop()
        if self._observer.is_alive():
            self._observer.join()

    def _pass_on(self) -> None:
        with self._lock:
            names, self._names = self._names, set()
        self._heard(names)


def _signs(folder: Path) -> dict[str, Sign]:
    try:
        return signs(folder)
    except OSError:  # those who ask for the maps are told
        return {}


def observer() -> BaseObserver:
    """The system's own way to be told."""
    return Observer()
