"""In-memory DuckDB instances that index files are attached to, with memory and thread limits.

An instance neither installs nor loads extensions by itself. Starting one takes 10 to 30 ms, so instances are reused.
The module also loads DuckDB extensions by path, and makes new files private (umask 077).
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeVar

import duckdb

from stores.errors import LineageError, OutOfMemory, from_memory_error
from stores.index_location import IndexLocation

# A batch needs a few megabytes, and a query the columns that it reads. What does not fit is written to the spill
# directory.
MEMORY_LIMIT: Final = "512MB"
# DuckDB keeps every block that it has read in memory, up to the memory limit. Setting this limit, which is lower than
# any use, flushes its cache. The operating system still has the pages, so reading them again is cheap.
CACHE_FLUSH_LIMIT: Final = "1MB"
SPILL_DIRECTORY: Final = "spill"
# Limits for work on whole tables, tried in this order. Copying an index took a third of 96 MB at 80,000 hunks and two
# thirds at 1,000,000; thousands of consecutive hunks of the maximum length, 57 KB each, need the second limit.
LOW_MEMORY_LIMITS: Final = ("96MB", "256MB", MEMORY_LIMIT)
# More threads do not make a batch faster, and the encoder uses the other cores.
WRITER_THREADS: Final = 1
READER_THREADS: Final = 4

# Instances without attached files, for the next readers. Dropping the oldest one closes it.
_idle_engines: Final[deque[tuple[IndexLocation, duckdb.DuckDBPyConnection]]] = deque(maxlen=4)

Result = TypeVar("Result")


class _PandasBlocker:
    """Import finder that reports pandas as missing without a search of `sys.path`.

    DuckDB tries to import pandas twice for each bound value, also for each value of a list. Python does not remember
    failed imports, so each value costs 0.2 ms. None in `sys.modules` would be shorter, but pyarrow takes it for pandas.
    """

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Raise ModuleNotFoundError for pandas; leave all other modules to the next finder."""
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)


if find_spec("pandas") is None:
    sys.meta_path.insert(0, _PandasBlocker)


@contextmanager
def open_writer_engine(location: IndexLocation) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield the instance for writing batches. If the body fails, close it, because the file may still be attached."""
    engine = _start_writer_engine(location)
    try:
        yield engine
    except BaseException:
        _start_writer_engine.cache_clear()
        with suppress(duckdb.Error):
            engine.close()
        raise


# Starting an instance takes 10 ms, attaching a file 1 ms: a run starts one, and attaches the index for each batch.
@lru_cache(maxsize=1)
def _start_writer_engine(location: IndexLocation) -> duckdb.DuckDBPyConnection:
    engine = start_engine(location, WRITER_THREADS)
    engine.execute("PRAGMA disable_checkpoint_on_shutdown")
    return engine


@contextmanager
def open_reader_engine(location: IndexLocation) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield an instance for one reader, an idle one if possible. If the body fails, close it."""
    engine = _take_idle_engine(location) or start_engine(location, min(READER_THREADS, os.cpu_count() or 1))
    try:
        yield engine
    except BaseException:
        engine.close()
        raise
    if _can_attach(engine):
        _idle_engines.append((location, engine))
    else:
        engine.close()


def _can_attach(engine: duckdb.DuckDBPyConnection) -> bool:
    """Return whether files can be attached to the instance; `sql` turns this off for good in those that it uses."""
    return bool(engine.execute("SELECT current_setting('enable_external_access')").fetchall()[0][0])


def _take_idle_engine(location: IndexLocation) -> duckdb.DuckDBPyConnection | None:
    for entry in tuple(_idle_engines):
        if entry[0] == location:
            with suppress(ValueError):  # another thread took it first
                _idle_engines.remove(entry)
                return entry[1]
    return None


def start_engine(location: IndexLocation, threads: int) -> duckdb.DuckDBPyConnection:
    """Start an in-memory instance, without files, that installs and loads no extensions by itself."""
    return duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": str(location.folder / SPILL_DIRECTORY),
            "threads": threads,
        },
    )


