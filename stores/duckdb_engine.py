"""Engines: in-memory DuckDB instances to which index files are attached, with memory and thread limits.

An engine neither installs nor loads extensions by itself. Starting one takes 10 to 30 ms, so engines are reused.
The module also loads DuckDB extensions by path, and makes new files private (umask 077).
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import duckdb

from stores.errors import LineageError, OutOfMemory, from_memory_error
from stores.index_location import IndexLocation

if TYPE_CHECKING:
    import pyarrow as pa

# Memory limit of an engine. A batch needs a few megabytes, a query the columns that it reads. Data over the limit is
# written to the engine's spill directory.
MEMORY_LIMIT: Final = "512MB"
# Setting a memory limit this low for a moment drops the blocks that DuckDB keeps in memory after reading. The operating
# system still caches them, so reading them again is cheap.
CACHE_FLUSH_LIMIT: Final = "1MB"
SPILL_PREFIX: Final = "spill-"
# Matches the name of a spill directory, which has the id of its process.
_SPILL_NAME: Final = re.compile(rf"{SPILL_PREFIX}([0-9]{{1,9}})-[0-9a-f]+")
# Memory limits for work on whole tables, tried in this order. A copy of an index took a third of 96 MB at 80,000 hunks
# and two thirds at 1,000,000. Thousands of consecutive hunks of 57 KB need the second limit.
LOW_MEMORY_LIMITS: Final = ("96MB", "256MB", MEMORY_LIMIT)
# More threads do not make a batch faster, and the encoder uses the other cores.
WRITER_THREADS: Final = 1
READER_THREADS: Final = 4
MAX_READER_THREADS: Final = min(READER_THREADS, os.cpu_count() or 1)

# Engines without attached files, for the next readers. A fifth engine removes the oldest one, which closes it.
_idle_engines: Final[deque[tuple[IndexLocation, duckdb.DuckDBPyConnection]]] = deque(maxlen=4)

Result = TypeVar("Result")


class _PandasBlocker:
    """Import finder that reports pandas as missing without a search of `sys.path`.

    DuckDB tries to import pandas twice for each bound value, and for each value of a bound list. Python does not
    remember failed imports, so each value costs 0.2 ms. None in `sys.modules` would be shorter, but pyarrow takes it
    for pandas.
    """

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Raise ModuleNotFoundError for an import of pandas; leave everything else to the next finder."""
        # `importlib.util.find_spec`, which other libraries call, must return None. So only CPython's import
        # function gets an error. If CPython renames that function, imports of pandas are slow again.
        caller = sys._getframe(1).f_back  # noqa: SLF001 - Python documents it
        if name == "pandas" and caller and caller.f_code.co_name == "_find_and_load_unlocked":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)


if find_spec("pandas") is None:
    sys.meta_path.insert(0, _PandasBlocker)


@contextmanager
def open_writer_engine(location: IndexLocation) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield the engine for writing batches. If the body fails, close it, because the file may still be attached."""
    engine = _start_writer_engine(location)
    try:
        yield engine
    except BaseException:
        _start_writer_engine.cache_clear()
        with suppress(duckdb.Error):
            engine.close()
        raise


# Starting an engine takes 10 ms, attaching a file 1 ms. So a run starts one engine, and attaches the index when needed.
@lru_cache(maxsize=1)
def _start_writer_engine(location: IndexLocation) -> duckdb.DuckDBPyConnection:
    """Return the engine of this process for writing batches, started at the first call."""
    engine = start_engine(location, WRITER_THREADS)
    engine.execute("PRAGMA disable_checkpoint_on_shutdown")
    return engine


@contextmanager
def open_reader_engine(location: IndexLocation) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield an engine for one reader, an idle one if possible. If the body fails, close it."""
    engine = _take_idle_engine(location) or start_engine(location, MAX_READER_THREADS)
    try:
        yield engine
    except BaseException:
        engine.close()
        raise
    if _can_attach(engine):
        set_threads(engine, MAX_READER_THREADS)  # a reader may have lowered the number
        _idle_engines.append((location, engine))
    else:
        engine.close()


def set_threads(connection: duckdb.DuckDBPyConnection, threads: int) -> None:
    """Set the number of threads that an engine uses for all of its connections."""
    connection.execute(f"SET threads = {threads}")


def _can_attach(engine: duckdb.DuckDBPyConnection) -> bool:
    """Return whether files can be attached to the engine. `stores.sql` turns this off for good in its engines."""
    return bool(engine.execute("SELECT current_setting('enable_external_access')").fetchall()[0][0])


