"""Maintenance of indexes: compaction, integrity check, deletion of an index and of leftover files.

- Compaction copies an index into a new file if much of its file is free or many postings are unsorted. Batches leave
  small row groups, uncompressed floats, free blocks and unsorted postings; the copy has none of them. Readers continue
  meanwhile. The copy replaces the index in one rename, so there is an intact file even if the process is killed.
- The integrity check reads every block, whose checksum DuckDB verifies, and compares the tables. The transactions
  of this program keep the tables consistent, so a contradiction means that another program wrote to the file.
- Leftover files are temporary files of killed programs in the index directories under LINEAGE_HOME.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import duckdb

from stores import (
    database,
    duckdb_engine,
    embedding_cache,
    index_copy,
    index_location,
    locks,
    migrations,
    schema,
)
from stores.database import READ_WAIT_SECONDS, WRITE_WAIT_SECONDS
from stores.duckdb_engine import find_leftover_spill_directories, make_files_private
from stores.index_location import DATABASE_FILE, GIT_DIRECTORY, LOCATION_FILE, IndexLocation
from stores.locks import Deadline

# An index is compacted if its free blocks exceed both limits. A copy takes about 25 ms per megabyte, too much for a few
# free blocks.
MAX_FREE_SHARE: Final = 0.15
MAX_FREE_BYTES: Final = 4_000_000
# It is also compacted if its tail, the hunks since the last compaction, exceeds both limits, because a word query scans
# all postings of the tail. As one limit is a share of the hunks, compaction becomes rarer as the index grows.
MAX_TAIL_SHARE: Final = 0.25
MIN_TAIL_HUNKS: Final = 5_000
# Rows of a row group: enough to compress well, and few enough for two threads to share the vectors of a small index.
# Twice as many rows save 2 % of the file, but the copy takes twice the memory.
COMPACT_ROW_GROUP_SIZE: Final = 8_192
# Rows that one statement copies. They limit its memory: copying each whole table by one statement took 580 MB at 67,000
# hunks.
COPY_SLICE_ROWS: Final = COMPACT_ROW_GROUP_SIZE
# Postings that one statement sorts and copies.
SORT_SLICE_ROWS: Final = 1_000_000

TEMP_FILE: Final = f"{DATABASE_FILE}.draft"
# Files that contained the vectors of a large index before schema 4.
_OLD_VECTOR_FILES: Final = f"{DATABASE_FILE}.codes*"

# Order of the copied postings. Rows of the other tables keep their order.
_POSTINGS_ORDERS: Final = {
    "hunk_postings": "ORDER BY term_id, hunk_id",
    "symbol_postings": "ORDER BY term_id, hunk_id",
    "head_postings": "ORDER BY term_id, symbol_id",
}
# Digests of texts that no hunk or message has any more, because their commits were replaced. They are stored
# in a table, because each slice of vectors needs them and the query reads all digests of the index.
_CREATE_UNUSED_TEXTS: Final = """
CREATE TABLE memory.unused_texts AS
SELECT text_digest
FROM ix.vectors
ANTI JOIN (SELECT text_digest FROM ix.hunks UNION ALL SELECT message_digest FROM ix.commits) USING (text_digest)"""
# Vectors of unused texts are not copied. The other vectors are sorted by row id, because a join changes their order.
_ROW_FILTERS: Final = {"vectors": "ANTI JOIN memory.unused_texts USING (text_digest)"}
_ROW_ORDERS: Final = _POSTINGS_ORDERS | {"vectors": "ORDER BY vectors.rowid"}
# Highest term id of each slice of postings.
_SLICE_ENDS: Final = """
SELECT max(term_id)
FROM (
    SELECT term_id, sum(count(*)) OVER (ORDER BY term_id) // {rows} AS slice FROM ix.{table} GROUP BY term_id
)
GROUP BY slice
ORDER BY slice"""
# Number of hunks since the last compaction, and number of all hunks.
_COUNT_TAIL: Final = """
SELECT coalesce(max(hunk_id) + 1, 0) - any_value(clustered_hunks), coalesce(max(hunk_id) + 1, 0)
FROM repository LEFT JOIN hunks ON TRUE"""


def compact_if_needed(location: IndexLocation, *, wait: float = WRITE_WAIT_SECONDS) -> bool:
    """Checkpoint the index, and compact it if much of it is free or unsorted; return whether it was compacted.

    Call this while holding the run lock. Raises IndexDeleted if the index was deleted, and IndexBusy after `wait`
    seconds.
    """
    _delete_temp_files(location.folder / TEMP_FILE)
    for path in (*location.folder.glob(_OLD_VECTOR_FILES), *find_leftover_spill_directories(location.folder)):
        _delete(path)
    with database.open_for_writing(location, wait=wait, create=False) as connection:
        database.checkpoint_wal(connection, location)
        is_needed = _has_long_tail(connection) or _has_free_blocks(connection)
    if is_needed:
        compact(location, wait=wait)
    return is_needed


def compact(location: IndexLocation, *, wait: float = WRITE_WAIT_SECONDS) -> None:
    """Replace the database file with a compact copy, unless another process writes to it meanwhile.

    `wait`: seconds to wait for the index in each writing step. Raises IndexBusy.
    """
    temp_file = location.folder / TEMP_FILE
    with database.open_for_writing(location, wait=wait, create=False) as connection:
        database.checkpoint_wal(connection, location)
    with database.open_for_reading(location, wait=READ_WAIT_SECONDS) as connection, make_files_private():
        fingerprint = database.compute_fingerprint(location)
        try:
            duckdb_engine.run_in_limited_memory(connection, partial(_copy, connection, temp_file))
        except BaseException:
            _delete_temp_files(temp_file)  # the disk may be full
            raise
    index_location.fsync_file(temp_file)
    with locks.acquire_index(
        location.folder, exclusive=True, deadline=Deadline.for_index(location.folder, wait)
    ):
        # Discard the copy if the index was written to after `fingerprint` was computed.
        if database.compute_fingerprint(location) == fingerprint and not database.get_wal_size(location):
            location.wal.unlink(missing_ok=True)
            temp_file.replace(location.database)
    _delete_temp_files(temp_file)


def _delete_temp_files(temp_file: Path) -> None:
    """Delete an unfinished copy and its write-ahead log."""
    for file in (temp_file, temp_file.with_name(f"{temp_file.name}.wal")):
        file.unlink(missing_ok=True)


def _copy(connection: duckdb.DuckDBPyConnection, temp_file: Path) -> None:
    """Copy all tables of the open index into a new database file."""
    _delete_temp_files(temp_file)
    with _attach(connection, temp_file):
        connection.execute(_CREATE_UNUSED_TEXTS)
        # This runs on one thread. Two took a quarter less time (1 % of an index run) and 30 MB more memory.
        for table in schema.TABLES:
            _copy_table(connection, table)
        connection.execute(
            "UPDATE fresh.repository SET clustered_hunks = (SELECT coalesce(max(hunk_id) + 1, 0) FROM ix.hunks)"
        )
        connection.execute("CHECKPOINT fresh")


@contextmanager
def _attach(connection: duckdb.DuckDBPyConnection, temp_file: Path) -> Iterator[None]:
    """Attach the temporary file as `fresh` until the body ends, and create empty tables in it."""
    connection.execute(
        database.build_attach_statement(temp_file, "fresh", f"ROW_GROUP_SIZE {COMPACT_ROW_GROUP_SIZE}")
    )
    with duckdb_engine.execute_finally(
        connection, "DETACH fresh", "DROP TABLE IF EXISTS memory.unused_texts"
    ):
        connection.execute("USE fresh")
        with duckdb_engine.execute_finally(connection, "USE ix"):  # the default database cannot be detached
            connection.execute(migrations.load_tables_sql())
        yield


def _copy_table(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Copy the rows of one table from `ix` to `fresh`."""
    row_filter, row_order = _ROW_FILTERS.get(table, ""), _ROW_ORDERS.get(table, "")
    for condition in _split_into_slices(connection, table):
        connection.execute(
            f"INSERT INTO fresh.{table} SELECT * FROM ix.{table} {row_filter} WHERE {condition} {row_order}"
        )


