"""Open an index: many may read it or one may write a batch, and neither ever meets DuckDB's own locks.

Every connection belongs to a database in memory with the index file attached as `ix`, because only an
attached file can be given a row-group size. Nothing is ever installed or loaded from the network.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import duckdb

from stores import locking, migrations, places, refusals
from stores.errors import LineageError
from stores.locking import Deadline
from stores.places import Place
from stores.versions import SCHEMA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

# A batch holds the index for about 60 ms, moving an index into a fresh file for seconds when it is large.
READ_WAIT_SECONDS: Final = 10.0
# A writer waits for at most one query a reader, and has hours to lose.
WRITE_WAIT_SECONDS: Final = 60.0

# Rows that a checkpoint rewrites when it merges small groups into one. With DuckDB's 122,880 a checkpoint
# took up to 1.5 s at 60,000 vectors, with 2,048 (the smallest) never more than 0.3 s.
ROW_GROUP_SIZE: Final = 2_048
# Every column that is written to takes a block of memory, and on the disk its share of one. DuckDB's 262,144 bytes
# cost a batch 15 MB more of the one and an index of 5,000 commits 2.5 MB of the other; 16,384 a tenth more processor.
BLOCK_SIZE: Final = 65_536
# A checkpoint costs 30 ms for one batch and 40 ms for two; what is not checkpointed costs 7 ms a megabyte at
# every opening. 2 MB are one or two batches, and a reader still opens in under 30 ms.
LARGEST_WAL: Final = 2_000_000
# Compressing floats saves 12 % and doubles the time of a checkpoint; `compaction` does it once, at the end.
UNCOMPRESSED_FLOATS: Final = "SET disabled_compression_methods = 'alp,alprd'"

# A batch needs a few megabytes, a query the columns it reads; what does not fit goes to the spill folder.
MEMORY_LIMIT: Final = "512MB"
# DuckDB keeps every block it wrote until its limit is reached, so a run's memory would follow the index's size. A
# limit that nothing fits under empties its buffers; the system still has the file's pages, so reading again is cheap.
EMPTYING_LIMIT: Final = "1MB"
SPILL: Final = "spill"
# What passes over whole tables are done in. The engine keeps blocks up to its limit, needed or not: to copy an index, a
# third of the first was enough at 80,000 hunks and two thirds at 1,000,000; thousands of hunks in a row as long as they
# may be, 57 KB each, take the second.
FRUGAL_LIMITS: Final = ("96MB", "256MB", MEMORY_LIMIT)
# More threads do not make a batch faster, and the encoder wants them.
WRITER_THREADS: Final = 1
READER_THREADS: Final = 4


Made = TypeVar("Made")

# Inode, size and time of a file: compaction puts another file in its place, a batch lengthens its log, a run makes
# the side file anew.
Stamp: TypeAlias = tuple[int, int, int]
Fingerprint: TypeAlias = tuple[Stamp | None, ...]

# What DuckDB says of a file whose blocks are not what they were.
DAMAGE: Final = (
    duckdb.IOException,
    duckdb.FatalException,
    duckdb.InternalException,
    duckdb.SerializationException,
)
# What it says in when the system took no more of what it wrote.
UNWRITTEN: Final = (duckdb.IOException, duckdb.TransactionException, duckdb.FatalException)


# Engines that readers left, with no file attached, for the next reader of the same place: starting one costs
# 10 to 30 ms. The oldest is dropped, and closes itself.
_left: Final[deque[tuple[Place, duckdb.DuckDBPyConnection]]] = deque(maxlen=4)


class NotIndexed(LineageError):
    """There is no index of this repository yet, or nothing in it."""


class DamagedIndex(LineageError):
    """The database file is not one, or is damaged."""


class IndexGone(LineageError):
    """The index, or its folder, was deleted while a run wrote into it."""


@contextmanager
def reading(place: Place, *, wait: float = READ_WAIT_SECONDS) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that sees the last committed batch and keeps writers out while it lasts; errors as those of `sound`.

    An index of an older schema is migrated first, under the writer's lock: a question asked after an upgrade is
    answered, and a step takes milliseconds.
    """
    deadline = Deadline.after(wait)
    with sound(place), ExitStack() as stack:
        connection, found = _opened(stack, place, deadline)
        if found < SCHEMA_VERSION:
            stack.close()
            _bring_forward(place, deadline)
            connection, _ = _opened(stack, place, deadline)
        yield connection


def _opened(stack: ExitStack, place: Place, deadline: Deadline) -> tuple[duckdb.DuckDBPyConnection, int]:
    """The index, open for reading until the stack ends, and its schema."""
    if not place.database.exists():
        raise _not_indexed(place)
    stack.enter_context(locking.entered(place.folder, exclusive=False, deadline=deadline))
    if not place.database.exists():
        raise _not_indexed(place)
    engine = stack.enter_context(_reading_engine(place))
    connection = stack.enter_context(_attached(engine, place.database, "READ_ONLY", deadline))
    found = migrations.check(connection)
    if not found:
        raise _not_indexed(place)
    return connection, found


