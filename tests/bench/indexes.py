"""An index looked at from outside: its texts, what takes its room, and its content as a fingerprint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb
import polars as pl

from pipeline.git.repository import open_repository
from serve.repositories import place_of
from stores import database
from stores.index_location import Place
from stores.schema import TABLES

# Every table without the numbers the store gave its rows, the paths of the machine, and the clock.
CONTENT: Final = {
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
}
_HUNK: Final = "hunks.commit_sha, hunks.file_path, hunks.file_path_bytes"

_FINGERPRINT: Final = """
SELECT count(*) AS rows, coalesce(sum(hash(entry)::HUGEINT), 0)::VARCHAR AS content FROM ({relation}) AS entry"""

# A segment reaches to the next one in its block, or to the block's end; further blocks are its alone.
_ROOM: Final = """
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

_SHARES: Final = """
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


def place(repository: Path, home: Path) -> Place:
    return place_of(home, open_repository(repository))


@contextmanager
def opened(repository: Path, home: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with database.reading(place(repository, home)) as connection:
        yield connection


def texts(repository: Path, home: Path) -> list[str]:
    """Each distinct text that was embedded, once."""
    with opened(repository, home) as connection:
        sql = "SELECT message FROM commits UNION SELECT semantic_text FROM hunks"
        return [text for (text,) in connection.execute(sql).fetchall()]


def fingerprint(repository: Path, home: Path) -> dict[str, tuple[int, str]]:
    """Table -> (rows, sum of the rows' hashes): equal for equal rows, in whatever order they were written."""
    assert set(CONTENT) | {"migrations"} == set(TABLES), (
        "a table is compared that does not exist, or one is not"
    )
    with opened(repository, home) as connection:
        relations = {table: relation.format(hunk=_HUNK) for table, relation in CONTENT.items()}
        return {
            table: connection.execute(_FINGERPRINT.format(relation=relation)).fetchall()[0]
            for table, relation in relations.items()
        }


def files(repository: Path, home: Path) -> dict[str, tuple[int, int]]:
    """Every file of the index: name -> (size, time of the last write)."""
    folder = place(repository, home).folder
    stats = {file.name: file.stat() for file in sorted(folder.rglob("*")) if file.is_file()}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}


def size(repository: Path, home: Path) -> int:
    return sum(length for length, _ in files(repository, home).values())


def room(repository: Path, home: Path, *, by_column: bool = False) -> pl.DataFrame:
    """Bytes by table, the largest first; the empty end of a block counts as that of the last to write there."""
    column = ".' || column_name" if by_column else "'"
    segments = " UNION ALL ".join(_SEGMENTS.format(table=table, column=column) for table in TABLES)
    with opened(repository, home) as connection:
        (block,) = connection.execute("SELECT block_size FROM pragma_database_size()").fetchall()[0]
        return connection.execute(_ROOM.format(segments=segments), {"block": block}).pl()


def symbol_shares(repository: Path, home: Path) -> pl.DataFrame:
    """How many of each language's text hunks name the symbols they touched, and how surely."""
    with opened(repository, home) as connection:
        return connection.execute(_SHARES).pl()
