"""Open an index: many may read it or one may write a batch, and neither ever meets DuckDB's own locks.

Every connection belongs to a database in memory with the index file attached as `ix`, because only an
attached file can be given a row-group size. Nothing is ever installed or loaded from the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import duckdb

from stores import duckdb_engine, errors, index_location, locks, migrations
from stores.duckdb_engine import private
from stores.errors import LineageError
from stores.index_location import Place
from stores.locks import Deadline
from stores.types import SCHEMA_VERSION

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
    stack.enter_context(locks.entered(place.folder, exclusive=False, deadline=deadline))
    if not place.database.exists():
        raise _not_indexed(place)
    engine = stack.enter_context(duckdb_engine.reading_engine(place))
    connection = stack.enter_context(_attached(engine, place.database, "READ_ONLY", deadline))
    found = migrations.check(connection)
    if not found:
        raise _not_indexed(place)
    return connection, found


def _bring_forward(place: Place, deadline: Deadline) -> None:
    try:
        with writing(place, wait=deadline.left):
            pass
    except (OSError, DamagedIndex, errors.Refused) as error:  # it was opened for reading a moment ago
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
        index_location.claim(place)
    elif not place.database.exists():  # a lock file made now would keep its folder from being deleted
        raise gone(place)
    deadline = Deadline.after(wait)
    with sound(place), locks.entered(place.folder, exclusive=True, deadline=deadline), private():
        if not create and not place.database.exists():
            raise gone(place)
        with (
            duckdb_engine.writing_engine(place) as engine,
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


def settle(connection: duckdb.DuckDBPyConnection, place: Place, largest: int = 0) -> bool:
    """Leave at most this many bytes for the next opening to replay; says whether there were more."""
    if wal_size(place) <= largest:
        return False
    connection.execute("CHECKPOINT")
    duckdb_engine.empty_buffers(connection)
    return True


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
        with duckdb_engine.ending(connection, "USE memory", "DETACH ix"):
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
    if begins and isinstance(told, errors.Refused):
        file.unlink(missing_ok=True)  # begun, and no database: it would count as a damaged one
    return told


def _told(file: Path, error: duckdb.Error) -> LineageError | None:
    """What a person is told of it; None for a program's mistake."""
    refused = errors.told_by_engine(str(error), file) if isinstance(error, UNWRITTEN) else None
    if refused is None and isinstance(error, DAMAGE):
        return _damaged(file, error)
    return refused


def _damaged(file: Path, error: duckdb.Error) -> DamagedIndex:
    reason = str(error).splitlines()[0]
    return DamagedIndex(
        f"The index {file} cannot be opened: {reason}",
        hint="Run `lineage index --rebuild --yes` to make it anew.",
    )
