"""Access to an index for reading or writing, with locks, migration, checkpoints and detection of damage.

Many readers or one writer can have the index open. `locks` enforces this, so DuckDB's own file locks never conflict.
If another process does not give up the lock, `index_copy` lets readers use a copy. Every connection belongs to an
in-memory database with the index file attached as `ix`, because DuckDB accepts a row group size only for an attached
file.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import duckdb

from stores import duckdb_engine, errors, index_location, locks, migrations
from stores.duckdb_engine import make_files_private
from stores.errors import LineageError, OutOfMemory, StorageError, ThreadLimitReached
from stores.index_location import IndexLocation
from stores.locks import Deadline
from stores.migrations import SCHEMA_VERSION

if TYPE_CHECKING:
    from stores.schema import Rows

logger = logging.getLogger(__name__)

# Time that a reader waits for the index. A batch holds it for about 60 ms, a migration of a large index for seconds.
READ_WAIT_SECONDS: Final = 10.0
# Time that a writer waits for the index, usually for one query of each reader. The limit is high, because a run that
# fails here may have worked for hours.
WRITE_WAIT_SECONDS: Final = 60.0

# A checkpoint merges row groups up to this size. At 60,000 vectors it took at most 0.3 s with 2,048, the minimum, and
# 1.5 s with DuckDB's default of 122,880.
ROW_GROUP_SIZE: Final = 2_048
# Bytes of a block. Each column that a batch writes takes a block in memory and on disk. DuckDB's default, 262,144,
# takes 15 MB more memory per batch and 2.5 MB more disk space at 5,000 commits; 16,384 takes 10 % more processor time.
BLOCK_SIZE: Final = 65_536
# Size of the write-ahead log that causes a checkpoint: one or two batches. A checkpoint takes 30 ms for one batch and
# 40 ms for two; each opening replays the log, at 7 ms per MB.
MAX_WAL_BYTES: Final = 2_000_000


class FileStamp(NamedTuple):
    """Inode, size and time of modification of a file. Each change of the file changes at least one of them."""

    inode: int
    size: int
    modified_ns: int


# Stamps of the database and its write-ahead log; None for a missing file. Each change of the index changes a stamp.
Fingerprint: TypeAlias = tuple[FileStamp | None, ...]

# Files that this process has attached. A file that is attached twice is listed twice.
_attached_files: Final[list[Path]] = []

# DuckDB's errors for a corrupt file.
_DAMAGE_ERRORS: Final = (
    duckdb.IOException,
    duckdb.FatalException,
    duckdb.InternalException,
    duckdb.SerializationException,
)
# Parts of DuckDB's messages about a block with a wrong checksum, and about a file that was cut off.
_RECORDED_PHRASES: Final = ("Corrupt database file", "Could not read enough bytes")
# Sentence that `fetchmany` puts before DuckDB's message.
_PREFIX: Final = r"(?:Invalid Input Error: Attempting to execute an unsuccessful [^\n]*\nError: )?"
# Matches DuckDB's message about damage, from its start: other messages can quote these words of a user's statement.
_DAMAGE_MESSAGE: Final = re.compile(
    rf"{_PREFIX}(IO Error: (?:{'|'.join(_RECORDED_PHRASES)})[^\n]*"
    r"|Invalid Input Error: ZSTD Decompression failed[^\n]*)"
)
# Matches the message that DuckDB sometimes reports in place of the error: one thread failed and interrupted another.
_LOST_MESSAGE: Final = re.compile(f"{_PREFIX}INTERRUPT Error")
REBUILD_HINT: Final = "Run `lineage index --rebuild --yes` to rebuild it."
# DuckDB's errors for a failed write.
_WRITE_ERRORS: Final = (duckdb.IOException, duckdb.TransactionException, duckdb.FatalException)


class NotIndexed(LineageError):
    """Error for a repository without an index, or with an index that has no tables."""


class DamagedIndex(LineageError):
    """Error for an index file that is corrupt, or is not a DuckDB database."""


class IndexDeleted(LineageError):
    """Error for an index that was deleted during an index run."""


# Errors of DuckDB as it raises them, and as `translate_errors` translates them.
ENGINE_ERRORS: Final = (duckdb.Error, DamagedIndex, StorageError, OutOfMemory, ThreadLimitReached)


@contextmanager
def open_for_reading(
    location: IndexLocation, *, wait: float = READ_WAIT_SECONDS
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the index read-only, at the last committed batch. No writer can open it until the body ends.

    An index with an older schema is migrated first, which takes seconds if the index is large. Raises NotIndexed,
    IndexBusy after `wait` seconds, MigrationFailed, NewerSchema, or the errors of `translate_errors`.
    """
    deadline = Deadline.for_index(location.folder, wait)
    with translate_errors(location), ExitStack() as stack:
        connection, schema_version = _open(stack, location, deadline)
        if schema_version < SCHEMA_VERSION:
            stack.close()
            _migrate(location, deadline)
            connection, _ = _open(stack, location, deadline)
        yield connection


