"""An index as polars frames, for a person to look into: read in one go, from one state of it.

Reading takes the same turn as any question: an index run gives the index up for it between two batches, and a
daemon that has the index open is no obstacle. Nothing stays open afterwards. polars comes with the `notebooks` extra.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import duckdb
import polars as pl

from stores import database, schema
from stores.index_location import Place

# A person looks once, and rather waits for a batch than be sent away.
PATIENCE_SECONDS: Final = 60.0
# What takes most of the room, and is read only for those who ask.
TEXTS: Final = frozenset({"diff", "semantic_text", "source_text"})

_WORDS: Final = "SELECT hunk_id, term, frequency FROM hunk_postings JOIN terms USING (term_id)"
_COMMITS: Final = "SELECT *, commit_sha NOT IN (SELECT commit_sha FROM unreached) AS reached FROM commits"
# A segment lies in a block behind others, and ends where the next one begins. Of the last one only the most it can
# take is known: its rows as they are in memory. Long texts are measured on a sample, others taken for 48 bytes.
_SIZES: Final = """
SELECT column_name, sum(own + coalesce(next - block_offset, least({block} - block_offset, count * width))) AS bytes
FROM (
    SELECT column_name, block_offset, count, len(additional_block_ids) * {block} AS own,
           lead(block_offset) OVER (PARTITION BY block_id ORDER BY block_offset) AS next,
           CASE segment_type WHEN 'VALIDITY' THEN 0.125 WHEN 'BOOLEAN' THEN 1 WHEN 'INTEGER' THEN 4
               WHEN 'FLOAT' THEN 4 WHEN 'BLOB' THEN 48
               WHEN 'VARCHAR' THEN CASE column_name {lengths} ELSE 48 END ELSE 8 END AS width
    FROM pragma_storage_info('{table}') WHERE block_id >= 0
) GROUP BY column_name"""
FREE: Final = "free"
LONG: Final = TEXTS | {"message"}
_SAMPLE: Final = "SELECT coalesce(avg(strlen({column})), 0) FROM (SELECT {column} FROM {table} LIMIT 2_000)"


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """One state of an index; columns are those of the tables, times are UTC.

    `commits`: with `reached`, whether HEAD reaches it. `hunks`: one changed file of one commit each. `symbols`: which
    symbols each hunk touched. `words`: each hunk's words, split and stemmed, and how often. `head_symbols`: what HEAD
    defines. `vectors`: one for each distinct text. `sizes`: about how many bytes each column takes on
    the disk, and under `free` what no column does.
    """

    commits: pl.DataFrame
    hunks: pl.DataFrame
    symbols: pl.DataFrame
    words: pl.DataFrame
    head_symbols: pl.DataFrame
    vectors: pl.DataFrame
    sizes: pl.DataFrame


def read(place: Place, *, texts: bool = False, wait: float = PATIENCE_SECONDS) -> Frames:
    """The index as it is now; with `texts` also diffs, what was embedded, and the source of symbols."""
    with database.reading(place, wait=wait) as connection:
        return Frames(
            commits=_dated(_frame(connection, _COMMITS)),
            hunks=_frame(connection, _table("hunks", texts=texts)),
            symbols=_frame(connection, _table("hunk_symbols", texts=texts)),
            words=_frame(connection, _WORDS),
            head_symbols=_frame(connection, _table("head_symbols", texts=texts)),
            vectors=_frame(connection, _table("vectors", texts=texts)),
            sizes=_sizes(connection),
        )


def _table(name: str, *, texts: bool) -> str:
    wanted = [column for column in schema.TABLES[name].names if texts or column not in TEXTS]
    return f"SELECT {', '.join(wanted)} FROM {name}"


def _frame(connection: duckdb.DuckDBPyConnection, sql: str) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(connection.execute(sql).to_arrow_table()))


def _dated(commits: pl.DataFrame) -> pl.DataFrame:
    """The times with their zone: the database keeps UTC without saying so."""
    return commits.with_columns(pl.col("author_date", "commit_date").dt.replace_time_zone("UTC"))


def _sizes(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    sql = "SELECT block_size, total_blocks FROM pragma_database_size() WHERE database_name = 'ix'"
    block, blocks = connection.execute(sql).fetchall()[0]
    taken = pl.concat(_sizes_of(connection, table, block) for table in schema.TABLES)
    rest = max(0, block * blocks - int(taken.get_column("bytes").sum()))
    free = pl.DataFrame({"table": FREE, "column": "", "bytes": rest}, schema=taken.schema)
    return pl.concat([taken, free]).sort("bytes", descending=True)


def _sizes_of(connection: duckdb.DuckDBPyConnection, table: str, block: int) -> pl.DataFrame:
    lengths = "WHEN '' THEN 0"
    for column in LONG & set(schema.TABLES[table].names):
        [(length,)] = connection.execute(_SAMPLE.format(column=column, table=table)).fetchall()
        lengths += f" WHEN '{column}' THEN {length}"
    sizes = _frame(connection, _SIZES.format(table=table, block=block, lengths=lengths))
    return sizes.select(
        pl.lit(table).alias("table"), pl.col("column_name").alias("column"), pl.col("bytes").cast(pl.Int64)
    )
