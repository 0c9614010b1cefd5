"""Reading of an index, or of a private copy of its files if another process holds the index for long.

A process that is suspended (Ctrl-Z, SIGSTOP) or gets no processor time keeps its locks. Readers then copy the files of
the index and read the copy. DuckDB opens the copy as it opens an index after a crash, with all committed transactions.
"Reading a copy" in README.md says why this works even while the other process writes.
"""

from __future__ import annotations

import fcntl
import logging
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb

from stores import database, duckdb_engine, locks, migrations
from stores.database import READ_WAIT_SECONDS, DamagedIndex, Fingerprint
from stores.errors import LineageError, StorageError
from stores.index_location import DATABASE_FILE, IndexLocation
from stores.locks import Deadline, IndexBusy, LockHolder
from stores.migrations import SCHEMA_VERSION

# Seconds to wait for the index before each copy. A write of an index run normally holds the index for 60 ms.
COPY_AFTER_SECONDS: Final = 1.0
# Size of the headers at the start of the database file: a main header and two database headers. A checkpoint takes
# effect when it overwrites a database header, so unchanged headers show that none did during the copy.
HEADER_BYTES: Final = 3 * 4_096
# Bytes that are copied between two checks of the deadline.
CHUNK_BYTES: Final = 16_000_000
# Disk space that stays free for other programs.
MIN_FREE_BYTES: Final = 100_000_000
DIRECTORY_PREFIX: Final = "copy-"
LOCK_FILE: Final = "copy.lock"
# Age in seconds at which an unlocked directory counts as a leftover. A younger directory may be new, and its process
# about to lock it.
MIN_LEFTOVER_SECONDS: Final = 10.0

logger = logging.getLogger(__name__)


class CopyFailed(Exception):
    """Error for a failed attempt to copy an index; its text is the reason."""


class CopyUnusable(CopyFailed):
    """Error for a copy that cannot be used, because of a problem that a new copy would have, too."""


@dataclass(frozen=True, slots=True)
class IndexHolder:
    """Process that holds an index while readers read a copy of it.

    `process`: id, command and state of the process; None if unknown. `is_index_run`: True for an index run.
    """

    process: LockHolder | None
    is_index_run: bool

    @classmethod
    def find(cls, folder: Path) -> IndexHolder:
        """Return the process that keeps readers from opening the index in this directory."""
        process = locks.find_index_holder(folder)
        run_pids = {run.pid for run in locks.find_lock_holders(folder / locks.RUN_LOCK)}
        return cls(process, process is not None and process.pid in run_pids)

    @property
    def remedy(self) -> str:
        """Advice for a suspended process: the commands that continue or end it; empty if it is not suspended."""
        return self.process.remedy if self.process and self.process.is_suspended else ""

    def __str__(self) -> str:
        if self.process is None:
            return "another process"
        if not self.is_index_run:
            return str(self.process)
        suffix = ", suspended" if self.process.is_suspended else ""
        return f"an index run (process {self.process.pid}{suffix})"


