"""Reader pool: shared connections, waiting writers, idle and deleted indexes."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import pytest

from stores import database, history, index_copy, locks, maintenance, writer
from stores.connections import IndexReaderPool, ReaderPools
from stores.database import Fingerprint, NotIndexed
from stores.duckdb_engine import MAX_READER_THREADS
from stores.errors import OutOfMemory
from stores.index_copy import OpenIndex
from stores.index_location import IndexLocation
from stores.locks import IndexBusy
from tests.stores.batches import CURRENT_VERSIONS, SampleCommit, make_batch, make_location, make_sha
from tests.stores.processes import (
    SLOW_EXIT_PRELUDE,
    read_line,
    run_script,
    wait_for_exit,
    wait_until,
    wait_until_suspended,
)

WRITE_BATCH = """
with database.open_for_writing(location) as connection:
    writer.replace_batch(connection, make_batch([SampleCommit(9)]))
print("written")
"""
WRITE_BATCHES = """
for number in range(10, 20):
    started = time.monotonic()
    with database.open_for_writing(location) as connection:
        writer.replace_batch(connection, make_batch([SampleCommit(number)]))
    print(time.monotonic() - started)
"""
HOLD_INDEX = """
with database.open_for_writing(location) as connection:
    print("opened")
    sys.stdin.read()
