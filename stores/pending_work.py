"""Work that a recorded history leaves: texts without a vector, and rows that an outdated component wrote.

An index run first writes the rows of all commits, then the vectors of their texts. So these texts are the work that is
left, also after an interruption.

A refresh replaces the symbols and terms of recorded hunks that an outdated parser or term splitting wrote. Commits,
hunks, semantic texts and vectors stay. The recorded versions become current in the last transaction, so that an
interrupted refresh leaves the index outdated but consistent.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import duckdb
import pyarrow as pa

from stores.compatibility import HISTORY_PART
from stores.database import register_tables
from stores.writer import Rows, insert_postings, run_transaction

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

# The current version is recorded first, because rows may have it from the first batch on.
_RECORD_VERSIONS: Final = """
INSERT INTO made_by
SELECT $part, component, writer FROM metadata
WHERE component IN (SELECT unnest($components)) AND writer IS NOT NULL
EXCEPT FROM made_by"""
# The commits of stale hunks, oldest first. A rename that changes the suffix may come from a file of the language.
_STALE_HUNKS: Final = """
SELECT commit_sha, list(hunk_id) AS hunk_ids, list(file_path) AS file_paths, list(old_path) AS old_paths,
       list_transform(string_split(string_agg(diff, '\n') FILTER (content_kind = 'message'), '\n'),
                      lambda line: trim(line)) AS merged_paths
FROM hunks
WHERE list_contains($components, 'words_version')
   OR list_contains($components, 'parser_' || language)
   OR regexp_extract(old_path, '[^.]*$') <> regexp_extract(file_path, '[^.]*$')
GROUP BY commit_sha
ORDER BY min(hunk_id)"""
_DELETE_ROWS: Final = (
    "DELETE FROM hunk_symbols WHERE hunk_id IN (SELECT hunk_id FROM hunks_in)",
    "DELETE FROM hunk_postings WHERE hunk_id IN (SELECT hunk_id FROM hunks_in)",
    "DELETE FROM symbol_postings WHERE hunk_id IN (SELECT hunk_id FROM hunks_in)",
)
_UPDATE_WORD_COUNTS: Final = """
UPDATE hunks SET word_count = hunks_in.word_count, symbol_word_count = hunks_in.symbol_word_count
FROM hunks_in WHERE hunks.hunk_id = hunks_in.hunk_id"""
# The new postings are at the end of their tables.
_UPDATE_CLUSTERED_HUNKS: Final = """
UPDATE repository SET clustered_hunks = least(clustered_hunks, (SELECT min(hunk_id) FROM hunks_in))"""
_DELETE_OUTDATED_VERSIONS: Final = """
DELETE FROM made_by USING metadata
WHERE made_by.component = metadata.component
  AND part = $part
  AND made_by.component IN (SELECT unnest($components))
  AND made_by.version IS DISTINCT FROM writer"""
_DELETE_UNUSED_TERMS: Final = """
DELETE FROM terms WHERE term_id NOT IN (
    SELECT term_id FROM hunk_postings
    UNION SELECT term_id FROM symbol_postings
    UNION SELECT term_id FROM head_postings
)"""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshedRows:
    """New symbols and terms of recorded hunks.

    The tables have the columns of `schema`, with the recorded `hunk_id`, which is also the `document` of terms; of
    `hunks` only the word counts are used.
    """

    hunks: Rows
    hunk_symbols: Rows
    hunk_terms: Rows
    symbol_terms: Rows


def start_refresh(connection: duckdb.DuckDBPyConnection, components: Collection[str]) -> pa.Table:
    """Return the commits whose hunks depend on these components: sha, hunk ids, paths and old paths of each.

    `merged_paths`: files that the message of a clean merge lists.
    """
    parameters = {"components": list(components)}
    with run_transaction(connection):
        connection.execute(_RECORD_VERSIONS, {"part": HISTORY_PART, **parameters})
        return connection.execute(_STALE_HUNKS, parameters).to_arrow_table()


def replace_rows(connection: duckdb.DuckDBPyConnection, rows: RefreshedRows) -> float:
    """Replace the symbols and terms of these hunks; return the seconds spent on inserting postings."""
    with run_transaction(connection, hunks_in=rows.hunks, hunk_symbols_in=rows.hunk_symbols):
        for statement in (*_DELETE_ROWS, _UPDATE_WORD_COUNTS, _UPDATE_CLUSTERED_HUNKS):
            connection.execute(statement)
        connection.execute("INSERT INTO hunk_symbols BY NAME FROM hunk_symbols_in")
        terms_by_table = {"hunk_postings": rows.hunk_terms, "symbol_postings": rows.symbol_terms}
        return insert_postings(connection, terms_by_table, 0)


def finish_refresh(connection: duckdb.DuckDBPyConnection, components: Collection[str]) -> None:
    """Record that every row of the history by these components has the current version, and delete unused terms."""
    with run_transaction(connection):
        connection.execute(_DELETE_OUTDATED_VERSIONS, {"part": HISTORY_PART, "components": list(components)})
        connection.execute(_DELETE_UNUSED_TERMS)