def _bring_forward(place: Place, deadline: Deadline) -> None:
    try:
        with writing(place, wait=deadline.left):
            pass
    except (OSError, DamagedIndex, refusals.Refused) as error:  # it was opened for reading a moment ago
        raise migrations.not_migrated(SCHEMA_VERSION, str(error).splitlines()[0]) from error


@contextmanager
def writing(
    place: Place, *, wait: float = WRITE_WAIT_SECONDS, create: bool = True
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection for one batch, alone; the index is made or migrated first where it has to be.

    What the body committed stays; what it left uncommitted when it failed is gone. Errors as those of `sound`, and
    IndexGone where there is no index and none is to be made.
    """
    if create:
        places.claim(place)
    elif not place.database.exists():  # a lock file made now would keep its folder from being deleted
        raise gone(place)
    deadline = Deadline.after(wait)
    with sound(place), locking.entered(place.folder, exclusive=True, deadline=deadline), private():
        if not create and not place.database.exists():
            raise gone(place)
        with (
            _writing_engine(place) as engine,
            _attached(engine, place.database, f"ROW_GROUP_SIZE {ROW_GROUP_SIZE}", deadline) as connection,
        ):
            migrations.migrate(connection)
            yield connection
            settle(connection, place, LARGEST_WAL)


def gone(place: Place) -> IndexGone:
    """What is said to a run whose index was deleted."""
    return IndexGone(
        f"The index in {place.folder} was deleted while it was written to.", hint="Run `lineage index` again."
    )


def beside(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Another connection to an opened index, for another thread; to be closed before the index is."""
    cursor = connection.cursor()
    # A cursor does not inherit which database is in use.
    cursor.execute("USE ix")
    return cursor


@contextmanager
def registered(connection: duckdb.DuckDBPyConnection, **rows: pa.Table | pa.RecordBatch) -> Iterator[None]:
    """Rows that statements can name meanwhile."""
    with ExitStack() as names:
        for name, table in rows.items():
            connection.register(name, table)
            names.callback(_forget, connection, name)
        yield


def _forget(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    with suppress(duckdb.Error):  # whatever ended the engine is told already
        connection.unregister(name)


@contextmanager
def ending(connection: duckdb.DuckDBPyConnection, *statements: str) -> Iterator[None]:
    """These statements at the end; where the body fails they are tried, and its error is the one that is told."""
    try:
        yield
    except BaseException:
        for statement in statements:
            with suppress(duckdb.Error):
                connection.execute(statement)
        raise
    for statement in statements:
        connection.execute(statement)


def frugally(connection: duckdb.DuckDBPyConnection, work: Callable[[], Made]) -> Made:
    """What comes of a pass over whole tables, in the least memory that is enough: one that runs out begins anew."""
    *sparing, last = FRUGAL_LIMITS
    for limit in sparing:
        try:
            with _frugal(connection, limit):
                return work()
        except duckdb.Error as error:
            if not _is_for_memory(error):
                raise
    with _frugal(connection, last):
        return work()


@contextmanager
def _frugal(connection: duckdb.DuckDBPyConnection, limit: str) -> Iterator[None]:
    """A statement runs on the thread that gave it, in little memory; the next reader finds the engine as it was."""
    before = connection.execute("SELECT current_setting('threads')").fetchall()[0][0]
    with ending(connection, f"SET threads = {before}", f"SET memory_limit = '{MEMORY_LIMIT}'"):
        connection.execute("SET threads = 1")
        connection.execute(f"SET memory_limit = '{limit}'")
        yield


def _is_for_memory(error: duckdb.Error) -> bool:
    """Whether a statement failed for lack of memory; when it is committed, any failure has the same type.

    Of whatever type, the engine then names the setting that would give it more.
    """
    return isinstance(error, duckdb.OutOfMemoryException) or "SET memory_limit" in str(error)


@contextmanager
def sound(place: Place) -> Iterator[None]:
    """What tells a damaged index, and a disk without room, from a program's mistake: damage deep in a file shows late.

    DamagedIndex, or `refusals.Refused`.
    """
    try:
        yield
    except (*UNWRITTEN, *DAMAGE) as error:
        told = _told(place.database, error)
        if told is None:
            raise
        raise told from error


class _Privacy:
    """A process's umask, which all its threads share: how many want it strict, and what it was before the first."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._inside = 0
        self._before = 0

    def __enter__(self) -> None:
        with self._turn:
            if not self._inside:
                self._before = os.umask(0o077)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._turn:
            self._inside -= 1
            if not self._inside:
                os.umask(self._before)


_privacy: Final = _Privacy()


@contextmanager
def private() -> Iterator[None]:
    """Files made meanwhile, the write-ahead log among them, are readable by their owner only."""
    with _privacy:
        yield


def settle(connection: duckdb.DuckDBPyConnection, place: Place, largest: int = 0) -> bool:
    """Leave at most this many bytes for the next opening to replay; says whether there were more."""
    if wal_size(place) <= largest:
        return False
    connection.execute("CHECKPOINT")
    _empty_buffers(connection)
    return True


def _empty_buffers(connection: duckdb.DuckDBPyConnection) -> None:
    with suppress(duckdb.OutOfMemoryException):  # what is in use stays, and the engine says so
        connection.execute(f"SET memory_limit = '{EMPTYING_LIMIT}'")
    connection.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")


def wal_size(place: Place) -> int:
    """Bytes that the next opening has to replay."""
    return place.wal.stat().st_size if place.wal.exists() else 0


def fingerprint(place: Place) -> Fingerprint:
    """What tells one state of an index from another; only true while no writer is let in."""
    return _stamp(place.database), _stamp(place.wal), _stamp(place.codes)


def attachment(path: Path, alias: str, *options: str) -> str:
    """The statement that attaches a database file."""
    quoted = str(path).replace("'", "''")
    # A file keeps the size it was made with, and DuckDB refuses another.
    size = () if path.exists() else (f"BLOCK_SIZE {BLOCK_SIZE}",)
    # `latest` because zstd is unknown to the oldest format, which is the default.
    chosen = ", ".join(["STORAGE_VERSION 'latest'", *size, *options])
    return f"ATTACH '{quoted}' AS {alias} ({chosen})"


@contextmanager
def _attached(
    engine: duckdb.DuckDBPyConnection, file: Path, option: str, deadline: Deadline
) -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(engine.cursor()) as connection:
        _attach(connection, file, option, deadline)
        with ending(connection, "USE memory", "DETACH ix"):
            connection.execute("USE ix")
            try:
                yield connection
            finally:
                with suppress(duckdb.Error):  # mostly there is nothing to take back
                    connection.rollback()


def _attach(connection: duckdb.DuckDBPyConnection, file: Path, option: str, deadline: Deadline) -> None:
    begins = not file.exists()
    while True:
        try:
            connection.execute(attachment(file, "ix", option))
        except duckdb.IOException as error:
            # A program that does not know our locks, or a killed process whose locks vanish one by one.
            if "lock on file" not in str(error):
                raise _unattached(file, error, begins=begins) from error
        except duckdb.Error as error:
            raise _unattached(file, error, begins=begins) from error
        else:
            return
        deadline.pause()


@contextmanager
def _writing_engine(place: Place) -> Iterator[duckdb.DuckDBPyConnection]:
    """The engine of a pass; one that failed may still have the file attached, and is not used again."""
    used = _writer(place)
    try:
        yield used
    except BaseException:
        _writer.cache_clear()
        with suppress(duckdb.Error):
            used.close()
        raise


# Starting DuckDB costs 10 ms, attaching a file to it 1 ms: a pass starts it once, and attaches for each batch.
@lru_cache(maxsize=1)
def _writer(place: Place) -> duckdb.DuckDBPyConnection:
    made = engine(place, WRITER_THREADS)
    made.execute("PRAGMA disable_checkpoint_on_shutdown")
    made.execute(UNCOMPRESSED_FLOATS)
    return made


@contextmanager
def _reading_engine(place: Place) -> Iterator[duckdb.DuckDBPyConnection]:
    """An engine for one reader at a time: one that the last reader left, where there is one."""
    used = _taken(place) or engine(place, min(READER_THREADS, os.cpu_count() or 1))
    try:
        yield used
    except BaseException:
        used.close()
        raise
    _left.append((place, used))


def _taken(place: Place) -> duckdb.DuckDBPyConnection | None:
    for left in tuple(_left):
        if left[0] == place:
            with suppress(ValueError):  # another thread was faster
                _left.remove(left)
                return left[1]
    return None


def engine(place: Place, threads: int) -> duckdb.DuckDBPyConnection:
    """A database in memory that files are attached to; it installs and loads nothing by itself."""
    return duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": str(place.folder / SPILL),
            "threads": threads,
        },
    )


def _stamp(file: Path) -> Stamp | None:
    try:
        there = file.stat()
    except OSError:
        return None
    return there.st_ino, there.st_size, there.st_mtime_ns


def _not_indexed(place: Place) -> NotIndexed:
    return NotIndexed(f"{place.path} is not indexed yet.", hint="Run `lineage index` in it first.")


def _unattached(file: Path, error: duckdb.Error, *, begins: bool) -> LineageError:
    told = _told(file, error) or _damaged(file, error)
    if begins and isinstance(told, refusals.Refused):
        file.unlink(missing_ok=True)  # begun, and no database: it would count as a damaged one
    return told


def _told(file: Path, error: duckdb.Error) -> LineageError | None:
    """What a person is told of it; None for a program's mistake."""
    refused = refusals.told_by_engine(str(error), file) if isinstance(error, UNWRITTEN) else None
    if refused is None and isinstance(error, DAMAGE):
        return _damaged(file, error)
    return refused


def _damaged(file: Path, error: duckdb.Error) -> DamagedIndex:
    reason = str(error).splitlines()[0]
    return DamagedIndex(
        f"The index {file} cannot be opened: {reason}",
        hint="Run `lineage index --rebuild --yes` to make it anew.",
    )
