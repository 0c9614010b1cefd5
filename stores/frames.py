"""Index tables as polars frames, for notebooks and `lineage related`.

All frames of a reading are of one state of the index. Reading works while a daemon has the index
open, and between two batches of an index run. If the run is suspended, a copy of the index is read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

import duckdb
import polars as pl

from stores import index_copy, schema
from stores.database import format_literals
from stores.index_copy import OpenIndex
from stores.index_location import IndexLocation

logger = logging.getLogger(__name__)

# Time to wait for the index, longer than a query waits, because a notebook reads the index only once.
WAIT_SECONDS: Final = 60.0
# Columns that make up most of the data. They are read only on request.
TEXT_COLUMNS: Final = frozenset({"diff", "semantic_text", "source_text"})

# Condition that leaves out the rows of commits that change no file.
_HAS_FILE: Final = "content_kind <> 'message'"
_WORDS_SQL: Final = (
    "SELECT hunk_id, term, frequency FROM hunk_postings JOIN terms USING (term_id)"
    f" SEMI JOIN (FROM hunks WHERE {_HAS_FILE}) USING (hunk_id)"
)
_HISTORY_COMMITS_SQL: Final = """
SELECT commit_sha, commit_date, split_part(trim(message), chr(10), 1) AS message FROM commits"""
_HISTORY_HUNKS_SQL: Final = f"""
SELECT hunk_id, commit_sha, file_path, old_path, change_kind, added_lines, removed_lines
FROM hunks WHERE {_HAS_FILE}"""
_HUNK_SYMBOLS_SQL: Final = "SELECT * FROM hunk_symbols WHERE hunk_id IN ({hunks})"
_SYMBOL_LINES_SQL: Final = "SELECT name, parent, start_line FROM head_symbols WHERE file_path = $path"
_COMMITS_SQL: Final = "SELECT *, commit_sha NOT IN (SELECT commit_sha FROM unreached) AS reached FROM commits"
# DuckDB reports where each segment of a column begins. A segment ends where the next one of its block begins. The last
# one's size is estimated by its rows: a long text counts with the mean length of a sample, a short one with 48 bytes.
_SIZES_SQL: Final = """
SELECT column_name,
       sum(additional_bytes
           + coalesce(next_offset - block_offset, least({block_size} - block_offset, count * row_bytes))) AS bytes
