"""Connections to an index that stay open between batches or queries, and yield to other processes.

- `IndexWriter`: connection of an index run. If each batch opened the index, replaying and checkpointing the
  write-ahead log would take a third of the time of writing a history.
- `IndexReaderPool`: read connections, shared by the threads of a process, because opening an index takes longer than
  a query. `ReaderPools` has one pool for each index.
- `WatcherThread`: background thread of a writer or pool, which closes an index that another process waits for.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final
from weakref import WeakSet

import duckdb

from stores import database, duckdb_engine, index_copy, locks
from stores.database import READ_WAIT_SECONDS
from stores.duckdb_engine import MAX_READER_THREADS
from stores.index_copy import OpenIndex
from stores.index_location import IndexLocation
from stores.locks import Deadline

# Longest wait for a watcher thread to finish. It may be in a checkpoint, which takes about a second for a full log.
JOIN_TIMEOUT_SECONDS: Final = 10.0


class WatcherThread(threading.Thread):
    """Background thread that runs `watch`, which must return soon after `stop_requested` is set.

    Its owner sets the event. At the end of the interpreter, `_stop_all` sets it.
    """

    def __init__(self, watch: Callable[[], None], stop_requested: threading.Event) -> None:
        super().__init__(target=watch, name="index-watcher", daemon=True)
        self.stop_requested = stop_requested
        # Used instead of `join`: before Python 3.13, an interrupted `join` marks a running thread as finished.
        self._finished = threading.Event()
        _watchers.add(self)

    def run(self) -> None:
        """Run `watch`, then mark the thread as finished."""
        try:
            super().run()
        finally:
            self._finished.set()

    def stop(self) -> None:
        """Request the stop and wait until the thread has finished, at most JOIN_TIMEOUT_SECONDS."""
        self.stop_requested.set()
        if self.ident is not None:
            self._finished.wait(JOIN_TIMEOUT_SECONDS)


_watchers: Final[WeakSet[WatcherThread]] = WeakSet()


@atexit.register
def _stop_all() -> None:
    """Stop all watchers, because a thread that is inside DuckDB while the interpreter exits aborts the process."""
    watchers = tuple(_watchers)
    for watcher in watchers:
        watcher.stop_requested.set()
    for watcher in watchers:
        watcher.stop()


# Time between two checks of a writer for waiting processes: shorter than opening an index, which takes 15 ms.
WRITER_POLL_SECONDS: Final = 0.01
# Size of the write-ahead log that causes a checkpoint. A checkpoint takes the same time for one batch as for ten.
MAX_OPEN_WAL_BYTES: Final = 8_000_000


class IndexWriter:
    """Connection of an index run for writing batches, closed between batches if another process waits for the index.

    A context manager. One thread writes, and a watcher thread checks for waiting processes.

    - `_resources`: closes the index; None while it is closed.
    - `_was_opened`: True after the index was opened once. From then on its file must exist.
    - `_inode`: inode of the open database file, by which a deletion is detected.
    - `_failure`: error of the watcher, raised at the next batch.
    """

    def __init__(self, location: IndexLocation) -> None:
        self.location = location
        self._mutex = threading.Lock()
        self._resources: ExitStack | None = None
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._was_opened = False
        self._inode = 0
        self._failure: Exception | None = None
        self._stop_requested = threading.Event()
        self._watcher = WatcherThread(self._watch, self._stop_requested)

    @contextmanager
    def open_batch(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a connection for one batch, with exclusive access to the index.

        Committed transactions stay; uncommitted changes are lost if the body fails. Raises the errors of
        `database.open_for_writing`.
        """
        with self._mutex:
            if self._failure is not None:
                raise self._failure
            connection = self._open()
            try:
                yield connection
                if database.checkpoint_wal(connection, self.location, MAX_OPEN_WAL_BYTES):
                    # For an open file DuckDB keeps metadata of row groups, 35 MB at 20,000 commits. Closing
                    # frees it. Reopening is cheap now, because the log is empty.
                    self._close()
            except BaseException:
                self._close()
                raise
            self._close_if_needed()

    def release(self) -> None:
        """Close the index until the next batch."""
        with self._mutex:
            self._close()

    def __enter__(self) -> IndexWriter:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._watcher.stop()
        finally:
            self.release()

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            with ExitStack() as opening:
                # An index that was deleted during the run must not be replaced by an empty one.
                self._connection = opening.enter_context(
                    database.open_for_writing(self.location, create=not self._was_opened)
                )
                self._inode = self._read_inode()
                self._resources = opening.pop_all()
            self._was_opened = True
        return self._connection

    def _close(self) -> None:
        resources, self._resources, self._connection = self._resources, None, None
        if resources is not None:
            resources.__exit__(*sys.exc_info())  # after an error, the DuckDB instance is closed as well

    def _close_if_needed(self) -> None:
        """Close the index if another process waits for it; raise IndexDeleted if the file was deleted or replaced."""
        if self._resources is None:
            return
        try:
            has_waiters = locks.has_waiters(self.location.folder)
            is_same_file = self._read_inode() == self._inode
        except FileNotFoundError:
            is_same_file = False
        if not is_same_file:
            self._close()
            raise database.build_index_deleted_error(self.location)
        if has_waiters:
            self._close()

    def _read_inode(self) -> int:
        """Return the inode of the file that is now at the path of the database. Raises FileNotFoundError."""
        return self.location.database.stat().st_ino

    def _watch(self) -> None:
        while not self._stop_requested.wait(WRITER_POLL_SECONDS):
            with self._mutex:
                try:
                    self._close_if_needed()
                except Exception as error:
                    self._failure = error  # raised in the writing thread, at its next batch
                    return


