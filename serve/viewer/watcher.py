"""Watcher of the data directory, with a debouncer for maps that are written often.

File system events are fast but unreliable: watches may be exhausted, writes of other machines on a shared disk cause
no events, nor does anything in a directory that was deleted and created again. So the directory is also scanned every
two seconds, or four times a second without events.
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
from serve.http_common import file_identity
from serve.viewer.documents import FileSignature, read_signature, read_signatures
from stores.mindmap_files import id_from_file_name

# Pause after a write before the change is reported, and the longest delay if the writes never pause.
QUIET_SECONDS: Final = 0.1
MAX_DELAY_SECONDS: Final = 0.5
SCAN_SECONDS: Final = 2.0
# Scanning a directory of a thousand maps takes 3 ms.
POLL_SECONDS: Final = 0.25
# Watches may be available again by then.
RETRY_SECONDS: Final = 60.0
EVENTS: Final = "events"
POLLING: Final = "polling"

logger = logging.getLogger(__name__)


class TimerHandle(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call."""


class Clock(Protocol):
    """The timer methods of an event loop."""

    def time(self) -> float:
        """Return the monotonic time in seconds."""

    def call_at(self, when: float, callback: Callable[..., object], *arguments: object) -> TimerHandle:
        """Schedule a call at a time."""


@dataclass(frozen=True, slots=True)
class _PendingCall:
    first_event_at: float
    timer: TimerHandle


@dataclass(frozen=True, slots=True)
class Debouncer:
    """Calls `callback` with a name once it has not been triggered for QUIET_SECONDS, at most MAX_DELAY_SECONDS late."""

    clock: Clock
    callback: Callable[[str], object]
    _pending: dict[str, _PendingCall] = field(default_factory=dict)

    def trigger(self, name: str) -> None:
        """Note an event, and postpone the callback for this name."""
        now = self.clock.time()
        pending = self._pending.get(name)
        first_event_at = pending.first_event_at if pending else now
        if pending:
            pending.timer.cancel()
        due = min(now + QUIET_SECONDS, first_event_at + MAX_DELAY_SECONDS)
        self._pending[name] = _PendingCall(first_event_at, self.clock.call_at(due, self._fire, name))

    def _fire(self, name: str) -> None:
        del self._pending[name]
        self.callback(name)


class DirectoryWatcher:
    """Watches the maps in a directory and calls `on_change` with each changed map's id, on the event loop.

    `mode` is `events`, or `polling` while the system provides no events.
    """

    def __init__(self, folder: Path, on_change: Callable[[str], None]) -> None:
        self._folder = folder
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._debouncer = Debouncer(self._loop, self._on_quiet)
        self._signatures: dict[str, FileSignature | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._observed: _ObservedDirectory | None = None
        self._last_attempt = -RETRY_SECONDS
        self._has_warned = False
        self._is_stopped = False
        self.mode = POLLING

    async def start(self) -> None:
        """Record the present state and start watching."""
        await asyncio.to_thread(self._ensure_observer)
        self._signatures = {**await asyncio.to_thread(_read_signatures, self._folder)}
        self._create_task(self._scan_repeatedly())

    async def stop(self) -> None:
        """Stop watching."""
        self._is_stopped = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._observed is not None:
            await asyncio.to_thread(self._observed.stop)

    async def _scan_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(SCAN_SECONDS if self.mode == EVENTS else POLL_SECONDS)
            try:
                await self._scan()
            except Exception:  # the next scan may succeed
                logger.exception("event=look_failed folder=%s", self._folder)

    async def _scan(self) -> None:
        await asyncio.to_thread(self._ensure_observer)
        signatures = await asyncio.to_thread(_read_signatures, self._folder)
        for mindmap_id in signatures.keys() | self._signatures.keys():
            if not self._is_unchanged(mindmap_id, signatures.get(mindmap_id)):
                self._debouncer.trigger(mindmap_id)

    def _on_file_names(self, names: set[str]) -> None:
        for mindmap_id in filter(None, map(id_from_file_name, names)):
            self._debouncer.trigger(mindmap_id)

    def _on_quiet(self, mindmap_id: str) -> None:
        if not self._is_stopped:
            self._create_task(self._report_if_changed(mindmap_id))

    async def _report_if_changed(self, mindmap_id: str) -> None:
        """Report a map if its signature differs from the last one: a scan and an event may both note a change."""
        signature = await asyncio.to_thread(read_signature, self._folder, mindmap_id)
        if self._is_unchanged(mindmap_id, signature):
            return
        if signature is None:
            del self._signatures[mindmap_id]
        else:
            # After an unsettled signature, anything counts as a change: the next write may look the same.
            self._signatures[mindmap_id] = signature if signature.is_settled else None
        self._on_change(mindmap_id)

    def _is_unchanged(self, mindmap_id: str, signature: FileSignature | None) -> bool:
        if signature is None:
            return mindmap_id not in self._signatures
        return self._signatures.get(mindmap_id) == signature

    def _create_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _ensure_observer(self) -> None:
        """Observe the directory that exists now; after a failure, try again in RETRY_SECONDS."""
        if self._observed is not None and self._observed.identity == file_identity(self._folder):
            return
        if self._observed is not None:
            self._observed.stop()
            self._observed, self._last_attempt = None, -RETRY_SECONDS
        found, now = file_identity(self._folder), time.monotonic()
        if found is None or now - self._last_attempt < RETRY_SECONDS:
            self.mode = POLLING
            return
        self._last_attempt = now
        try:
            self._observed = _ObservedDirectory(self._folder, found, self._loop, self._on_file_names)
            self.mode = EVENTS
        except OSError as error:
            self.mode = POLLING
            self._warn_once(error)

    def _warn_once(self, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "event=polling No file events for %s, which is scanned every %g s instead: %s.",
                self._folder,
                POLL_SECONDS,
                error.strerror or error,
            )


class _ObservedDirectory(FileSystemEventHandler):
    """Observer of one directory; `identity` (device, inode) shows whether the path still leads to it."""

    def __init__(
        self,
        folder: Path,
        identity: tuple[int, int],
        loop: asyncio.AbstractEventLoop,
        on_names: Callable[[set[str]], None],
    ) -> None:
        self.identity = identity
        self._loop = loop
        self._on_names = on_names
        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._observer = create_observer()
        try:
            # Of a symbolic link, the link itself would be watched.
            self._observer.schedule(self, os.path.realpath(folder), event_filter=FILE_EVENTS)
            self._observer.start()
        except BaseException:
            self.stop()
            raise

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Collect the event's file names. watchdog calls this in the observer's thread."""
        paths = (event.src_path, event.dest_path)
        names = {os.path.basename(os.fsdecode(path)) for path in paths if path}  # noqa: PTH119 - no Path for every event
        with self._lock:
            is_first = not self._names
            self._names |= names
        if is_first:
            with suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(self._deliver_names)

    def stop(self) -> None:
        """Stop the observer."""
        self._observer.stop()
        if self._observer.is_alive():
            self._observer.join()

    def _deliver_names(self) -> None:
        with self._lock:
            names, self._names = self._names, set()
        self._on_names(names)


def _read_signatures(folder: Path) -> dict[str, FileSignature]:
    try:
        return read_signatures(folder)
    except OSError:  # reported to the client by the next request for the maps
        return {}


def create_observer() -> BaseObserver:
    """Return watchdog's observer for this system. Tests replace it."""
    return Observer()