@contextmanager
def execute_finally(connection: duckdb.DuckDBPyConnection, *statements: str) -> Iterator[None]:
    """Execute the statements after the body. If the body fails, ignore errors of the statements."""
    try:
        yield
    except BaseException:
        for statement in statements:
            with suppress(duckdb.Error):
                connection.execute(statement)
        raise
    for statement in statements:
        connection.execute(statement)


def run_in_limited_memory(connection: duckdb.DuckDBPyConnection, work: Callable[[], Result]) -> Result:
    """Return the result of `work`, run with the lowest memory limit that suffices.

    `work` starts again with the next limit if it runs out of memory, so it must be repeatable.
    """
    *lower_limits, highest_limit = LOW_MEMORY_LIMITS
    for limit in lower_limits:
        try:
            with _limit_resources(connection, limit):
                return work()
        except duckdb.Error as error:
            if not isinstance(from_memory_error(error), OutOfMemory):
                raise
    with _limit_resources(connection, highest_limit):
        return work()


@contextmanager
def _limit_resources(connection: duckdb.DuckDBPyConnection, memory_limit: str) -> Iterator[None]:
    """Limit the instance to one thread and this much memory during the body, then restore its settings."""
    threads = connection.execute("SELECT current_setting('threads')").fetchall()[0][0]
    with execute_finally(connection, f"SET threads = {threads}", f"SET memory_limit = '{MEMORY_LIMIT}'"):
        connection.execute("SET threads = 1")
        connection.execute(f"SET memory_limit = '{memory_limit}'")
        yield


def empty_buffers(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop all cached blocks that are not in use."""
    with suppress(duckdb.OutOfMemoryException):  # raised if blocks are in use
        connection.execute(f"SET memory_limit = '{CACHE_FLUSH_LIMIT}'")
    connection.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")


# Each extension is a file in a wheel, loaded by its path. Loading takes about 0.1 s, and no answer needs an extension:
# `fts` is for statements of users, `vss` also for an HNSW index.
EXTENSIONS: Final = ("fts", "vss")


class MissingExtension(LineageError):
    """A DuckDB extension is not installed, or cannot be loaded."""


def load_extensions(connection: duckdb.DuckDBPyConnection, names: Iterable[str] = EXTENSIONS) -> None:
    """Load extensions into the connection's instance; raise MissingExtension if that fails."""
    for name in names:
        try:
            path_literal = str(_find_extension_file(name)).replace("'", "''")
            connection.execute(f"LOAD '{path_literal}'")
        except (StopIteration, metadata.PackageNotFoundError, duckdb.Error) as error:
            reason = str(error).splitlines()[0] if isinstance(error, duckdb.Error) else "it is not installed"
            distribution = f"duckdb-extension-{name}=={duckdb.__version__}"
            raise MissingExtension(
                f"DuckDB's extension {name} cannot be loaded: {reason}",
                hint=f"Run `pip install --force-reinstall {distribution}`.",
            ) from error


def try_extension(name: str) -> str:
    """Load an extension into a new instance and return its wheel's version; raise MissingExtension if that fails."""
    with duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"}) as connection:
        load_extensions(connection, [name])
    return metadata.version(f"duckdb-extension-{name}")


def _find_extension_file(name: str) -> Path:
    """Return the extension's file; raise StopIteration or PackageNotFoundError if there is none."""
    files = metadata.distribution(f"duckdb-extension-{name}").files or ()
    return next(Path(str(file.locate())) for file in files if file.suffix == ".duckdb_extension")


_umask_mutex: Final = threading.Lock()
# Number of threads inside `make_files_private`, and the umask to restore after the last one.
_umask_users = 0
_previous_umask = 0


@contextmanager
def make_files_private() -> Iterator[None]:
    """Make files created in the body accessible by their owner only, DuckDB's write-ahead log included.

    The umask belongs to the whole process: the first thread sets it, and the last one restores it.
    """
    global _umask_users, _previous_umask
    with _umask_mutex:
        if not _umask_users:
            _previous_umask = os.umask(0o077)
        _umask_users += 1
    try:
        yield
    finally:
        with _umask_mutex:
            _umask_users -= 1
            if not _umask_users:
                os.umask(_previous_umask)