# Time between two checks of readers for waiting writers. Checking more often would keep a CPU awake.
READER_POLL_SECONDS: Final = 0.05
# Time after which an unused index is closed. It takes memory, and disk space if its file was deleted.
IDLE_SECONDS: Final = 60.0


@dataclass(slots=True)
class _SharedIndex:
    """Open index, or a copy of it, that several readers share. Times are those of `time.monotonic`.

    - `resources`: closes the index.
    - `idle_connections`: connections that no reader uses.
    - `active_readers`: number of readers.
    - `threads`: number of threads that DuckDB uses; 0 before the first reader.
    - `is_closing`: True if readers that arrived after `opened_at` are refused.
    - `is_invalid`: True if all new readers are refused. In both cases, the last active reader closes the index.
    - `closed_event`: set when the index is closed; ends the watcher thread.
    """

    index: OpenIndex
    resources: ExitStack = field(default_factory=ExitStack)
    idle_connections: list[duckdb.DuckDBPyConnection] = field(default_factory=list)
    active_readers: int = 0
    threads: int = 0
    opened_at: float = field(default_factory=time.monotonic)
    last_used_at: float = field(default_factory=time.monotonic)
    is_closing: bool = False
    is_invalid: bool = False
    closed_event: threading.Event = field(default_factory=threading.Event)

    def admits_reader(self, arrived_at: float) -> bool:
        """Return whether a reader that arrived at this time may use the open index.

        A closing index still admits readers that arrived before it was opened, because they have waited for it.
        """
        return not self.is_invalid and (not self.is_closing or arrived_at <= self.opened_at)


