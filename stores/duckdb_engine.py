"""DuckDB's engines: databases in memory that index files are attached to, and how much of the machine they take.

An engine installs and loads nothing by itself. Starting one costs 10 to 30 ms, so those that were used are kept.

DuckDB's extensions as they are installed beside it: files inside wheels, loaded by path, never fetched.

Files that are made meanwhile are their owner's alone.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Final, TypeVar

import duckdb

from stores.index_location import Place

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

# Engines that readers left, with no file attached, for the next reader of the same place: starting one costs
# 10 to 30 ms. The oldest is dropped, and closes itself.
_left: Final[deque[tuple[Place, duckdb.DuckDBPyConnection]]] = deque(maxlen=4)

Made = TypeVar("Made")


@contextmanager
def writing_engine(place: Place) -> Iterator[duckdb.DuckDBPyConnection]:
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
    made = started(place, WRITER_THREADS)
    made.execute("PRAGMA disable_checkpoint_on_shutdown")
    made.execute(UNCOMPRESSED_FLOATS)
    return made


@contextmanager
def reading_engine(place: Place) -> Iterator[duckdb.DuckDBPyConnection]:
    """An engine for one reader at a time: one that the last reader left, where there is one."""
    used = _taken(place) or started(place, min(READER_THREADS, os.cpu_count() or 1))
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


def started(place: Place, threads: int) -> duckdb.DuckDBPyConnection:
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


def empty_buffers(connection: duckdb.DuckDBPyConnection) -> None:
    """Have the engine forget what it keeps of files, but for what is in use."""
    with suppress(duckdb.OutOfMemoryException):  # what is in use stays, and the engine says so
        connection.execute(f"SET memory_limit = '{EMPTYING_LIMIT}'")
    connection.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")


# Full text is compared with `fts` in tests only; `vss` serves indexes that are too large for memory.
EXTENSIONS: Final = ("fts", "vss")


@dataclass(frozen=True, slots=True)
class Extension:
    """An extension's wheel; `version` is None where none is installed, `fault` says why it cannot be loaded."""

    name: str
    version: str | None = None
    fault: str = ""

    @property
    def distribution(self) -> str:
        """The package it comes in, at the version this database takes."""
        return f"duckdb-extension-{self.name}=={duckdb.__version__}"


def installed(name: str) -> Extension:
    """The extension, loaded once into a database of its own to see whether it can be."""
    try:
        wheel = metadata.distribution(f"duckdb-extension-{name}")
    except metadata.PackageNotFoundError:
        return Extension(name)
    files = [Path(str(file.locate())) for file in wheel.files or () if file.suffix == ".duckdb_extension"]
    return Extension(name, wheel.version, _fault(files))


def _fault(files: list[Path]) -> str:
    if not files:
        return "its wheel holds no extension"
    quoted = str(files[0]).replace("'", "''")
    try:
        with duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"}) as connection:
            connection.execute(f"LOAD '{quoted}'")
    except duckdb.Error as error:
        return str(error).splitlines()[0]
    return ""


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
