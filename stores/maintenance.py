"""Copy an index into a fresh file when much of it is free, or its words lie scattered.

A batch leaves small row groups, uncompressed floats and freed blocks behind, and appends its postings
behind the clustered ones. A copy mends all of that at once. Readers go on reading while it is made; then
it takes the old file's place in one rename, so that a kill leaves either file whole.

Whether an index is whole: every block can be read, and its tables agree with each other.

Each block has a checksum, which DuckDB compares when it reads the block: so reading everything is the check. What
tables say of each other follows from the transactions that write them; a disagreement means that something else
wrote the file.

What lies under a home: the indexes, and what killed programs left beside them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import duckdb

from stores import database, duckdb_engine, embedding_cache, index_location, locks, migrations, schema, writer
from stores.database import READ_WAIT_SECONDS, WRITE_WAIT_SECONDS
from stores.duckdb_engine import SPILL, private
from stores.index_location import DATABASE, GRAPH, PLACE, Place
from stores.locks import Deadline
from stores.quantized_vectors import DRAFT as CODES_DRAFT

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
            duckdb_engine.frugally(connection, partial(_copy, connection, draft))
        except BaseException:
            _clear(draft)  # it may have filled the disk
            raise
    index_location.sync(draft)
    with locks.entered(place.folder, exclusive=True, deadline=Deadline.after(wait)):
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
    with duckdb_engine.ending(connection, "DETACH fresh", "DROP TABLE IF EXISTS memory.abandoned"):
        with _used(connection, "fresh"):
            connection.execute(migrations.tables_sql())
        yield


@contextmanager
def _used(connection: duckdb.DuckDBPyConnection, name: str) -> Iterator[None]:
    """Statements that name no database mean this one; what is in use cannot be detached."""
    connection.execute(f"USE {name}")
    with duckdb_engine.ending(connection, "USE ix"):
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


# As `places` names the folder of an index.
_INDEX_FOLDER: Final = re.compile(r"[A-Za-z0-9_-]+-[0-9a-f]{16}")
# Files that only a program at work needs; what they hold is nowhere else, and worth nothing without it.
_LEFT: Final = (
    f"{DRAFT}*",
    f"{embedding_cache.DRAFT}*",
    f"*.codes{CODES_DRAFT}",
    f"{PLACE}.*",
    f"{GRAPH}/info/*.lock",
    f"{GRAPH}/info/tmp_*",
)
LOCKS: Final = ".lock"


def indexes(home: Path) -> Iterator[Place]:
    """Every index folder that says whose it is."""
    for file in sorted(home.glob(f"*/{PLACE}")):
        if file.parent.is_symlink():  # what lies behind it is not under this home
            continue
        with suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads(file.read_text(encoding="ascii"))
            yield Place(home, file.parent.name, Path(said["path"]), said["first_commit"])


def empty_folders(home: Path) -> Iterator[Place]:
    """Folders that an index was deleted from: nothing is left in them but lock files and a commit-graph."""
    for folder in sorted(home.glob("*")):
        if _INDEX_FOLDER.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
            names = {path.name for path in folder.iterdir()}
            if all(name in (GRAPH, SPILL) or name.endswith(LOCKS) for name in names):
                yield Place(home, folder.name, folder, None)


def leftovers(place: Place) -> list[Path]:
    """What a killed run left in an index folder; while a run is at work, what it needs."""
    found = [path for pattern in _LEFT for path in sorted(place.folder.glob(pattern))]
    spill = place.folder / SPILL
    logs = [place.wal] if place.wal.exists() and not place.database.exists() else []
    return [*found, *logs, *([spill] if spill.is_dir() and any(spill.iterdir()) else [])]


def delete_leftovers(place: Place) -> None:
    """Delete them, as the only run of the index: RunAtWork when there is one."""
    with locks.sole_run(place):
        for path in leftovers(place):
            _delete(path)


def delete_folder(place: Place) -> None:
    """Delete an index and its folder, less what is not ours; RunAtWork when a run is at work on it."""
    with locks.sole_run(place):
        writer.delete_index(place)  # looks first whether the folder lies where it should
        # Side files, too: whatever was kept beside the index is of no use without its repository.
        for path in (*leftovers(place), *place.folder.glob("*.duckdb*"), place.graph, place.folder / PLACE):
            _delete(path)
        # Last, and while they are held: whoever waits for one finds it deleted, and the folder gone.
        for path in place.folder.glob(f"*{LOCKS}"):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # something is in it that we did not put there
            place.folder.rmdir()


def size(*paths: Path) -> int:
    """Bytes of these files, and of all files in these folders."""
    return sum(_size(path) for path in paths)


def _size(path: Path) -> int:
    total = 0
    with suppress(OSError):
        total += path.lstat().st_size
    for folder, _, files in os.walk(path):
        for name in files:
            with suppress(OSError):
                total += Path(folder, name).lstat().st_size
    return total


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