FROM (
    SELECT column_name, block_offset, count, len(additional_block_ids) * {block_size} AS additional_bytes,
           lead(block_offset) OVER (PARTITION BY block_id ORDER BY block_offset) AS next_offset,
           CASE segment_type WHEN 'VALIDITY' THEN 0.125 WHEN 'BOOLEAN' THEN 1 WHEN 'TINYINT' THEN 1
               WHEN 'INTEGER' THEN 4 WHEN 'FLOAT' THEN 4 WHEN 'BLOB' THEN 48
               WHEN 'VARCHAR' THEN CASE column_name {lengths} ELSE 48 END ELSE 8 END AS row_bytes
    FROM pragma_storage_info('{table}') WHERE block_id >= 0
) GROUP BY column_name"""
# Value of the column `table` of `Frames.sizes` for space without data.
FREE_SPACE: Final = "free"
_LONG_TEXT_COLUMNS: Final = TEXT_COLUMNS | {"message"}
_MEAN_LENGTH_SQL: Final = (
    "SELECT coalesce(avg(strlen({column})), 0) FROM (SELECT {column} FROM {table} LIMIT 2_000)"
)


@dataclass(frozen=True, slots=True, eq=False)
class HistoryFrames:
    """Commits, hunks and touched symbols of an index; times are UTC.

    The columns are those of the tables `commits`, `hunks` and `hunk_symbols` in stores/README.md; `read_history` reads
    only some of them.

    - `commits`: also has the column `reached`, true if HEAD reaches the commit.
    - `hunks`: without the rows of commits that change no file.
    - `symbols`: one row per hunk and symbol that it touched.
    """

    commits: pl.DataFrame
    hunks: pl.DataFrame
    symbols: pl.DataFrame


@dataclass(frozen=True, slots=True, eq=False)
class Frames(HistoryFrames):
    """History, words, symbols at HEAD, vectors and sizes of an index.

    - `words`: terms of each hunk, with their frequencies.
    - `head_symbols`: symbols defined at HEAD.
    - `vectors`: one row per distinct text.
    - `sizes`: approximate bytes on disk of each column. The row whose `table` is `free` has the rest of the file.
    """

    words: pl.DataFrame
    head_symbols: pl.DataFrame
    vectors: pl.DataFrame
    sizes: pl.DataFrame


def read_frames(location: IndexLocation, *, texts: bool = False, wait: float = WAIT_SECONDS) -> Frames:
    """Read the last committed state of an index.

    If another process holds the index, reads a copy and logs a warning. Raises NotIndexed without an index, IndexBusy
    after `wait` seconds. `texts`: True to read the columns in TEXT_COLUMNS, too.
    """
    with index_copy.open_index_or_copy(location, wait=wait) as index:
        return read_open_index(index, texts=texts)


def read_open_index(index: OpenIndex, *, texts: bool = False) -> Frames:
    """Read an open index; see `read_frames`."""
    connection = index.connection
    if index.holder:
        logger.warning("Reading a copy, because %s holds the index.", index.holder)
    return Frames(
        commits=_set_time_zone(_read_frame(connection, _COMMITS_SQL)),
        hunks=_read_frame(connection, _build_select_statement("hunks", texts=texts, condition=_HAS_FILE)),
        symbols=_read_frame(connection, _build_select_statement("hunk_symbols", texts=texts)),
        words=_read_frame(connection, _WORDS_SQL),
        head_symbols=_read_frame(connection, _build_select_statement("head_symbols", texts=texts)),
        vectors=_read_frame(connection, _build_select_statement("vectors", texts=texts)),
        sizes=_read_sizes(connection),
    )


def read_history(connection: duckdb.DuckDBPyConnection, is_reachable: Callable[[str], bool]) -> HistoryFrames:
    """Read date, subject, path, kind and size of each change. The frame of symbols is empty; see `read_symbols`.

    The column `message` of the commits has only the first line. `is_reachable`: returns whether HEAD reaches a commit.
    """
    commits = _set_time_zone(_read_frame(connection, _HISTORY_COMMITS_SQL))
    reached = pl.Series(
        "reached", [is_reachable(sha) for sha in commits.get_column("commit_sha")], dtype=pl.Boolean
    )
    return HistoryFrames(
        commits=commits.with_columns(reached),
        hunks=_read_frame(connection, _HISTORY_HUNKS_SQL),
        symbols=read_symbols(connection, ()),
    )


def read_symbols(connection: duckdb.DuckDBPyConnection, hunk_ids: Collection[int]) -> pl.DataFrame:
    """Read the symbols that these hunks touched."""
    return _read_frame(connection, _HUNK_SYMBOLS_SQL.format(hunks=format_literals(hunk_ids)))


def read_symbol_lines(connection: duckdb.DuckDBPyConnection, path: str) -> pl.DataFrame:
    """Read the first line of each symbol that HEAD defines in a file, with its name and parent."""
    return _read_frame(connection, _SYMBOL_LINES_SQL, {"path": path})


def _build_select_statement(table: str, *, texts: bool, condition: str = "TRUE") -> str:
    """Return the SQL statement that reads the columns of a table, those in TEXT_COLUMNS only if `texts` is true."""
    columns = [column for column in schema.TABLES[table].names if texts or column not in TEXT_COLUMNS]
    return f"SELECT {', '.join(columns)} FROM {table} WHERE {condition}"


def _read_frame(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, str] | None = None
) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(connection.execute(sql, parameters).to_arrow_table()))


def _set_time_zone(commits: pl.DataFrame) -> pl.DataFrame:
    """Set the time zone of the dates to UTC; the database stores none."""
    return commits.with_columns(pl.col(pl.Datetime).dt.replace_time_zone("UTC"))


def _read_sizes(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """Return `Frames.sizes`, largest first."""
    sql = "SELECT block_size, total_blocks FROM pragma_database_size() WHERE database_name = 'ix'"
    block_size, block_count = connection.execute(sql).fetchall()[0]
    columns = pl.concat(_read_table_sizes(connection, table, block_size) for table in schema.TABLES)
    free_bytes = max(0, block_size * block_count - int(columns.get_column("bytes").sum()))
    free = pl.DataFrame({"table": FREE_SPACE, "column": "", "bytes": free_bytes}, schema=columns.schema)
    return pl.concat([columns, free]).sort("bytes", descending=True)


def _read_table_sizes(connection: duckdb.DuckDBPyConnection, table: str, block_size: int) -> pl.DataFrame:
    """Return the sizes of the columns of one table: table, column, bytes."""
    length_cases = "WHEN '' THEN 0"  # CASE needs a WHEN also for tables without long texts
    for column in _LONG_TEXT_COLUMNS & set(schema.TABLES[table].names):
        [(mean_length,)] = connection.execute(_MEAN_LENGTH_SQL.format(column=column, table=table)).fetchall()
        length_cases += f" WHEN '{column}' THEN {mean_length}"
    sizes = _read_frame(
        connection, _SIZES_SQL.format(table=table, block_size=block_size, lengths=length_cases)
    )
    return sizes.select(
        pl.lit(table).alias("table"), pl.col("column_name").alias("column"), pl.col("bytes").cast(pl.Int64)
    )
