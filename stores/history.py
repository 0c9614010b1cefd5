"""Exact reads of what is recorded: for resuming, for `status`, for reachability, for a file's own history.

When an index has too many vectors to keep in memory; asked at every start, and so without numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import duckdb

from stores.database import registered
from stores.types import EMBEDDING_DIMENSION, Reach

# More commits than this go over as a table; for fewer, its library takes longer to load than all else.
FEW_COMMITS: Final = 500


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """What an index says of itself; dates are UTC, shas None before the first pass.

    `completed_commit` is the HEAD of the newest pass that ended: the watermark may be there already, and HEAD's
    snapshot not.
    """

    repo_id: str
    path: str
    last_indexed_commit: str | None
    indexed_at: datetime | None
    head_commit: str | None
    commits: int
    hunks: int
    head_symbols: int
    unreadable: int
    completed_commit: str | None


@dataclass(frozen=True, slots=True)
class FileCommit:
    """A commit that changed a file, under the name the file had then."""

    commit_sha: str
    commit_message: str
    commit_author: str
    commit_date: datetime
    touched_hunks: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A commit that could not be read, and why."""

    commit_sha: str
    reason: str


@dataclass(frozen=True, slots=True)
class Use:
    """What a pass had of the embedding cache: `asked` texts needed a vector, `found` of them had one in it.

    `entries` are its vectors after the last batch.
    """

    entries: int = 0
    asked: int = 0
    found: int = 0


_STATUS: Final = """
SELECT repo_id, path, last_indexed_commit, indexed_at, head_commit,
       (SELECT count(*) FROM commits), (SELECT count(*) FROM hunks),
       (SELECT count(*) FROM head_symbols), (SELECT count(*) FROM unreadable),
       completed_commit
FROM repository"""


# Rows come parents first, so among commits of one date the row number says who is older. What HEAD does not reach
# is left out afterwards: conditions on other tables would take longer to plan than all of this to run.
_FILE_HUNKS: Final = """
SELECT hunk_id, commit_sha, old_path, commit_date, commits.rowid
FROM hunks JOIN commits USING (commit_sha)
WHERE file_path = $path"""

# The `@@` parts are counted in the text that is kept, which is cut after 64 KB; a change without text has none.
_FILE_COMMITS: Final = """
SELECT commit_sha, message, author_name, commit_date,
       len(regexp_extract_all(diff, '(?m)^@@ '))
FROM hunks JOIN commits USING (commit_sha)
WHERE hunk_id IN ({hunks})
ORDER BY commit_date DESC, commits.rowid DESC"""


def status(connection: duckdb.DuckDBPyConnection) -> IndexStatus | None:
    """The index in numbers; None before its first pass has begun."""
    row = connection.execute(_STATUS).fetchone()
    return IndexStatus(*row) if row else None


def cache_use(connection: duckdb.DuckDBPyConnection) -> Use:
    """What the newest pass with an embedding cache had of it."""
    row = connection.execute("SELECT entries, asked, found FROM embed_cache").fetchone()
    return Use(*row) if row else Use()


def recorded(connection: duckdb.DuckDBPyConnection, shas: Iterable[str]) -> set[str]:
    """Those of the commits that have rows."""
    asked = list(shas)
    if len(asked) > FEW_COMMITS:
        return _known(connection, "commits", "commit_sha", asked)
    sql = f"SELECT commit_sha FROM commits WHERE commit_sha IN ({', '.join('?' * len(asked))})"
    return {sha for (sha,) in connection.execute(sql, asked).fetchall()} if asked else set()


