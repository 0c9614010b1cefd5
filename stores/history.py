"""Exact reads of what is recorded: for resuming, for `status`, for reachability."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import duckdb


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """What an index says of itself; dates are UTC, shas None before the first pass."""

    repo_id: str
    path: str
    last_indexed_commit: str | None
    indexed_at: datetime | None
    head_commit: str | None
    commits: int
    hunks: int
    head_symbols: int
    unreadable: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A commit that could not be read, and why."""

    commit_sha: str
    reason: str


_STATUS: Final = """
SELECT repo_id, path, last_indexed_commit, indexed_at, head_commit,
       (SELECT count(*) FROM commits), (SELECT count(*) FROM hunks),
       (SELECT count(*) FROM head_symbols), (SELECT count(*) FROM unreadable)
FROM repository"""


def status(connection: duckdb.DuckDBPyConnection) -> IndexStatus | None:
    """The index in numbers; None before its first pass has begun."""
    row = connection.execute(_STATUS).fetchone()
    return IndexStatus(*row) if row else None


def recorded(connection: duckdb.DuckDBPyConnection, shas: Iterable[str]) -> set[str]:
    """Those of the commits that have rows."""
    return _known(connection, "commits", "commit_sha", shas)


def all_recorded(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Every commit that has rows, in the order they came."""
    return [sha for (sha,) in connection.execute("SELECT commit_sha FROM commits").fetchall()]


def unreached(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Recorded commits that the HEAD of the newest pass does not reach."""
    return {sha for (sha,) in connection.execute("SELECT commit_sha FROM unreached").fetchall()}


def unreadable(connection: duckdb.DuckDBPyConnection) -> tuple[Unreadable, ...]:
    """Commits to try again."""
    rows = connection.execute("SELECT commit_sha, reason FROM unreadable ORDER BY commit_sha").fetchall()
    return tuple(Unreadable(*row) for row in rows)


def known_digests(connection: duckdb.DuckDBPyConnection, digests: Iterable[bytes]) -> set[bytes]:
    """Those of the texts that have a vector."""
    return _known(connection, "vectors", "text_digest", digests)


def head_files(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The blob that each file of the HEAD snapshot had when its symbols were extracted, by path."""
    return dict(connection.execute("SELECT file_path, blob_sha FROM head_files").fetchall())


def _known(connection: duckdb.DuckDBPyConnection, table: str, key: str, asked: Iterable[Any]) -> set[Any]:
    """Those of the keys that the table has."""
    keys = list(asked)
    if not keys:
        return set()
    import pyarrow as pa  # most questions end before this, and need not wait for it

    connection.register("asked", pa.table({key: keys}))
    try:
        rows = connection.execute(f"FROM asked SEMI JOIN {table} USING ({key})").fetchall()
        return {value for (value,) in rows}
    finally:
        connection.unregister("asked")