class IndexReaderPool:
    """Pool of read connections to an index, for the threads of a process.

    When a writer of another process waits, the pool refuses new readers, and the last active reader closes the index.
    Refused readers wait for the writer like any other process. The pool also closes an index that was changed, deleted
    or replaced, and a copy (`index_copy`) once the index itself can be opened or has changed.

    `idle_seconds`: time after which an unused index is closed.
    """

    def __init__(self, location: IndexLocation, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self.location = location
        self.idle_seconds = idle_seconds
        self._mutex = threading.Lock()
        self._shared_index: _SharedIndex | None = None

    @contextmanager
    def acquire(
        self, *, wait: float = READ_WAIT_SECONDS, threads: int = MAX_READER_THREADS
    ) -> Iterator[OpenIndex]:
        """Yield a connection for one thread, which reads the last committed batch.

        `threads`: number of DuckDB's threads; if active readers use more, their number stays. Small queries
        take a third less CPU time with one thread. Waits at most `wait` seconds. Raises the errors of
        `index_copy.open_index_or_copy`, also for DuckDB's errors in the body.
        """
        deadline = Deadline.for_index(self.location.folder, wait)
        while (acquired := self._try_acquire(deadline, threads)) is None:
            deadline.pause()
        shared_index, connection = acquired
        index = replace(shared_index.index, connection=connection)
        try:
            with index.translate_errors():
                yield index
        finally:
            shared_index.is_invalid |= index.has_failed  # so that the next reader opens the file again
            self._release(shared_index, connection)

    def close(self) -> None:
        """Close the index as soon as no reader is active; a later reader opens it again."""
        with self._mutex:
            if self._shared_index is not None:
                self._shared_index.is_closing = True
                self._close_if_due()

    def _try_acquire(
        self, deadline: Deadline, threads: int
    ) -> tuple[_SharedIndex, duckdb.DuckDBPyConnection] | None:
        """Return the open index and a connection for a new reader; None while this reader has to wait."""
        if not self._mutex.acquire(timeout=deadline.remaining_seconds):
            return None
        try:
            self._close_if_due()
            shared_index = self._shared_index or self._open(deadline)
            if not shared_index.admits_reader(deadline.started_at):
                return None
            connection = _take_connection(shared_index, threads)
            shared_index.active_readers += 1
            return shared_index, connection
        finally:
            self._mutex.release()

    def _release(self, shared_index: _SharedIndex, connection: duckdb.DuckDBPyConnection) -> None:
        with self._mutex:
            shared_index.idle_connections.append(connection)
            shared_index.active_readers -= 1
            shared_index.last_used_at = time.monotonic()
            self._close_if_due()

    def _open(self, deadline: Deadline) -> _SharedIndex:
        with ExitStack() as opening:
            shared_index = _SharedIndex(
                opening.enter_context(
                    index_copy.open_index_or_copy(self.location, wait=deadline.remaining_seconds)
                )
            )
            WatcherThread(partial(self._watch, shared_index), shared_index.closed_event).start()
            shared_index.resources = opening.pop_all()
        self._shared_index = shared_index
        return shared_index

    def _close_if_due(self) -> None:
        """Check the index, and close it if it is closing or invalid and no reader is active."""
        shared_index = self._shared_index
        if shared_index is None:
            return
        self._mark_if_outdated(shared_index)
        if (shared_index.is_closing or shared_index.is_invalid) and not shared_index.active_readers:
            self._shared_index = None
            shared_index.closed_event.set()
            # Only reads were made, so no data can be lost; a failed DuckDB instance is not used again.
            with suppress(*database.ENGINE_ERRORS), shared_index.resources:
                for connection in shared_index.idle_connections:
                    connection.close()

    def _mark_if_outdated(self, shared_index: _SharedIndex) -> None:
        """Mark the index as invalid if its files have changed, and as closing if a writer waits for it.

        Mark a copy as closing if the index itself has changed or can be opened.
        """
        try:
            has_changed = database.compute_fingerprint(self.location) != shared_index.index.fingerprint
            if shared_index.index.holder is None:
                shared_index.is_invalid |= has_changed
                shared_index.is_closing |= locks.has_waiters(self.location.folder)
            else:  # a copy
                shared_index.is_closing |= has_changed or locks.is_index_free(self.location.folder)
        except OSError:  # the directory is gone, or too many files are open: reopening reports it
            shared_index.is_invalid = True

    def _watch(self, shared_index: _SharedIndex) -> None:
        """Close the index when a check requires it or when it was idle for `idle_seconds`."""
        while not shared_index.closed_event.wait(READER_POLL_SECONDS):
            with self._mutex:
                unused_seconds = time.monotonic() - shared_index.last_used_at
                if unused_seconds >= self.idle_seconds and not shared_index.active_readers:
                    shared_index.is_closing = True
                if shared_index is self._shared_index:
                    self._close_if_due()


def _take_connection(shared_index: _SharedIndex, threads: int) -> duckdb.DuckDBPyConnection:
    """Return an idle connection of the index, or a new one. DuckDB then uses at least this number of threads."""
    try:
        connection = (
            shared_index.idle_connections.pop()
            if shared_index.idle_connections
            else database.open_cursor(shared_index.index.connection)
        )
        if shared_index.active_readers:
            threads = max(threads, shared_index.threads)
        if threads != shared_index.threads:
            duckdb_engine.set_threads(connection, threads)  # for all connections; takes 0.2 ms
            shared_index.threads = threads
        return connection
    except duckdb.Error:
        shared_index.is_invalid = True
        raise


class ReaderPools:
    """Reader pools of all indexes that a process reads. Thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._pools: dict[IndexLocation, IndexReaderPool] = {}

    @contextmanager
    def acquire(
        self,
        location: IndexLocation,
        *,
        wait: float = READ_WAIT_SECONDS,
        threads: int = MAX_READER_THREADS,
    ) -> Iterator[OpenIndex]:
        """Yield a connection to this index for one reader; see `IndexReaderPool.acquire`."""
        with self._mutex:
            pool = self._pools.setdefault(location, IndexReaderPool(location))
        with pool.acquire(wait=wait, threads=threads) as index:
            yield index

    def close(self, location: IndexLocation) -> None:
        """Close the index as soon as no reader is active."""
        with self._mutex:
            pool = self._pools.pop(location, None)
        if pool:
            pool.close()

    def close_all(self) -> None:
        """Close every index as soon as no reader is active."""
        for location in tuple(self._pools):
            self.close(location)