@dataclass(slots=True)
class OpenIndex:
    """Connection for reading an index, and the fingerprint of the state that it reads.

    `holder`: the process that holds the index, if the connection reads a copy; else None. `has_failed`: True after one
    of `database.ENGINE_ERRORS` inside `translate_errors`. Then the connection must not be used for further reads.
    """

    location: IndexLocation
    connection: duckdb.DuckDBPyConnection
    fingerprint: Fingerprint
    holder: IndexHolder | None = None
    has_failed: bool = False

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Translate errors with `database.translate_errors`, but raise IndexBusy if a copy is damaged."""
        try:
            with database.translate_errors(self.location, record_damage=self.holder is None):
                yield
        except database.ENGINE_ERRORS as error:
            self.has_failed = True
            if self.holder is None or not isinstance(error, DamagedIndex):
                raise
            # The copy can be damaged although the index is not. A reader of the index itself would report damage.
            raise IndexBusy(
                f"The index is in use by {self.holder}, and a copy of it cannot be read.",
                hint=self.holder.remedy or "Try again when it has ended.",
            ) from error


@contextmanager
def open_index_or_copy(location: IndexLocation, *, wait: float = READ_WAIT_SECONDS) -> Iterator[OpenIndex]:
    """Open the index for reading, or a copy if another process holds the index for COPY_AFTER_SECONDS.

    `wait`: seconds to wait for the index or a copy. If it is at most COPY_AFTER_SECONDS, no copy is made. A
    copy with another schema is not used. Raises the errors of `database.open_for_reading`.
    """
    deadline = Deadline.for_index(location.folder, wait)
    with ExitStack() as stack:
        index = _open(stack, location, deadline)
        with index.translate_errors():
            yield index


def _open(stack: ExitStack, location: IndexLocation, deadline: Deadline) -> OpenIndex:
    """Open the index or a copy; the stack closes it. Until the deadline, both are tried in turn."""
    copy_failure, wait_before_copy = "", COPY_AFTER_SECONDS
    while True:
        try:
            connection = stack.enter_context(
                database.open_for_reading(location, wait=min(wait_before_copy, deadline.remaining_seconds))
            )
            return OpenIndex(location, connection, database.compute_fingerprint(location))
        except IndexBusy as error:
            if not deadline.remaining_seconds:
                raise _build_busy_error(deadline, copy_failure) from error
        try:
            return _open_copy(stack, location, deadline)
        except CopyFailed as error:
            copy_failure = str(error)
            if isinstance(error, CopyUnusable):
                wait_before_copy = math.inf  # wait for the index itself until the deadline


def _build_busy_error(deadline: Deadline, copy_failure: str) -> LineageError:
    """Return the error for an index that is still busy. `copy_failure`: why the last copy failed, if any."""
    error = deadline.build_timeout_error(deadline.seconds)
    if not copy_failure:
        return error
    return IndexBusy(f"{error.message} The index cannot be copied: {copy_failure}.", hint=error.hint)


def _open_copy(stack: ExitStack, location: IndexLocation, deadline: Deadline) -> OpenIndex:
    """Copy the index, and open the copy; the stack closes it.

    The copied files are deleted as soon as DuckDB has opened them. The system keeps deleted files readable until they
    are closed.
    """
    database.check_recorded_damage(location)
    holder, started_at = IndexHolder.find(location.folder), time.monotonic()
    fingerprint = database.compute_fingerprint(location)
    try:
        with create_copy_directory(location.folder) as directory, ExitStack() as copy_stack:
            copied_bytes = copy_files(location, directory, deadline)
            engine = copy_stack.enter_context(duckdb_engine.open_reader_engine(location))
            connection = copy_stack.enter_context(
                database.attach_index(engine, directory / DATABASE_FILE, "READ_ONLY", deadline)
            )
            if migrations.check_schema(connection) != SCHEMA_VERSION:
                raise CopyUnusable("it has another schema")
            stack.enter_context(copy_stack.pop_all())
    except OSError as error:
        raise CopyFailed(error.strerror or str(error)) from error
    except (duckdb.Error, DamagedIndex, StorageError) as error:
        raise CopyFailed("its files are incomplete") from error
    seconds = time.monotonic() - started_at
    logger.info("event=index_copied bytes=%d seconds=%.3f holder=%s", copied_bytes, seconds, holder)
    return OpenIndex(location, connection, fingerprint, holder)


def copy_files(location: IndexLocation, directory: Path, deadline: Deadline) -> int:
    """Copy the database and its write-ahead log into the directory; return the number of bytes.

    Raises CopyFailed after the deadline, for a lack of disk space, if this process reads the index, or if the index
    changed and the copy may be inconsistent.
    """
    # By a rule of POSIX, a process that closes any descriptor of a file loses all its locks on it, here DuckDB's.
    if database.is_attached(location.database):
        raise CopyFailed("this process is reading it")
    with open_descriptor(location.database) as source:
        header = os.pread(source, HEADER_BYTES, 0)
        copied_bytes = 0
        # The log is copied first: a log that is newer than the copied database file may refer to blocks that it lacks.
        with suppress(FileNotFoundError), open_descriptor(location.wal) as log:
            copied_bytes = _copy_file(log, directory / location.wal.name, deadline)
        copied_bytes += _copy_file(source, directory / DATABASE_FILE, deadline)
        if os.pread(source, HEADER_BYTES, 0) != header or not os.path.samestat(
            os.fstat(source), location.database.stat()
        ):
            raise CopyFailed("it changed during the copy")
    return copied_bytes


def open_descriptor(file: Path) -> AbstractContextManager[int]:
    """Open the file for reading. The returned context manager yields the descriptor, and closes it."""
    return locks.close_finally(os.open(file, os.O_RDONLY))


def _copy_file(source: int, target_file: Path, deadline: Deadline) -> int:
    """Copy the file with the descriptor `source` to a new file; return its size in bytes. Raises CopyFailed."""
    size = os.fstat(source).st_size
    if shutil.disk_usage(target_file.parent).free < size + MIN_FREE_BYTES:
        raise CopyFailed("the disk has too little free space")
    offset = 0
    with locks.close_finally(os.open(target_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)) as target:
        while offset < size:
            if not deadline.remaining_seconds:
                raise CopyFailed("the copy takes too long")
            copied_bytes = _copy_chunk(source, target, min(CHUNK_BYTES, size - offset), offset)
            if not copied_bytes:
                raise CopyFailed("it changed during the copy")
            offset += copied_bytes
    return size


def _copy_chunk(source: int, target: int, size: int, offset: int) -> int:
    """Copy up to `size` bytes at an offset; return the number of copied bytes.

    On Linux, both files share the blocks on disk if the file system supports it.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # some file systems raise an error, others copy nothing
            if copied_bytes := os.copy_file_range(source, target, size, offset, offset):
                return copied_bytes
    return os.pwrite(target, os.pread(source, size, offset), offset)


@contextmanager
def create_copy_directory(folder: Path) -> Iterator[Path]:
    """Yield a new private directory in the index directory, for a copy. First delete directories of ended processes.

    The new directory is deleted at the end. A lock file in it shows other processes that it is in use.
    """
    for leftover in find_leftover_directories(folder):
        shutil.rmtree(leftover, ignore_errors=True)
    directory = Path(tempfile.mkdtemp(prefix=DIRECTORY_PREFIX, dir=folder))
    try:
        # Later, another process may take the directory for a leftover and delete it.
        with locks.acquire_exclusive_lock(directory / LOCK_FILE, Deadline.after(MIN_LEFTOVER_SECONDS)):
            yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def find_leftover_directories(folder: Path) -> list[Path]:
    """Return the directories of copies whose process has ended without deleting them."""
    return [
        directory for directory in sorted(folder.glob(f"{DIRECTORY_PREFIX}*")) if not _is_in_use(directory)
    ]


def _is_in_use(directory: Path) -> bool:
    """Return whether a process uses the directory of a copy, or may be about to do so."""
    try:
        if time.time() - directory.stat().st_mtime < MIN_LEFTOVER_SECONDS:
            return True
        with open_descriptor(directory / LOCK_FILE) as descriptor:
            return not locks.try_lock(descriptor, fcntl.LOCK_SH)
    except OSError:
        return False