def all_recorded(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Every commit that has rows, in the order they came."""
    return [sha for (sha,) in connection.execute("SELECT commit_sha FROM commits").fetchall()]


def share_of(connection: duckdb.DuckDBPyConnection, shas: Iterable[str]) -> float:
    """The share of all hunks that these commits have."""
    asked = set(shas)
    rows = connection.execute("SELECT commit_sha, count(*) FROM hunks GROUP BY commit_sha").fetchall()
    counts: dict[str, int] = dict(rows)
    return sum(counts.get(sha, 0) for sha in asked) / max(1, sum(counts.values()))


def unreached(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Recorded commits that the HEAD of the newest pass does not reach."""
    return {sha for (sha,) in connection.execute("SELECT commit_sha FROM unreached").fetchall()}


def unreadable(connection: duckdb.DuckDBPyConnection) -> tuple[Unreadable, ...]:
    """Commits to try again."""
    rows = connection.execute("SELECT commit_sha, reason FROM unreadable ORDER BY commit_sha").fetchall()
    return tuple(Unreadable(*row) for row in rows)


def known_digests(connection: duckdb.DuckDBPyConnection, digests: Iterable[bytes]) -> set[bytes]:
    """Those of the texts that have a vector."""
    return _known(connection, "vectors", "text_digest", list(digests))


def head_files(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The blob that each file of the HEAD snapshot had when its symbols were extracted, by path."""
    return dict(connection.execute("SELECT file_path, blob_sha FROM head_files").fetchall())


def file_history(
    connection: duckdb.DuckDBPyConnection, path: str, reach: Reach
) -> tuple[tuple[str, int], ...]:
    """The commits that HEAD reaches and that changed a file, each with its hunk, oldest first; renames followed.

    A former name counts up to the rename's date: afterwards another file may have taken it.
    """
    waiting: list[tuple[str, datetime | None]] = [(path, None)]
    names = {path}
    found: dict[str, tuple[datetime, int, int]] = {}
    reached = _reached(connection, reach)
    while waiting:
        name, before = waiting.pop()
        for hunk, sha, old_path, date, row in connection.execute(_FILE_HUNKS, {"path": name}).fetchall():
            if (before is None or date <= before) and reached(sha):
                found.setdefault(sha, (date, row, hunk))
                if old_path and old_path not in names:
                    names.add(old_path)
                    waiting.append((old_path, date))
    return tuple((sha, hunk) for sha, (_, _, hunk) in sorted(found.items(), key=lambda item: item[1]))


def _reached(connection: duckdb.DuckDBPyConnection, reach: Reach) -> Callable[[str], bool]:
    back = frozenset(reach.back)
    if reach.complete:
        return back.__contains__
    gone = unreached(connection) | set(reach.gone)
    return lambda sha: sha not in gone or sha in back


def file_commits(connection: duckdb.DuckDBPyConnection, hunks: Iterable[int]) -> tuple[FileCommit, ...]:
    """The commits of these hunks, newest first, with the number of `@@` parts of each hunk."""
    # Numbers stand in the text, not in parameters: only constants let a scan skip row groups of other hunks.
    asked = ", ".join(map(str, hunks))
    rows = connection.execute(_FILE_COMMITS.format(hunks=asked)).fetchall() if asked else []
    return tuple(FileCommit(*row) for row in rows)


def _known(connection: duckdb.DuckDBPyConnection, table: str, key: str, keys: list[Any]) -> set[Any]:
    """Those of the keys that the table has."""
    if not keys:
        return set()
    import pyarrow as pa  # most questions end before this, and need not wait for it

    with registered(connection, asked=pa.table({key: keys})):
        rows = connection.execute(f"FROM asked SEMI JOIN {table} USING ({key})").fetchall()
    return {value for (value,) in rows}


# 128 MB of vectors, those of a history of some 40,000 commits: keeping more takes memory that other programs
# want. An index with more texts than this has the side file.
MOST_KEPT_ROWS: Final = 128_000_000 // (4 * EMBEDDING_DIMENSION)


def needs_side_file(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the index has more hunks, and so may have more texts, than are kept; counted without reading any."""
    [(hunks,)] = connection.execute("SELECT count(*) FROM hunks").fetchall()
    return int(hunks) > MOST_KEPT_ROWS