"""
# Script that exits while the watcher thread is inside DuckDB.
EXIT_DURING_QUERY = """
from stores.connections import IndexReaderPool
pool = IndexReaderPool(location)
with pool.acquire():
    pass
{query}
started.wait()
"""
QUERY_ON_CLOSE = "pool._shared_index.resources.callback(run_queries); pool._shared_index.is_closing = True"
# The watcher has the last reference to the closed database.
QUERY_ON_FREE = "pool._shared_index.index.fingerprint = type('Query', (), {'__del__': run_queries})()"


@pytest.fixture
def location(tmp_path: Path) -> IndexLocation:
    location = make_location(tmp_path / "home")
    write(location, 1)
    return location


@pytest.fixture
def pool(location: IndexLocation) -> Iterator[IndexReaderPool]:
    with closing(IndexReaderPool(location)) as new_pool:
        yield new_pool


def test_threads_of_readers(location: IndexLocation, pool: IndexReaderPool) -> None:
    """DuckDB uses as many threads as the active reader that needs most. A closed index leaves the default."""

    def count_threads(index: OpenIndex) -> int:
        return database.fetch_int(index.connection, "SELECT current_setting('threads')")

    with pool.acquire(threads=1) as index:
        assert count_threads(index) == 1
        with pool.acquire(threads=3) as second, pool.acquire(threads=2) as third:
            assert [count_threads(reader) for reader in (index, second, third)] == [3, 3, 3]
    with pool.acquire(threads=1) as index:
        assert count_threads(index) == 1
    pool.close()
    with database.open_for_reading(location) as connection:
        assert database.fetch_int(connection, "SELECT current_setting('threads')") == MAX_READER_THREADS


def write(location: IndexLocation, *numbers: int) -> None:
    with database.open_for_writing(location) as connection:
        writer.record_run_start(
            connection,
            location,
            head="h" * 40,
            unreachable=[],
            components=CURRENT_VERSIONS,
            branch_patterns=(),
        )
        writer.replace_batch(connection, make_batch([SampleCommit(number) for number in numbers]))


def count_commits_in(index: OpenIndex) -> int:
    return len(history.list_recorded_commits(index.connection))


def count_commits(pool: IndexReaderPool, wait: float = 5) -> int:
    with pool.acquire(wait=wait) as index:
        return count_commits_in(index)


def read_fingerprint(pool: IndexReaderPool) -> Fingerprint:
    with pool.acquire() as index:
        return index.fingerprint


def count_watchers() -> int:
    return sum(thread.name == "index-watcher" for thread in threading.enumerate())


def test_queries_share_one_connection(pool: IndexReaderPool) -> None:
    """While no other process waits, the index stays open, and the next query gets the same connection."""
    with pool.acquire() as first:
        assert count_commits_in(first) == 1
    with pool.acquire() as second:
        assert second == first


def test_concurrent_queries(pool: IndexReaderPool) -> None:
    """Concurrent queries have separate connections, and none waits for another."""
    barrier = threading.Barrier(4, timeout=10)

    def query(_: int) -> tuple[int, int]:
        with pool.acquire() as index:
            barrier.wait()
            return id(index.connection), count_commits_in(index)

    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(query, range(4)))
    assert len({connection for connection, _ in results}) == 4
    assert {count for _, count in results} == {1}


def test_writer_between_queries(pool: IndexReaderPool, location: IndexLocation) -> None:
    """A writer does not wait for further queries; the next query sees the batch and another fingerprint."""
    before = read_fingerprint(pool)
    assert read_fingerprint(pool) == before
    started = time.monotonic()
    write(location, 2)
    assert time.monotonic() - started < 2
    assert count_commits(pool) == 2
    assert read_fingerprint(pool) != before


def test_query_waits_behind_a_waiting_writer(pool: IndexReaderPool, location: IndexLocation) -> None:
    """While a writer waits for a query to end, a later query waits for the writer."""
    with run_script(WRITE_BATCH, location.home) as writer, ThreadPoolExecutor(1) as threads:
        with pool.acquire() as index:
            wait_until(lambda: locks.has_waiters(location.folder))
            later = threads.submit(count_commits, pool, 30)
            time.sleep(0.2)
            assert count_commits_in(index) == 1
            assert not later.done()
        assert later.result() == 2
        assert wait_for_exit(writer) == (0, "written", "")


def test_no_starvation(pool: IndexReaderPool, location: IndexLocation) -> None:
    """During a stream of overlapping queries every batch is written within seconds, and queries continue."""
    stop = threading.Event()

    def query_repeatedly(_: int) -> list[int]:
        counts = []
        while not stop.is_set():
            with pool.acquire(wait=30) as index:
                counts.append(count_commits_in(index))
                time.sleep(0.01)
        return counts

    with ThreadPoolExecutor(3) as threads, run_script(WRITE_BATCHES, location.home) as writer:
        readers = [threads.submit(query_repeatedly, number) for number in range(3)]
        try:
            durations = [float(read_line(writer)) for _ in range(10)]
        finally:
            stop.set()
        assert wait_for_exit(writer) == (0, "", "")
    assert max(durations) < 5
    for counts in (reader.result() for reader in readers):
        assert counts == sorted(counts)
        assert len(set(counts)) > 3
    assert count_commits(pool) == 11


def test_idle_index_is_closed(location: IndexLocation) -> None:
    """After the idle time the index is closed and the watcher ends; the next query opens it again."""
    before = count_watchers()
    with closing(IndexReaderPool(location, idle_seconds=0.2)) as pool:
        assert count_commits(pool) == 1
        assert count_watchers() == before + 1
        with pool.acquire() as index:
            time.sleep(0.5)  # a long query does not count as idle
            assert count_commits_in(index) == 1
        wait_until(lambda: count_watchers() == before)
        with database.open_for_writing(location, wait=0):
            pass
        assert count_commits(pool) == 1


def test_close_waits_for_active_query(location: IndexLocation) -> None:
    """A closed pool stays usable for the active query, and releases the index when that ends."""
    pool = IndexReaderPool(location)
    with pool.acquire() as index:
        pool.close()
        assert count_commits_in(index) == 1
        with pytest.raises(IndexBusy), database.open_for_writing(location, wait=0):
            pass
    with database.open_for_writing(location, wait=0):
        pass


@pytest.mark.parametrize("query", [QUERY_ON_CLOSE, QUERY_ON_FREE])
def test_exit_while_the_watcher_closes(location: IndexLocation, query: str) -> None:
    """A process can exit while its watcher thread is inside DuckDB; otherwise it would be aborted."""
    script = SLOW_EXIT_PRELUDE + EXIT_DURING_QUERY.replace("{query}", query)
    with run_script(script, location.home) as process:
        assert wait_for_exit(process) == (0, "", "")


def test_closed_if_the_watcher_cannot_start(location: IndexLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the watcher cannot start, the index is closed: no writer would ever get access."""

    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    pool = IndexReaderPool(location)
    with pytest.raises(RuntimeError, match="new thread"), pool.acquire():
        pass
    monkeypatch.undo()
    write(location, 2)
    with closing(pool), pool.acquire() as index:
        assert count_commits_in(index) == 2


