"""Writer connection of an index run: open between batches, closed for waiting readers, deleted indexes."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import duckdb
import pytest

from stores import connections, database, history, maintenance, writer
from stores.connections import MAX_OPEN_WAL_BYTES, IndexWriter
from stores.database import MAX_WAL_BYTES, IndexDeleted
from stores.errors import StorageError
from stores.index_location import DATABASE_FILE, IndexLocation
from tests.stores.batches import CURRENT_VERSIONS, SampleCommit, make_batch, make_location
from tests.stores.processes import SLOW_EXIT_PRELUDE, run_script, wait_for_exit

# Script that closes the index while the watcher thread is inside DuckDB, and is interrupted {times} times meanwhile.
CLOSE_INTERRUPTED = """
import signal
from stores.connections import IndexWriter
from stores import locks
def interrupt(*_):
    pending.pop()
    if not pending:
        signal.setitimer(signal.ITIMER_REAL, 0)
    raise KeyboardInterrupt
def has_waiters(*_):
    while pending:
        run_queries()
    run_queries()
    return False
pending = [None] * {times}
signal.signal(signal.SIGALRM, interrupt)
index = IndexWriter(location).__enter__()
with index.open_batch():
    pass
locks.has_waiters = has_waiters
started.wait()
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
try:
    index.__exit__(None, None, None)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.fixture
def location(tmp_path: Path) -> IndexLocation:
    new_location = make_location(tmp_path / "home")
    with database.open_for_writing(new_location) as connection:
        writer.record_run_start(
            connection,
            new_location,
            head="h" * 40,
            unreachable=[],
            components=CURRENT_VERSIONS,
            branch_patterns=(),
        )
    return new_location


def count_commits(location: IndexLocation, wait: float = 5) -> int:
    with database.open_for_reading(location, wait=wait) as connection:
        return len(history.list_recorded_commits(connection))


def write(index: IndexWriter, *numbers: int) -> None:
    with index.open_batch() as connection:
        writer.replace_batch(connection, make_batch([SampleCommit(number) for number in numbers]))


def test_batches_share_one_connection(location: IndexLocation) -> None:
    """While no process waits, batches share a connection; the run ends with a closed index and a short log."""
    with IndexWriter(location) as index:
        with index.open_batch() as first:
            pass
        write(index, 1)
        with index.open_batch() as second:
            assert second is first
    assert count_commits(location, wait=0.5) == 1
    assert database.get_wal_size(location) <= MAX_WAL_BYTES


