"""Texts of hunks and commit messages that have no vector yet.

An index run first writes the rows of all commits, then the vectors of their texts. So these texts are the work that is
left, also after an interruption.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import duckdb
import pyarrow as pa

from stores.database import register_tables

PENDING_SCHEMA: Final = pa.schema(
    [("text_digest", pa.binary()), ("hunk_id", pa.int64()), ("commit_sha", pa.string())]
)

# Commits are recorded parents first, so the last rows are the newest. Several hunks may have the same text: the newest
# one stands for all.
_PENDING_TEXTS: Final = """
WITH texts AS (
    SELECT text_digest, max(hunk_id) AS hunk_id, arg_max(commit_sha, hunk_id) AS commit_sha
    FROM hunks ANTI JOIN vectors USING (text_digest)
    GROUP BY text_digest
    UNION ALL
    SELECT message_digest, NULL, arg_max(commit_sha, rowid)
    FROM commits ANTI JOIN vectors ON message_digest = text_digest
    GROUP BY message_digest
)
SELECT text_digest, hunk_id, commit_sha
FROM texts JOIN (SELECT commit_sha, rowid AS position FROM commits) USING (commit_sha)
ORDER BY position DESC, hunk_id DESC NULLS FIRST"""

_HUNK_TEXTS: Final = """
SELECT text_digest, semantic_text, diff, file_path, old_path, change_kind, message
FROM hunks JOIN commits USING (commit_sha)
WHERE hunk_id IN ({hunks})
ORDER BY hunk_id DESC"""
_MESSAGES: Final = """
SELECT message_digest, message FROM commits SEMI JOIN pending USING (commit_sha) ORDER BY commits.rowid DESC"""


@dataclass(frozen=True, slots=True)
class PendingHunk:
    """Text of a hunk without a vector, and the content that the text was made from."""

    text_digest: bytes
    semantic_text: str
    diff: str
    file_path: str
    old_path: str | None
    change_kind: str
    message: str


@dataclass(frozen=True, slots=True)
class PendingMessage:
    """Commit message without a vector."""

    text_digest: bytes
    message: str


def list_pending_texts(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Return the texts without a vector, those of the newest commits first (PENDING_SCHEMA).

    Each distinct text has one row: its digest, and a hunk or (with a null `hunk_id`) a commit that has it.
    """
    return connection.execute(_PENDING_TEXTS).to_arrow_table().cast(PENDING_SCHEMA)


def load_pending_texts(
    connection: duckdb.DuckDBPyConnection, pending: pa.Table
) -> list[PendingHunk | PendingMessage]:
    """Load the texts of these rows of `list_pending_texts`: messages first, then hunks, each from new to old."""
    is_message = pending.column("hunk_id").is_null()
    with register_tables(connection, pending=pending.filter(is_message)):
        messages = connection.execute(_MESSAGES).fetchall()
    # Ids are literals: with bound parameters DuckDB cannot skip row groups of other hunks.
    hunks = ", ".join(map(str, pending.column("hunk_id").drop_null().to_pylist()))
    rows = connection.execute(_HUNK_TEXTS.format(hunks=hunks)).fetchall() if hunks else []
    return [*(PendingMessage(*row) for row in messages), *(PendingHunk(*row) for row in rows)]