def test_missing_index(tmp_path: Path) -> None:
    """A missing index raises NotIndexed, and is found after it was created."""
    location = make_location(tmp_path / "home")
    with closing(IndexReaderPool(location)) as pool:
        with pytest.raises(NotIndexed):
            count_commits(pool)
        write(location, 1, 2)
        assert count_commits(pool) == 2


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize(
    "delete", [maintenance.delete_index, lambda location: shutil.rmtree(location.folder)]
)
def test_deleted_index_is_detected(
    location: IndexLocation, delete: Callable[[IndexLocation], None], is_open: bool
) -> None:
    """After a deletion a query raises NotIndexed, and a new index has another fingerprint."""
    with closing(IndexReaderPool(location)) as pool:
        before = read_fingerprint(pool)
        if not is_open:
            pool.close()
        delete(location)
        with pytest.raises(NotIndexed):
            count_commits(pool)
        write(location, 5)
        with pool.acquire() as index:
            assert history.list_recorded_commits(index.connection) == [make_sha(5)]
            assert index.fingerprint != before


def test_compacted_index_is_detected(pool: IndexReaderPool, location: IndexLocation) -> None:
    """Compaction works while the pool is open, and the next query reads the new file."""
    before = read_fingerprint(pool)
    maintenance.compact(location)
    assert count_commits(pool) == 1
    assert read_fingerprint(pool) != before


def test_busy_index(pool: IndexReaderPool, location: IndexLocation) -> None:
    """If a writer holds the index, a query fails after its timeout, which the error contains."""
    with run_script(HOLD_INDEX, location.home) as writer:
        assert read_line(writer) == "opened"
        started = time.monotonic()
        with pytest.raises(IndexBusy, match=r"after 0\.3 s"):
            count_commits(pool, wait=0.3)
        assert time.monotonic() - started < 3


def test_lack_of_memory_marks_the_reader(pool: IndexReaderPool) -> None:
    """An error of DuckDB that becomes OutOfMemory marks the reader as failed. Then its instance is not used again."""
    with pytest.raises(OutOfMemory), pool.acquire() as index:
        raise duckdb.OutOfMemoryException("failed to allocate")
    assert index.has_failed


def test_failed_query_affects_no_other(pool: IndexReaderPool) -> None:
    """After any error the next query works."""
    with pytest.raises(duckdb.Error), pool.acquire() as index:
        index.connection.execute("SELECT nothing FROM nowhere")
    assert count_commits(pool) == 1
    with pytest.raises(ValueError, match="own error"), pool.acquire():
        raise ValueError("own error")
    assert count_commits(pool) == 1


def test_readers_cannot_write(pool: IndexReaderPool) -> None:
    """A connection of the pool refuses to change the index."""
    with pytest.raises(duckdb.Error, match="read-only"), pool.acquire() as index:
        index.connection.execute("DELETE FROM commits")


SUSPEND_IN_BATCH = """
import os, signal
with database.open_for_writing(location) as connection:
    writer.replace_batch(connection, make_batch([SampleCommit(2)]))
    os.kill(os.getpid(), signal.SIGSTOP)
    writer.replace_batch(connection, make_batch([SampleCommit(3)]))
print("written")
"""


# Holds the index and writes a batch every 10 ms, until it is killed.
WRITE_CONTINUOUSLY = """
import itertools
with database.open_for_writing(location) as connection:
    for number in itertools.count(2):
        writer.replace_batch(connection, make_batch([SampleCommit(number)]))
        if number == 2: print("written")
        time.sleep(0.01)
"""


def count_copies(monkeypatch: pytest.MonkeyPatch) -> list[IndexLocation]:
    """Return a list that gets the location of each index that is copied from now on."""
    copies: list[IndexLocation] = []
    copy_files = index_copy.copy_files

    def record_copy(location: IndexLocation, directory: Path, deadline: locks.Deadline) -> int:
        copies.append(location)
        return copy_files(location, directory, deadline)

    monkeypatch.setattr(index_copy, "copy_files", record_copy)
    return copies