def _open(
    stack: ExitStack, location: IndexLocation, deadline: Deadline
) -> tuple[duckdb.DuckDBPyConnection, int]:
    """Open the index for reading until the stack ends; return the connection and the index's schema version."""
    if not location.has_database():
        raise _build_not_indexed_error(location)
    stack.enter_context(locks.acquire_index(location.folder, exclusive=False, deadline=deadline))
    if not location.has_database():
        raise _build_not_indexed_error(location)
    _check_regular_files(location)
    check_recorded_damage(location)
    engine = stack.enter_context(duckdb_engine.open_reader_engine(location))
    connection = stack.enter_context(attach_index(engine, location.database, "READ_ONLY", deadline))
    schema_version = migrations.check_schema(connection)
    if not schema_version:
        raise _build_not_indexed_error(location)
    return connection, schema_version


def _migrate(location: IndexLocation, deadline: Deadline) -> None:
    """Migrate the index by opening it for writing; raise MigrationFailed if that fails."""
    try:
        with open_for_writing(location, wait=deadline.remaining_seconds):
            pass
    # DamagedIndex also means that the migration failed, because the index was readable just before.
    except (OSError, DamagedIndex, StorageError) as error:
        raise migrations.build_migration_error(SCHEMA_VERSION, str(error).splitlines()[0]) from error


