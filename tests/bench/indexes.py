"""Inspection of an index: embedded texts, size by table, and a fingerprint of its content."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb
import polars as pl

from pipeline.git.repository import open_repository
from serve.repositories import locate_index
from stores import database
from stores.index_location import IndexLocation
from stores.schema import TABLES

# Content of every table, without row numbers, local paths and times.
TABLE_CONTENT: Final = {
    "repository": "SELECT first_commit, last_indexed_commit, head_commit FROM repository",
    "metadata": "SELECT component, version FROM metadata",
    "made_by": "FROM made_by",
    "embed_cache": "FROM embed_cache",
    "commits": "FROM commits",
    "hunks": "SELECT * EXCLUDE (hunk_id) FROM hunks",
    "hunk_symbols": "SELECT * EXCLUDE (hunk_id), {hunk} FROM hunk_symbols JOIN hunks USING (hunk_id)",
    "vectors": "FROM vectors",
    "terms": "SELECT term FROM terms",
    "hunk_postings": (
        "SELECT term, frequency, {hunk} FROM hunk_postings JOIN terms USING (term_id) JOIN hunks USING (hunk_id)"
    ),
    "symbol_postings": (
        "SELECT term, frequency, {hunk} FROM symbol_postings JOIN terms USING (term_id) JOIN hunks USING (hunk_id)"
    ),
    "head_files": "FROM head_files",
    "head_symbols": "SELECT * EXCLUDE (symbol_id) FROM head_symbols",
    "head_chunks": "FROM head_chunks",
    "head_postings": (
        "SELECT term, frequency, file_path, start_line, name"
        " FROM head_postings JOIN terms USING (term_id) JOIN head_symbols USING (symbol_id)"
    ),
    "unreadable": "FROM unreadable",
    "unreached": "FROM unreached",
    "branch_patterns": "FROM branch_patterns",
    "branch_tips": "FROM branch_tips",
}
_HUNK_KEY: Final = "hunks.commit_sha, hunks.file_path, hunks.file_path_bytes"

_FINGERPRINT: Final = """
SELECT count(*) AS rows, coalesce(sum(hash(entry)::HUGEINT), 0)::VARCHAR AS content FROM ({relation}) AS entry"""

# A segment ends where the next one of its block starts, or at the block's end; additional blocks are exclusive.
_TABLE_SIZES: Final = """
WITH segments AS ({segments}),
placed AS (
    SELECT part, block_id, block_offset, len(additional_block_ids) AS more,
           coalesce(lead(block_offset) OVER (PARTITION BY block_id ORDER BY block_offset), $block) - block_offset
               AS bytes
    FROM (SELECT DISTINCT ON (block_id, block_offset) * FROM segments ORDER BY block_id, block_offset, part)
)
SELECT part, (sum(bytes) + sum(more) * $block)::BIGINT AS bytes
FROM placed GROUP BY part ORDER BY bytes DESC, part"""
_SEGMENTS: Final = (
    "SELECT '{table}{column} AS part, block_id, block_offset, additional_block_ids"
    " FROM pragma_storage_info('{table}') WHERE persistent AND block_id >= 0"
)

_SYMBOL_SHARES: Final = """
WITH named AS (
    SELECT hunk_id, bool_or(confidence = 'ExactSpan') AS exactly FROM hunk_symbols GROUP BY hunk_id
)
SELECT coalesce(language, '(none)') AS language, count(*) AS hunks,
       round(100 * avg(coalesce(exactly, FALSE)::INT), 1) AS "ExactSpan %",
       round(100 * avg(coalesce(NOT exactly, FALSE)::INT), 1) AS "HunkHeader %",
       round(100 * avg((exactly IS NULL)::INT), 1) AS "no symbol %"
FROM hunks LEFT JOIN named USING (hunk_id)
WHERE content_kind = 'text' AND change_kind <> 'mode_changed'
GROUP BY ALL ORDER BY hunks DESC, language"""


def find_location(repository: Path, home: Path) -> IndexLocation:
    return locate_index(home, open_repository(repository))


@contextmanager
def open_index(repository: Path, home: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with database.open_for_reading(find_location(repository, home)) as connection:
        yield connection


def load_embedded_texts(repository: Path, home: Path) -> list[str]:
    """Return the distinct embedded texts."""
    with open_index(repository, home) as connection:
        sql = "SELECT message FROM commits UNION SELECT semantic_text FROM hunks"
        return [text for (text,) in connection.execute(sql).fetchall()]


def compute_fingerprint(repository: Path, home: Path) -> dict[str, tuple[int, str]]:
    """Return (row count, sum of row hashes) per table; independent of the order of rows."""
    assert set(TABLE_CONTENT) | {"migrations"} == set(TABLES), "TABLE_CONTENT and TABLES differ"
    with open_index(repository, home) as connection:
        relations = {table: relation.format(hunk=_HUNK_KEY) for table, relation in TABLE_CONTENT.items()}
        return {
            table: connection.execute(_FINGERPRINT.format(relation=relation)).fetchall()[0]
            for table, relation in relations.items()
        }


def list_index_files(repository: Path, home: Path) -> dict[str, tuple[int, int]]:
    """Return (size, modification time) of every file of the index by name."""
    folder = find_location(repository, home).folder
    stats = {file.name: file.stat() for file in sorted(folder.rglob("*")) if file.is_file()}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}


def measure_index(repository: Path, home: Path) -> int:
    return sum(length for length, _ in list_index_files(repository, home).values())


def measure_tables(repository: Path, home: Path, *, by_column: bool = False) -> pl.DataFrame:
    """Return bytes per table, largest first; the free end of a block counts for its last table."""
    column = ".' || column_name" if by_column else "'"
    segments = " UNION ALL ".join(_SEGMENTS.format(table=table, column=column) for table in TABLES)
    with open_index(repository, home) as connection:
        (block,) = connection.execute("SELECT block_size FROM pragma_database_size()").fetchall()[0]
        return connection.execute(_TABLE_SIZES.format(segments=segments), {"block": block}).pl()


def compute_symbol_shares(repository: Path, home: Path) -> pl.DataFrame:
    """Return, per language, the shares of text hunks by confidence of their symbols."""
    with open_index(repository, home) as connection:
        return connection.execute(_SYMBOL_SHARES).pl()
