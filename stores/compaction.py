"""Copy an index into a fresh file when much of it is free, or its words lie scattered.

A batch leaves small row groups, uncompressed floats and freed blocks behind, and appends its postings
behind the clustered ones. A copy mends all of that at once. Readers go on reading while it is made; then
it takes the old file's place in one rename, so that a kill leaves either file whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import duckdb

from stores import database, engines, locking, migrations, places, schema
from stores.database import READ_WAIT_SECONDS, WRITE_WAIT_SECONDS
from stores.locking import Deadline
from stores.places import DATABASE, Place
from stores.privacy import private

# A copy costs about 25 ms a megabyte: worth a tenth of the file, not worth a few blocks of a small one.
MOST_FREE_SHARE: Final = 0.15
MOST_FREE_BYTES: Final = 4_000_000
# Asking for a word scans the tail and little else: with a quarter, copies become rarer as the index grows
# and the tail stays a fraction of what a scan of everything would cost.
LONGEST_TAIL_SHARE: Final = 0.25
SHORTEST_TAIL_HUNKS: Final = 5_000
# Large enough for numbers to compress well, small enough that two threads share the vectors of a small index. Twice as
# many rows take 2 % less room on the disk, and twice as much in memory while they are copied.
COMPACT_ROW_GROUP_SIZE: Final = 8_192
# Memory follows the rows of a statement, and with tables whole it came to 580 MB at 67,000 hunks: so one statement
# copies a row group, or puts this many postings in order.
COPIED_ROWS: Final = COMPACT_ROW_GROUP_SIZE
ORDERED_ROWS: Final = 1_000_000

DRAFT: Final = f"{DATABASE}.draft"

# Postings lie by word in the copy, all other rows as they did.
_CLUSTERED: Final = {
    "hunk_postings": "ORDER BY term_id, hunk_id",
    "symbol_postings": "ORDER BY term_id, hunk_id",
    "head_postings": "ORDER BY term_id, symbol_id",
}
# Texts that no row has any more, because their commits were replaced. They are found once: a slice that looked for
# those somebody has would read every digest of the index.
_ABANDONED: Final = """
CREATE TABLE memory.abandoned AS
SELECT text_digest
FROM ix.vectors
ANTI JOIN (SELECT text_digest FROM ix.hunks UNION ALL SELECT message_digest FROM ix.commits) USING (text_digest)"""
# They are left behind. Joined rows come in any order.
_CHOSEN: Final = {"vectors": "ANTI JOIN memory.abandoned USING (text_digest)"}
_ORDERED: Final = _CLUSTERED | {"vectors": "ORDER BY vectors.rowid"}
# The last word of every slice of postings.
_CUTS: Final = """
SELECT max(term_id)
FROM (
    SELECT term_id, sum(count(*)) OVER (ORDER BY term_id) // {rows} AS slice FROM ix.{table} GROUP BY term_id
)
GROUP BY slice
ORDER BY slice"""
_TAIL: Final = """
SELECT coalesce(max(hunk_id) + 1, 0) - any_value(clustered_hunks), coalesce(max(hunk_id) + 1, 0)
FROM repository LEFT JOIN hunks ON TRUE"""


def tidy(place: Place, *, wait: float = WRITE_WAIT_SECONDS) -> bool:
    """Make the index compact if that is worth it; to be called by the only indexing run, at its end.

    Says whether it copied. IndexGone where the index was deleted meanwhile.
    """
    _clear(place.folder / DRAFT)
    with database.writing(place, wait=wait, create=False) as connection:
        database.settle(connection, place)
        worth_it = _is_scattered(connection) or _is_hollow(connection)
    if worth_it:
        compact(place, wait=wait)
    return worth_it


def compact(place: Place, *, wait: float = WRITE_WAIT_SECONDS) -> None:
    """Replace the database file by a compact copy of itself."""
    draft = place.folder / DRAFT
    with database.writing(place, wait=wait, create=False) as connection:
        database.settle(connection, place)
    with database.reading(place, wait=READ_WAIT_SECONDS) as connection, private():
        before = database.fingerprint(place)
        try:
            engines.frugally(connection, partial(_copy, connection, draft))
        except BaseException:
            _clear(draft)  # it may have filled the disk
            raise
    places.sync(draft)
    with locking.entered(place.folder, exclusive=True, deadline=Deadline.after(wait)):
        # Nobody should have written meanwhile; if somebody did, theirs is the newer truth.
        if database.fingerprint(place) == before and not database.wal_size(place):
            place.wal.unlink(missing_ok=True)
            draft.replace(place.database)
    _clear(draft)


def _clear(draft: Path) -> None:
    """Take away a copy that was begun, and its log."""
    for file in (draft, draft.with_name(f"{draft.name}.wal")):
        file.unlink(missing_ok=True)


def _copy(connection: duckdb.DuckDBPyConnection, draft: Path) -> None:
    _clear(draft)
    with _attached(connection, draft):
        connection.execute(_ABANDONED)
        # One after the other: two side by side took a quarter less time, of a run that is twenty times as long, and
        # 30 MB.
        for table in schema.TABLES:
            _copy_table(connection, table)
        connection.execute(
            "UPDATE fresh.repository SET clustered_hunks = (SELECT coalesce(max(hunk_id) + 1, 0) FROM ix.hunks)"
        )
        connection.execute("CHECKPOINT fresh")


@contextmanager
def _attached(connection: duckdb.DuckDBPyConnection, draft: Path) -> Iterator[None]:
    """The draft, with its tables, as `fresh`."""
    connection.execute(database.attachment(draft, "fresh", f"ROW_GROUP_SIZE {COMPACT_ROW_GROUP_SIZE}"))
    with engines.ending(connection, "DETACH fresh", "DROP TABLE IF EXISTS memory.abandoned"):
        with _used(connection, "fresh"):
            connection.execute(migrations.tables_sql())
        yield


@contextmanager
def _used(connection: duckdb.DuckDBPyConnection, name: str) -> Iterator[None]:
    """Statements that name no database mean this one; what is in use cannot be detached."""
    connection.execute(f"USE {name}")
    with engines.ending(connection, "USE ix"):
        yield


def _copy_table(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    chosen, order = _CHOSEN.get(table, ""), _ORDERED.get(table, "")
    for part in _slices(connection, table):
        connection.execute(
            f"INSERT INTO fresh.{table} SELECT * FROM ix.{table} {chosen} WHERE {part} {order}"
        )


def _slices(connection: duckdb.DuckDBPyConnection, table: str) -> Iterator[str]:
    """Conditions that part a table: by words where its rows come in their order, else by where rows lie."""
    if table in _CLUSTERED:
        first = 0
        for (last,) in connection.execute(_CUTS.format(table=table, rows=ORDERED_ROWS)).fetchall():
            yield f"term_id BETWEEN {first} AND {last}"
            first = last + 1
        return
    [(rows,)] = connection.execute(f"SELECT coalesce(max(rowid) + 1, 0) FROM ix.{table}").fetchall()
    for first in range(0, rows, COPIED_ROWS):
        yield f"rowid >= {first} AND rowid < {first + COPIED_ROWS}"


def _is_scattered(connection: duckdb.DuckDBPyConnection) -> bool:
    row = connection.execute(_TAIL).fetchone()
    if row is None or row[0] is None:
        return False
    tail, hunks = row
    return bool(tail > SHORTEST_TAIL_HUNKS and tail > LONGEST_TAIL_SHARE * hunks)


def _is_hollow(connection: duckdb.DuckDBPyConnection) -> bool:
    sql = "SELECT free_blocks * block_size, total_blocks * block_size FROM pragma_database_size()"
    free, total = connection.execute(f"{sql} WHERE database_name = 'ix'").fetchall()[0]
    return bool(free > MOST_FREE_BYTES and free > MOST_FREE_SHARE * total)