def _take_idle_engine(location: IndexLocation) -> duckdb.DuckDBPyConnection | None:
    """Remove an idle engine of this location from the list and return it; None if there is none."""
    for entry in tuple(_idle_engines):
        if entry[0] == location:
            with suppress(ValueError):  # another thread took it first
                _idle_engines.remove(entry)
                return entry[1]
    return None


def start_engine(location: IndexLocation, threads: int) -> duckdb.DuckDBPyConnection:
    """Start an engine without attached files. It spills to a directory of its own in that of the index at `location`.

    Engines with the same spill directory would overwrite each other's files.
    """
    return duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": build_spill_path(location.folder),
            "threads": threads,
        },
    )


def build_spill_path(folder: Path) -> str:
    """Return the path of a new spill directory in an index directory. DuckDB creates it when it spills."""
    return str(folder / f"{SPILL_PREFIX}{os.getpid()}-{os.urandom(8).hex()}")


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
    """Return the result of `work`, run with the lowest of `LOW_MEMORY_LIMITS` that suffices.

    If `work` runs out of memory, it is called again with the next limit, so it must be repeatable.
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
    """Limit the engine to one thread and this much memory during the body, then restore its settings."""
    threads = connection.execute("SELECT current_setting('threads')").fetchall()[0][0]
    with execute_finally(connection, f"SET threads = {threads}", f"SET memory_limit = '{MEMORY_LIMIT}'"):
        connection.execute("SET threads = 1")
        connection.execute(f"SET memory_limit = '{memory_limit}'")
        yield


def empty_buffers(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop the blocks that DuckDB has cached in memory and that are not in use."""
    with suppress(duckdb.OutOfMemoryException):  # raised if blocks are in use
        connection.execute(f"SET memory_limit = '{CACHE_FLUSH_LIMIT}'")
    connection.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")


# DuckDB extensions, each a file in its own wheel. Loading one takes about 0.1 s. SQL statements of users need both, and
# the optional HNSW index needs `vss`.
EXTENSIONS: Final = ("fts", "vss")


class MissingExtension(LineageError):
    """Error for a DuckDB extension that is not installed or cannot be loaded."""


def load_extensions(connection: duckdb.DuckDBPyConnection, names: Iterable[str] = EXTENSIONS) -> None:
    """Load extensions into the connection's engine; raise MissingExtension if that fails."""
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
    """Load an extension into a new engine and return its wheel's version; raise MissingExtension if that fails."""
    with duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"}) as connection:
        load_extensions(connection, [name])
    return metadata.version(f"duckdb-extension-{name}")


def _find_extension_file(name: str) -> Path:
    """Return the extension's file; raise StopIteration or PackageNotFoundError if there is none."""
    files = metadata.distribution(f"duckdb-extension-{name}").files or ()
    return next(Path(str(file.locate())) for file in files if file.suffix == ".duckdb_extension")


def find_leftover_spill_directories(folder: Path) -> list[Path]:
    """Return the spill directories in an index directory whose processes have ended without deleting them."""
    return [path for path in sorted(folder.glob(f"{SPILL_PREFIX}*")) if not _is_used(path)]


def _is_used(spill_directory: Path) -> bool:
    """Return whether the process of a spill directory is running."""
    match = _SPILL_NAME.fullmatch(spill_directory.name)
    if match is None:
        return False
    try:
        os.kill(int(match[1]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # a process of another user
        return True
    return True


def read_batches(
    connection: duckdb.DuckDBPyConnection, sql: str, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a statement in batches of about `batch_rows`, without holding all of them in memory."""
    try:
        yield from connection.execute(sql).to_arrow_reader(batch_rows)
    except OSError as error:
        if error.errno is None:
            # pyarrow raises DuckDB's errors as OSError, some without the cause. Reading again raises the cause itself.
            rows = connection.execute(sql)
            while rows.fetchmany(batch_rows):
                pass
        raise


_umask_mutex: Final = threading.Lock()
# Number of threads inside `make_files_private`, and the umask to restore after the last one.
_umask_users = 0
_previous_umask = 0


@contextmanager
def make_files_private() -> Iterator[None]:
    """Make files created in the body accessible by their owner only, including DuckDB's write-ahead log.

    The umask belongs to the whole process. If several threads use this at once, the first thread that
    enters sets the umask, and the last one that leaves restores it.
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