@contextmanager
def open_for_writing(
    location: IndexLocation, *, wait: float = WRITE_WAIT_SECONDS, create: bool = True
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the index exclusively for one batch. Create it if `create` is true, and migrate it, if necessary.

    If the body fails, uncommitted changes are rolled back. Raises IndexBusy after `wait` seconds, IndexDeleted if there
    is no index and `create` is false, MigrationFailed, NewerSchema, or the errors of `translate_errors`.
    """
    if create:
        index_location.create_index_directory(location)
    elif not location.has_database():  # checked first, because locking would create files in the directory
        raise build_index_deleted_error(location)
    deadline = replace(
        Deadline.for_index(location.folder, wait),
        report_long_wait=lambda: _log_index_holder(location.folder, wait),
    )
    with (
        translate_errors(location),
        locks.acquire_index(location.folder, exclusive=True, deadline=deadline),
        make_files_private(),
    ):
        if not create and not location.has_database():
            raise build_index_deleted_error(location)
        _check_regular_files(location)
        check_recorded_damage(location)
        with (
            duckdb_engine.open_writer_engine(location) as engine,
            attach_index(
                engine, location.database, f"ROW_GROUP_SIZE {ROW_GROUP_SIZE}", deadline
            ) as connection,
        ):
            migrations.migrate(connection)
            yield connection
            checkpoint_wal(connection, location, MAX_WAL_BYTES)


def _log_index_holder(folder: Path, wait: float) -> None:
    """Log for which process this one waits to write the index."""
    if holder := locks.find_index_holder(folder):
        remedy = f" {holder.remedy}" if holder.is_suspended else ""
        logger.warning("The index is in use by %s. Waiting up to %.3g s for it.%s", holder, wait, remedy)


def build_index_deleted_error(location: IndexLocation) -> IndexDeleted:
    """Return the error for an index that was deleted during an index run."""
    return IndexDeleted(
        f"The index in {location.folder} was deleted during the index run.",
        hint="Run `lineage index` again.",
    )


def open_cursor(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Return another connection to an open index, for another thread. The caller closes it before the index."""
    cursor = connection.cursor()
    # A cursor does not inherit the database in use.
    cursor.execute("USE ix")
    return cursor


def fetch_int(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    """Return the single integer that the statement selects."""
    return int(connection.execute(sql).fetchall()[0][0])


def format_literals(values: Iterable[str | int]) -> str:
    """Return the values as a list of SQL literals for `IN`; `NULL`, which matches nothing, for no values.

    With bound parameters DuckDB could not skip row groups of other values, and binding takes 0.1 ms for each value.
    """
    literals = (
        "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value) for value in values
    )
    return ", ".join(literals) or "NULL"


@contextmanager
def register_tables(connection: duckdb.DuckDBPyConnection, **rows: Rows) -> Iterator[None]:
    """Let SQL statements in the body read the Arrow tables `rows`, each under the name of its argument."""
    with ExitStack() as names:
        for name, table in rows.items():
            connection.register(name, table)
            names.callback(_unregister, connection, name)
        yield


@contextmanager
def run_transaction(connection: duckdb.DuckDBPyConnection, **rows: Rows) -> Iterator[None]:
    """Run the body in a transaction. `rows`: as in `register_tables`."""
    with register_tables(connection, **rows):
        connection.execute("BEGIN")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            with suppress(duckdb.Error):  # the failure may have ended the transaction or the instance
                connection.execute("ROLLBACK")
            raise


def _unregister(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    with suppress(duckdb.Error):  # raised after a fatal DuckDB error, which the body has raised already
        connection.unregister(name)


@contextmanager
def translate_errors(location: IndexLocation, *, record_damage: bool = True) -> Iterator[None]:
    """Translate DuckDB's errors about damage, storage and memory into DamagedIndex, StorageError and OutOfMemory.

    An error whose message DuckDB lost becomes a StorageError. Other errors pass unchanged.

    `record_damage`: record a corrupt block in a file next to the index, so that each later opening of the same index
    file reports it. DuckDB itself finds a corrupt block only when it reads the block.
    """
    try:
        yield
    except (duckdb.Error, OSError) as error:
        # pyarrow raises DuckDB's errors as OSError, and `fetchmany` raises them as other classes.
        translated = _translate_error(location.database, error)
        if translated is None:
            raise
        if record_damage:
            _record_damage(location, translated)
        raise translated from error


def _record_damage(location: IndexLocation, error: LineageError) -> None:
    """Write the damage file if the error reports corruption. If that fails, a later command detects it again."""
    if any(phrase in error.message for phrase in _RECORDED_PHRASES):
        record = {"stamp": _get_file_stamp(location.database), "message": error.message, "hint": error.hint}
        with suppress(OSError):
            location.damage.touch(mode=0o600)
            location.damage.write_text(json.dumps(record), encoding="utf-8")


def _check_regular_files(location: IndexLocation) -> None:
    """Raise DamagedIndex if the database or a file next to it is a pipe, a directory, a broken link or the like."""
    for file in (location.database, location.wal, location.damage):
        if errors.is_special_file(file) or (file.is_symlink() and not file.exists()):
            raise DamagedIndex(f"{file} is no regular file.", hint=REBUILD_HINT)


def check_recorded_damage(location: IndexLocation) -> None:
    """Raise DamagedIndex if corruption was recorded for the index file and the file has not changed since."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        record = json.loads(location.damage.read_text(encoding="utf-8"))
        if record["stamp"] == list(_get_file_stamp(location.database) or ()):
            raise DamagedIndex(record["message"], hint=record["hint"])


def checkpoint_wal(
    connection: duckdb.DuckDBPyConnection, location: IndexLocation, max_bytes: int = 0
) -> bool:
    """Checkpoint the write-ahead log if it has more than `max_bytes`; return whether this was done."""
    if get_wal_size(location) <= max_bytes:
        return False
    connection.execute("CHECKPOINT")
    duckdb_engine.empty_buffers(connection)
    return True


def get_wal_size(location: IndexLocation) -> int:
    """Return the size of the write-ahead log in bytes, which the next opening has to replay."""
    return location.wal.stat().st_size if location.wal.exists() else 0


def compute_fingerprint(location: IndexLocation) -> Fingerprint:
    """Return a value that differs after every change of the index.

    Without the index lock, a writer may change the files between the two stamps.
    """
    return _get_file_stamp(location.database), _get_file_stamp(location.wal)


def build_attach_statement(path: Path, alias: str, *options: str) -> str:
    """Return the SQL statement that attaches the database file `path` under this alias.

    `options`: more options of ATTACH.
    """
    quoted_path = str(path).replace("'", "''")
    # The block size of an existing file cannot be changed: DuckDB raises an error.
    block_size = () if path.exists() else (f"BLOCK_SIZE {BLOCK_SIZE}",)
    # DuckDB's default storage version is the oldest one, which does not support zstd.
    all_options = ", ".join(["STORAGE_VERSION 'latest'", *block_size, *options])
    return f"ATTACH '{quoted_path}' AS {alias} ({all_options})"


@contextmanager
def attach_index(
    engine: duckdb.DuckDBPyConnection, file: Path, option: str, deadline: Deadline
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Attach the database file as `ix` until the body ends, and yield a connection that uses it.

    `option`: option of ATTACH. If another program has locked the file, retries until the deadline.
    """
    with closing(engine.cursor()) as connection:
        _attach_with_retry(connection, file, option, deadline)
        _attached_files.append(file)
        try:
            with duckdb_engine.execute_finally(connection, "USE memory", "DETACH ix"):
                connection.execute("USE ix")
                try:
                    yield connection
                finally:
                    with suppress(duckdb.Error):  # usually there is no open transaction
                        connection.rollback()
        finally:
            _attached_files.remove(file)


def is_attached(file: Path) -> bool:
    """Return whether this process has the file attached.

    If so, the process must not open and close the file itself, because closing any descriptor of the file releases
    DuckDB's locks.
    """
    return file in _attached_files


def _attach_with_retry(
    connection: duckdb.DuckDBPyConnection, file: Path, option: str, deadline: Deadline
) -> None:
    is_new = not file.exists()
    while True:
        try:
            connection.execute(build_attach_statement(file, "ix", option))
        except duckdb.IOException as error:
            # Another DuckDB client has the file open, or a killed process has not released all of its locks yet.
            if "lock on file" not in str(error):
                raise _build_attach_error(file, error, is_new=is_new) from error
        except duckdb.Error as error:
            raise _build_attach_error(file, error, is_new=is_new) from error
        else:
            return
        deadline.pause()


def _get_file_stamp(file: Path) -> FileStamp | None:
    """Return the stamp of a file; None if it does not exist or cannot be read."""
    try:
        status = file.stat()
    except OSError:
        return None
    return FileStamp(status.st_ino, status.st_size, status.st_mtime_ns)


def _build_not_indexed_error(location: IndexLocation) -> NotIndexed:
    return NotIndexed(f"{location.path} is not indexed yet.", hint="Run `lineage index` in it first.")


def _build_attach_error(file: Path, error: duckdb.Error, *, is_new: bool) -> LineageError:
    """Return the error for a file that cannot be attached. If the file is new, delete what DuckDB has written."""
    translated = _translate_error(file, error) or _build_damaged_index_error(file, error)
    if is_new and not isinstance(translated, DamagedIndex):
        file.unlink(missing_ok=True)  # the next opening would take the incomplete file for a damaged index
    return translated


def _translate_error(file: Path, error: duckdb.Error | OSError) -> LineageError | None:
    """Return the error to show for this error of DuckDB, or None if it is a bug."""
    if memory_error := errors.from_memory_error(error):
        return memory_error
    if isinstance(error, _WRITE_ERRORS) and (storage_error := errors.from_duckdb_error(str(error), file)):
        return storage_error
    if isinstance(error, _DAMAGE_ERRORS) or describes_damage(str(error)):
        return _build_damaged_index_error(file, error)
    if has_lost_message(str(error)):
        return StorageError(
            f"DuckDB failed while it used {file}, and did not report why.",
            hint="Run the command again. If it fails again, run `lineage doctor`.",
        )
    return None


def describes_damage(text: str) -> bool:
    """Return whether the text of an error of DuckDB reports a corrupt file."""
    return _DAMAGE_MESSAGE.match(text) is not None


def has_lost_message(text: str) -> bool:
    """Return whether DuckDB lost the message of an error, and reported this text instead."""
    return _LOST_MESSAGE.match(text) is not None


def reports_damage(file: Path, error: duckdb.Error) -> bool:
    """Return whether DuckDB's error reports a corrupt file, rather than a failed write, a lack of memory or a bug."""
    return isinstance(_translate_error(file, error), DamagedIndex)


def _build_damaged_index_error(file: Path, error: Exception) -> DamagedIndex:
    match = _DAMAGE_MESSAGE.match(str(error))
    reason = match[1] if match else str(error).splitlines()[0]
    return DamagedIndex(
        f"The index {file} cannot be read: {reason}",
        hint=REBUILD_HINT,
    )
