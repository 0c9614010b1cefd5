"""Watcher of the data directory of the mindmaps (short: maps), with a debouncer for maps that are written often.

A map has changed if the signature of its file has changed. File-system events are fast but unreliable: the system may
allow no more watches, and there are no events for writes of other machines on a shared disk or for changes in a
directory that was deleted and created again. So the directory is also scanned: every SCAN_SECONDS, or every
POLL_SECONDS if the system cannot provide events.
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
from serve.server_common import read_file_identity
from stores.mindmap_files import format_file_name, parse_file_name

# A change is reported QUIET_SECONDS after the last write, but at most MAX_DELAY_SECONDS after the first one.
QUIET_SECONDS: Final = 0.1
MAX_DELAY_SECONDS: Final = 0.5
# Interval of scans while the system provides events.
SCAN_SECONDS: Final = 2.0
# Interval of scans without events. A scan of a directory with a thousand maps takes 3 ms.
POLL_SECONDS: Final = 0.25
# Time until the next attempt to watch the directory, after a failure.
RETRY_SECONDS: Final = 60.0
# The kernel updates its clock for file times at least every 10 ms, so two writes within 10 ms can have the same time.
# This value is twice as long, to be safe.
MTIME_RESOLUTION_NS: Final = 20_000_000
# Values of `DirectoryWatcher.mode`.
EVENTS: Final = "events"
POLLING: Final = "polling"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FileSignature:
    """Stat fields of a map's file, to detect that it was written or replaced.

    `is_settled` is False if the last write was less than MTIME_RESOLUTION_NS ago. Then the next write may leave all
    fields unchanged.
    """

    inode: int
    modified_ns: int
    changed_ns: int
    size: int
    is_settled: bool = field(compare=False)


def read_signature(directory: Path, mindmap_id: str) -> FileSignature | None:
    """Return the signature of a map's file; None if there is no such file."""
    try:
        return _create_signature((directory / format_file_name(mindmap_id)).lstat())
    except OSError:
        return None


def read_signatures(directory: Path) -> dict[str, FileSignature]:
    """Return the signatures of all maps in a directory, by id; none if there is no directory. Raises OSError."""
    signatures: dict[str, FileSignature] = {}
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
        for entry in entries:
            mindmap_id = parse_file_name(entry.name)
            if mindmap_id is not None:
                with suppress(OSError):  # deleted since the directory was listed
                    signatures[mindmap_id] = _create_signature(entry.stat(follow_symlinks=False))
    return signatures


def _create_signature(status: os.stat_result) -> FileSignature:
    # A time in the future comes from another machine's clock and counts as old.
    age = time.time_ns() - status.st_mtime_ns
    is_settled = not 0 <= age < MTIME_RESOLUTION_NS
    return FileSignature(status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size, is_settled)


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
    first_trigger_at: float
    timer: TimerHandle


@dataclass(frozen=True, slots=True)
class Debouncer:
    """Delayed calls of `callback(name)`: one call for several triggers of a name in quick succession.

    The call comes QUIET_SECONDS after the last trigger, but at most MAX_DELAY_SECONDS after the first.
    """

    clock: Clock
    callback: Callable[[str], object]
    _pending_calls: dict[str, _PendingCall] = field(default_factory=dict)

    def trigger(self, name: str) -> None:
        """Schedule the callback for this name, or postpone it if it is scheduled already."""
        now = self.clock.time()
        pending_call = self._pending_calls.get(name)
        first_trigger_at = pending_call.first_trigger_at if pending_call else now
        if pending_call:
            pending_call.timer.cancel()
        due_at = min(now + QUIET_SECONDS, first_trigger_at + MAX_DELAY_SECONDS)
        timer = self.clock.call_at(due_at, self._run_callback, name)
        self._pending_calls[name] = _PendingCall(first_trigger_at, timer)

    def _run_callback(self, name: str) -> None:
        del self._pending_calls[name]
        self.callback(name)


