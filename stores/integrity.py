"""Whether an index is whole: every block can be read, and its tables agree with each other.

Each block has a checksum, which DuckDB compares when it reads the block: so reading everything is the check. What
tables say of each other follows from the transactions that write them; a disagreement means that something else
wrote the file.
"""

from __future__ import annotations

from typing import Final

import duckdb

from stores import schema

# Sentences that are true of every committed batch, and how many rows break each.
_PROMISES: Final = {
    "hunks without their commit": "SELECT count(*) FROM hunks ANTI JOIN commits USING (commit_sha)",
    "hunks without a vector": "SELECT count(*) FROM hunks ANTI JOIN vectors USING (text_digest)",
    "commits recorded twice": "SELECT count(*) - count(DISTINCT commit_sha) FROM commits",
    "hunks numbered twice": "SELECT count(*) - count(DISTINCT hunk_id) FROM hunks",
    "texts with two vectors": "SELECT count(*) - count(DISTINCT text_digest) FROM vectors",
    "words of absent hunks": "SELECT count(*) FROM hunk_postings ANTI JOIN hunks USING (hunk_id)",
    "names of absent hunks": "SELECT count(*) FROM symbol_postings ANTI JOIN hunks USING (hunk_id)",
    "symbols of absent hunks": "SELECT count(*) FROM hunk_symbols ANTI JOIN hunks USING (hunk_id)",
    "words of absent symbols": "SELECT count(*) FROM head_postings ANTI JOIN head_symbols USING (symbol_id)",
    "words without their term": "SELECT count(*) FROM hunk_postings ANTI JOIN terms USING (term_id)",
    "hunks with another number of words": """
        SELECT count(*) FROM hunks LEFT JOIN (
            SELECT hunk_id, sum(frequency) AS counted FROM hunk_postings GROUP BY hunk_id
        ) USING (hunk_id) WHERE word_count != coalesce(counted, 0)""",
}


def read_all(connection: duckdb.DuckDBPyConnection) -> int:
    """Read every value there is; how many rows that were. A damaged block is an error, see `database.sound`."""
    return sum(_read(connection, table) for table in schema.TABLES)


def broken_promises(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """What the tables say against each other, with the number of rows; nothing for a whole index."""
    counts = {what: int(connection.execute(sql).fetchall()[0][0]) for what, sql in _PROMISES.items()}
    return {what: count for what, count in counts.items() if count}


def _read(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    # A hash needs the values themselves, where a count or an extreme is answered from statistics.
    columns = ", ".join(f"bit_xor(hash({column}))" for column in schema.TABLES[table].names)
    row = connection.execute(f"SELECT count(*), {columns} FROM {table}").fetchone()
    return int(row[0]) if row else 0