def _split_into_slices(connection: duckdb.DuckDBPyConnection, table: str) -> Iterator[str]:
    """Yield SQL conditions that divide the table into slices: postings by term ids, other tables by row ids."""
    if table in _POSTINGS_ORDERS:
        first = 0
        for (last,) in connection.execute(_SLICE_ENDS.format(table=table, rows=SORT_SLICE_ROWS)).fetchall():
            yield f"term_id BETWEEN {first} AND {last}"
            first = last + 1
        return
    [(rows,)] = connection.execute(f"SELECT coalesce(max(rowid) + 1, 0) FROM ix.{table}").fetchall()
    for first in range(0, rows, COPY_SLICE_ROWS):
        yield f"rowid >= {first} AND rowid < {first + COPY_SLICE_ROWS}"


def _has_long_tail(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether the tail exceeds MIN_TAIL_HUNKS and MAX_TAIL_SHARE."""
    row = connection.execute(_COUNT_TAIL).fetchone()
    if row is None or row[0] is None:
        return False
    tail, hunks = row
    return bool(tail > MIN_TAIL_HUNKS and tail > MAX_TAIL_SHARE * hunks)


def _has_free_blocks(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether the free blocks exceed MAX_FREE_BYTES and MAX_FREE_SHARE."""
    sql = "SELECT free_blocks * block_size, total_blocks * block_size FROM pragma_database_size()"
    free, total = connection.execute(f"{sql} WHERE database_name = 'ix'").fetchall()[0]
    return bool(free > MAX_FREE_BYTES and free > MAX_FREE_SHARE * total)


# Queries that count the rows which violate an invariant. The keys describe the violations in reports.
_VIOLATION_QUERIES: Final = {
    "hunks without a commit": "SELECT count(*) FROM hunks ANTI JOIN commits USING (commit_sha)",
    # An index run that has not finished may still have to embed texts.
    "hunks without a vector": "SELECT count(*) FROM hunks ANTI JOIN vectors USING (text_digest)"
    " WHERE (SELECT completed_commit = last_indexed_commit FROM repository)",
    "duplicate commits": "SELECT count(*) - count(DISTINCT commit_sha) FROM commits",
    "duplicate hunk ids": "SELECT count(*) - count(DISTINCT hunk_id) FROM hunks",
    "duplicate vectors": "SELECT count(*) - count(DISTINCT text_digest) FROM vectors",
    "word postings without a hunk": "SELECT count(*) FROM hunk_postings ANTI JOIN hunks USING (hunk_id)",
    "name postings without a hunk": "SELECT count(*) FROM symbol_postings ANTI JOIN hunks USING (hunk_id)",
    "hunk symbols without a hunk": "SELECT count(*) FROM hunk_symbols ANTI JOIN hunks USING (hunk_id)",
    "HEAD postings without a symbol": """
        SELECT count(*) FROM head_postings ANTI JOIN head_symbols USING (symbol_id)""",
    "word postings without a term": "SELECT count(*) FROM hunk_postings ANTI JOIN terms USING (term_id)",
    "hunks with a wrong word count": """
        SELECT count(*) FROM hunks LEFT JOIN (
            SELECT hunk_id, sum(frequency) AS counted FROM hunk_postings GROUP BY hunk_id
        ) USING (hunk_id) WHERE word_count != coalesce(counted, 0)""",
}


def read_all_rows(connection: duckdb.DuckDBPyConnection) -> int:
    """Read every value; return the number of rows. For a damaged block, DuckDB raises an error."""
    return sum(_read_table(connection, table) for table in schema.TABLES)


def find_broken_invariants(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Return the number of rows that violate each broken invariant, by its description; empty for an intact index."""
    counts = {
        description: int(connection.execute(sql).fetchall()[0][0])
        for description, sql in _VIOLATION_QUERIES.items()
    }
    return {description: count for description, count in counts.items() if count}


def _read_table(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    """Read every value of one table; return the number of rows."""
    # A hash needs every value. DuckDB would take counts, minima and maxima from its statistics.
    columns = ", ".join(f"bit_xor(hash({column}))" for column in schema.TABLES[table].names)
    row = connection.execute(f"SELECT count(*), {columns} FROM {table}").fetchone()
    return int(row[0]) if row else 0


# Directory names that `index_location` generates.
_REPO_ID: Final = re.compile(r"[A-Za-z0-9_-]+-[0-9a-f]{16}")
# Patterns of temporary files, which are not needed after the program that wrote them has ended.
_LEFTOVER_PATTERNS: Final = (
    f"{TEMP_FILE}*",
    f"{embedding_cache.TEMP_FILE}*",
    f"{LOCATION_FILE}.*",
    f"{GIT_DIRECTORY}/info/*.lock",
    f"{GIT_DIRECTORY}/info/tmp_*",
)
LOCK_SUFFIX: Final = ".lock"


def list_index_directories(home: Path) -> Iterator[IndexLocation]:
    """Yield the directories under `home` that are named like index directories, even if they have no index.

    The `path` of these locations is the directory itself, because the repository is not looked up.
    """
    for folder in sorted(home.glob("*")):
        if _REPO_ID.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
            yield IndexLocation(home, folder.name, folder, None)


def is_empty_directory(folder: Path) -> bool:
    """Return whether an index directory has nothing but lock files, a commit-graph, spilled blocks and leftover copies.

    Raises PermissionError if the directory cannot be listed or its files cannot be opened.
    """
    os.stat(f"{folder}/.")  # noqa: PTH116 - Path removes the dot, which needs the permission to open files
    names = {path.name for path in folder.iterdir()}
    names -= {path.name for path in _find_leftover_directories(folder)}
    return all(name == GIT_DIRECTORY or name.endswith(LOCK_SUFFIX) for name in names)


def _find_leftover_directories(folder: Path) -> list[Path]:
    return index_copy.find_leftover_directories(folder) + find_leftover_spill_directories(folder)


def find_leftover_files(location: IndexLocation) -> list[Path]:
    """Return temporary files and directories of an index. They are leftovers if no index run is in progress."""
    files = [path for pattern in _LEFTOVER_PATTERNS for path in sorted(location.folder.glob(pattern))]
    files += _find_leftover_directories(location.folder)
    if location.wal.exists() and not location.database.exists():
        files.append(location.wal)
    return files


def delete_leftover_files(location: IndexLocation) -> None:
    """Delete what `find_leftover_files` returns; raise RunInProgress if an index run is in progress."""
    with locks.acquire_run_lock(location):
        for path in find_leftover_files(location):
            _delete(path)


def delete_index(location: IndexLocation, *, wait: float = WRITE_WAIT_SECONDS) -> None:
    """Delete an index: the database, its write-ahead log and the files that belong to them.

    The embedding cache stays, and so do lock files, because other processes may hold them. Raises IndexBusy
    after `wait` seconds, and ForeignFolder if the directory is a symlink or not a direct child of
    `location.home`.
    """
    index_location.check_index_directory(location)
    if not location.folder.exists():
        return
    with locks.acquire_index(
        location.folder, exclusive=True, deadline=Deadline.for_index(location.folder, wait)
    ):
        # The write-ahead log is deleted first, because an old log would be replayed into a new database.
        files = sorted(location.folder.glob(f"{DATABASE_FILE}*"))
        for file in (location.wal, *files, location.folder / LOCATION_FILE):
            if file.is_dir() and not file.is_symlink():  # a directory with the name of a file
                shutil.rmtree(file)
            file.unlink(missing_ok=True)
        for spill_directory in find_leftover_spill_directories(location.folder):
            shutil.rmtree(spill_directory, ignore_errors=True)


def delete_index_directory(location: IndexLocation) -> None:
    """Delete an index with its embedding cache and its directory, except for files of other programs.

    Raises RunInProgress if an index run is in progress, and ForeignFolder if the directory is a symlink or not a direct
    child of `location.home`.
    """
    with locks.acquire_run_lock(location):
        delete_index(location)  # checks the directory first
        for path in (
            *find_leftover_files(location),
            *location.folder.glob("*.duckdb*"),
            location.git_directory,
        ):
            _delete(path)
        # Lock files are deleted last, while locked: a process that waits for one detects the deletion.
        for path in location.folder.glob(f"*{LOCK_SUFFIX}"):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # raised if the directory has files of other programs
            location.folder.rmdir()


def measure_disk_usage(*paths: Path) -> int:
    """Return the size in bytes of these files, and of all files in these directories."""
    return sum(_measure(path) for path in paths)


def _measure(path: Path) -> int:
    """Return the size in bytes of a file, or of a directory with all its files. What cannot be read counts as 0."""
    total = 0
    with suppress(OSError):
        total += path.lstat().st_size
    for folder, _, files in os.walk(path):
        for name in files:
            with suppress(OSError):
                total += Path(folder, name).lstat().st_size
    return total


def _delete(path: Path) -> None:
    """Delete a file, if it exists, or a directory with its content."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