class DirectoryWatcher:
    """Watcher of the maps in a directory. It calls `on_change` with each changed map's id, on the event loop.

    `mode` is `events`, or `polling` while the system provides no events.
    """

    def __init__(self, directory: Path, on_change: Callable[[str], None]) -> None:
        self._directory = directory
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._debouncer = Debouncer(self._loop, self._on_quiet)
        self._signatures: dict[str, FileSignature | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._observer: _DirectoryObserver | None = None
        self._next_attempt_at = 0.0  # a time of `time.monotonic()`
        self._has_warned = False
        self._is_stopped = False
        self.mode = POLLING

    async def start(self) -> None:
        """Store the signatures of all maps and start watching. Only later changes are reported."""
        await asyncio.to_thread(self._ensure_observer)
        self._signatures = {**await asyncio.to_thread(_try_read_signatures, self._directory)}
        self._create_task(self._scan_repeatedly())

    async def stop(self) -> None:
        """Stop watching."""
        self._is_stopped = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._observer is not None:
            await asyncio.to_thread(self._observer.stop)

    async def _scan_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(SCAN_SECONDS if self.mode == EVENTS else POLL_SECONDS)
            try:
                await self._scan()
            except Exception:  # the next scan may succeed
                logger.exception("event=scan_failed directory=%s", self._directory)

    async def _scan(self) -> None:
        await asyncio.to_thread(self._ensure_observer)
        signatures = await asyncio.to_thread(_try_read_signatures, self._directory)
        for mindmap_id in signatures.keys() | self._signatures.keys():
            if not self._is_unchanged(mindmap_id, signatures.get(mindmap_id)):
                self._debouncer.trigger(mindmap_id)

    def _on_file_names(self, names: set[str]) -> None:
        for mindmap_id in filter(None, map(parse_file_name, names)):
            self._debouncer.trigger(mindmap_id)

    def _on_quiet(self, mindmap_id: str) -> None:
        if not self._is_stopped:
            self._create_task(self._report_if_changed(mindmap_id))

    async def _report_if_changed(self, mindmap_id: str) -> None:
        """Report a map unless its signature was reported already: a scan and an event may find the same change."""
        signature = await asyncio.to_thread(read_signature, self._directory, mindmap_id)
        if self._is_unchanged(mindmap_id, signature):
            return
        if signature is None:
            del self._signatures[mindmap_id]
        else:
            # The next write may leave an unsettled signature unchanged. With None in its place, the next scan reports
            # the map again.
            self._signatures[mindmap_id] = signature if signature.is_settled else None
        self._on_change(mindmap_id)

    def _is_unchanged(self, mindmap_id: str, signature: FileSignature | None) -> bool:
        """Return whether the map was last reported with this signature. The signature of a missing file is None."""
        if signature is None:
            return mindmap_id not in self._signatures
        return self._signatures.get(mindmap_id) == signature

    def _create_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _ensure_observer(self) -> None:
        """Watch the directory that is at the path now. After a failure, the next attempt is after RETRY_SECONDS."""
        if self._observer is not None and self._observer.identity == read_file_identity(self._directory):
            return
        if self._observer is not None:
            self._observer.stop()
            self._observer, self._next_attempt_at = None, 0.0
        identity, now = read_file_identity(self._directory), time.monotonic()
        if identity is None or now < self._next_attempt_at:
            self.mode = POLLING
            return
        self._next_attempt_at = now + RETRY_SECONDS
        try:
            self._observer = _DirectoryObserver(self._directory, identity, self._loop, self._on_file_names)
            self.mode = EVENTS
        except OSError as error:
            self.mode = POLLING
            self._warn_once(error)

    def _warn_once(self, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "event=polling No file events for %s: %s. It is scanned every %g s instead.",
                self._directory,
                error.strerror or error,
                POLL_SECONDS,
            )


class _DirectoryObserver(FileSystemEventHandler):
    """Observer of one directory. `identity`: its device and inode, to notice a new directory at the same path."""

    def __init__(
        self,
        directory: Path,
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
            # watchdog would watch a symbolic link itself and not its target.
            self._observer.schedule(self, os.path.realpath(directory), event_filter=FILE_EVENTS)
            self._observer.start()
        except BaseException:
            self.stop()
            raise

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Collect the event's file names, to be delivered on the event loop. watchdog calls this on its thread."""
        paths = (event.src_path, event.dest_path)
        names = {os.path.basename(os.fsdecode(path)) for path in paths if path}  # noqa: PTH119 - faster than a Path
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


def _try_read_signatures(directory: Path) -> dict[str, FileSignature]:
    try:
        return read_signatures(directory)
    except OSError:  # the next request for the list of maps reports it to the client
        return {}


def create_observer() -> BaseObserver:
    """Return watchdog's observer for this system. Tests replace this function."""
    return Observer()