def test_index_is_reopened_after_a_checkpoint(
    location: IndexLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a checkpoint the index is closed and opened again, which frees memory."""
    monkeypatch.setattr(connections, "MAX_OPEN_WAL_BYTES", 0)
    with IndexWriter(location) as index:
        with index.open_batch() as first:
            writer.replace_batch(first, make_batch([SampleCommit(1)]))
        assert database.get_wal_size(location) == 0
        with index.open_batch() as second:
            assert second is not first
            assert len(history.list_recorded_commits(second)) == 1


def test_reader_between_batches(location: IndexLocation) -> None:
    """A reader gets access between two batches, sees what is committed, and the run continues."""
    with IndexWriter(location) as index:
        write(index, 1)
        started = time.monotonic()
        assert count_commits(location) == 1
        assert time.monotonic() - started < 2
        write(index, 2)
        assert count_commits(location) == 2


def test_failed_batch_closes_the_index(location: IndexLocation) -> None:
    """After a failed batch its error is raised, earlier batches stay, and the next batch opens the index again."""

    def fail(index: IndexWriter) -> None:
        with index.open_batch() as connection:
            connection.execute("BEGIN")
            connection.execute("DELETE FROM commits")
            raise ValueError("half a batch")

    with IndexWriter(location) as index:
        write(index, 1)
        with pytest.raises(ValueError, match="half a batch"):
            fail(index)
        assert count_commits(location, wait=0) == 1  # without waiting for the watcher
        write(index, 2)
    assert count_commits(location) == 2


def test_released_index_is_free(location: IndexLocation) -> None:
    """After `release` other code can write to the index at once, as compaction does."""
    with IndexWriter(location) as index:
        write(index, 1)
        index.release()
        with database.open_for_writing(location, wait=0) as connection:
            assert len(history.list_recorded_commits(connection)) == 1


@pytest.mark.parametrize("max_wal_bytes", [MAX_OPEN_WAL_BYTES, 0])
def test_deleted_directory(
    location: IndexLocation, monkeypatch: pytest.MonkeyPatch, max_wal_bytes: int
) -> None:
    """A batch after the index directory was deleted raises IndexDeleted, whether the index is still open or not."""
    monkeypatch.setattr(connections, "MAX_OPEN_WAL_BYTES", max_wal_bytes)
    with IndexWriter(location) as index:
        write(index, 1)
        shutil.rmtree(location.folder)
        with pytest.raises(IndexDeleted, match="was deleted"):
            for number in range(2, 100):
                write(index, number)


@pytest.mark.parametrize("max_wal_bytes", [MAX_OPEN_WAL_BYTES, 0])
def test_deleted_database(
    location: IndexLocation, monkeypatch: pytest.MonkeyPatch, max_wal_bytes: int
) -> None:
    """A batch after the database was deleted raises IndexDeleted, and creates no empty index."""
    monkeypatch.setattr(connections, "MAX_OPEN_WAL_BYTES", max_wal_bytes)
    with IndexWriter(location) as index:
        write(index, 1)
        delete_database(location)
        with pytest.raises(IndexDeleted, match="was deleted"):
            for number in range(2, 100):
                write(index, number)
    assert not list(location.folder.glob("index.duckdb*"))


def test_replaced_database(location: IndexLocation) -> None:
    """A different file with the database's name is detected by its inode, and not changed."""
    with IndexWriter(location) as index:
        write(index, 1)
        delete_database(location)
        location.database.write_bytes(b"other")
        with pytest.raises(IndexDeleted, match="was deleted"):
            for number in range(2, 100):
                write(index, number)
    assert location.database.read_bytes() == b"other"


def test_compaction_of_deleted_index(location: IndexLocation) -> None:
    """Compaction at the end of a run raises IndexDeleted, and creates no empty index."""
    with IndexWriter(location) as index:
        write(index, 1)
    for path in (location.database, location.folder):
        delete_database(location)
        shutil.rmtree(path, ignore_errors=True)
        for compact in (maintenance.compact_if_needed, maintenance.compact):
            with pytest.raises(IndexDeleted, match="Run `lineage index` again"):
                compact(location)
        assert not location.database.exists()
    assert not location.folder.exists()


def delete_database(location: IndexLocation) -> None:
    """Delete the database and its side files."""
    for file in location.folder.glob(f"{DATABASE_FILE}*"):
        file.unlink()


def test_error_of_the_watcher(location: IndexLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the watcher thread is raised in the writing thread."""

    def fail(*_: object) -> None:
        raise duckdb.IOException("no space left on device")

    with IndexWriter(location) as index:
        write(index, 1)
        monkeypatch.setattr(database, "checkpoint_wal", fail)
        with pytest.raises(StorageError, match="Free some space"), database.open_for_reading(location):
            write(index, 2)


@pytest.mark.parametrize("times", [1, 2])
def test_interrupt_while_closing(location: IndexLocation, times: int) -> None:
    """Interrupts while the run waits for its watcher or closes the index end the process normally."""
    script = SLOW_EXIT_PRELUDE + CLOSE_INTERRUPTED.replace("{times}", str(times))
    with run_script(script, location.home) as process:
        assert wait_for_exit(process) == (0, "interrupted", "")
    with database.open_for_writing(location, wait=0):
        pass