def is_copy(pool: IndexReaderPool) -> bool:
    with pool.acquire() as index:
        return index.holder is not None


def test_readers_share_a_copy_of_a_suspended_writer(
    pool: IndexReaderPool, location: IndexLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a writer is suspended, all queries share one copy; afterwards they read the index again."""
    monkeypatch.setattr(index_copy, "COPY_AFTER_SECONDS", 0.1)
    copies = count_copies(monkeypatch)
    assert count_commits(pool) == 1
    with run_script(SUSPEND_IN_BATCH, location.home) as process:
        wait_until_suspended(process)
        with ThreadPoolExecutor(4) as threads:
            assert set(threads.map(lambda _: count_commits(pool), range(20))) == {2}
        assert is_copy(pool) and copies == [location]
        process.send_signal(signal.SIGCONT)
        assert wait_for_exit(process) == (0, "written", "")
        wait_until(lambda: not is_copy(pool))
        assert count_commits(pool) == 3
    assert copies == [location]


def test_copy_is_left_after_a_kill(
    pool: IndexReaderPool, location: IndexLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the suspended writer was killed, which changes no file, queries read the index again."""
    monkeypatch.setattr(index_copy, "COPY_AFTER_SECONDS", 0.1)
    with run_script(SUSPEND_IN_BATCH, location.home) as process:
        wait_until_suspended(process)
        assert is_copy(pool)
        fingerprint = read_fingerprint(pool)
    wait_until(lambda: not is_copy(pool))
    assert (count_commits(pool), read_fingerprint(pool)) == (2, fingerprint)


def test_readers_share_a_copy_of_a_running_writer(
    pool: IndexReaderPool, location: IndexLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers that arrived before a copy was made share it, although the writer has changed the index since."""
    monkeypatch.setattr(index_copy, "COPY_AFTER_SECONDS", 0.2)
    copies = count_copies(monkeypatch)
    barrier = threading.Barrier(8, timeout=10)

    def query(_: int) -> int:
        barrier.wait()
        with pool.acquire() as index:
            before = database.compute_fingerprint(location)
            wait_until(lambda: database.compute_fingerprint(location) != before)
            return count_commits_in(index)

    with run_script(WRITE_CONTINUOUSLY, location.home) as writer:
        assert read_line(writer) == "written"
        with ThreadPoolExecutor(8) as threads:
            counts = list(threads.map(query, range(8)))
    assert min(counts) >= 2 and len(copies) <= 2


def test_unreadable_copy_is_made_again(
    pool: IndexReaderPool, location: IndexLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an error of a copy, the next query makes another one."""
    monkeypatch.setattr(index_copy, "COPY_AFTER_SECONDS", 0.1)
    copies = count_copies(monkeypatch)
    with run_script(SUSPEND_IN_BATCH, location.home) as process:
        wait_until_suspended(process)
        with pytest.raises(IndexBusy, match="cannot be read"), pool.acquire():
            raise duckdb.IOException("Corrupt database file: computed checksum")
        assert count_commits(pool) == 2 and len(copies) == 2
        assert not location.damage.exists()


def test_pools_by_index(location: IndexLocation, tmp_path: Path) -> None:
    """There is one pool for each index. A closed one releases its index, and opens it again when needed."""
    other = make_location(tmp_path / "other")
    write(other, 1, 2)
    with closing_all(ReaderPools()) as pools:
        with (
            pools.acquire(location) as first,
            pools.acquire(location) as second,
            pools.acquire(other) as third,
        ):
            assert first.fingerprint == second.fingerprint != third.fingerprint
        pools.close(location)
        with (
            database.open_for_writing(location, wait=0),
            pytest.raises(IndexBusy),
            database.open_for_writing(other, wait=0),
        ):
            pass
        with pools.acquire(location) as index:
            assert count_commits_in(index) == 1
    for closed in (location, other):
        with database.open_for_writing(closed, wait=0):
            pass


@contextmanager
def closing_all(pools: ReaderPools) -> Iterator[ReaderPools]:
    try:
        yield pools
    finally:
        pools.close_all()
