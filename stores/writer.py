"""Write transactions of an index: start and end of an index run, commits, vectors, HEAD symbols, refresh, deletion.

Each public function is one transaction, so a process that is killed loses only the current one. In the rows of a batch,
hunks or symbols are numbered from 0; the transaction adds the first free id.

A refresh replaces the symbols and terms of recorded hunks if an outdated parser or term splitting wrote them. Commits,
hunks, semantic texts and vectors stay. The outdated versions stay recorded until the last transaction, so an
interrupted refresh leaves the index outdated but consistent.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from typing import Final

import duckdb
import pyarrow as pa

from stores import compatibility, schema
from stores.compatibility import ComponentVersions
from stores.database import fetch_int, register_tables, run_transaction
from stores.fulltext import insert_postings
from stores.history import CacheUsage
from stores.index_location import IndexLocation
from stores.schema import Rows
from stores.vectors import quantize_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows of a batch of commits, for one transaction.

    The tables have the columns of `schema`, with `hunk_id` and `document` counted from 0.

    - `covered_commits`: all commits of the batch. Everything recorded for them is replaced.
    - `vectors`: rows of `schema.EMBEDDINGS`, which the transaction quantizes.
    - `unreadable`: commits of the batch that could not be read.
    - `watermark`: new watermark; None leaves it unchanged.
    - `unreachable`: commits of the batch that HEAD does not reach.
    """

    covered_commits: Sequence[str] = ()
    commits: Rows = field(default_factory=schema.COMMITS.empty_table)
    hunks: Rows = field(default_factory=schema.HUNKS.empty_table)
    hunk_symbols: Rows = field(default_factory=schema.HUNK_SYMBOLS.empty_table)
    vectors: Rows = field(default_factory=schema.EMBEDDINGS.empty_table)
    hunk_terms: Rows = field(default_factory=schema.DOCUMENT_TERMS.empty_table)
    symbol_terms: Rows = field(default_factory=schema.DOCUMENT_TERMS.empty_table)
    unreadable: Rows = field(default_factory=schema.UNREADABLE.empty_table)
    watermark: str | None = None
    unreachable: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadChange:
    """Files of the HEAD snapshot to replace, with their new rows.

    The tables have the columns of `schema`, with `symbol_id` and `document` counted from 0. `replaced_paths`: all paths
    whose recorded rows are deleted, including those of the new files.
    """

    replaced_paths: Sequence[str]
    files: Rows = field(default_factory=schema.HEAD_FILES.empty_table)
    symbols: Rows = field(default_factory=schema.HEAD_SYMBOLS.empty_table)
    chunks: Rows = field(default_factory=schema.HEAD_CHUNKS.empty_table)
    terms: Rows = field(default_factory=schema.DOCUMENT_TERMS.empty_table)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshedRows:
    """New symbols and terms of recorded hunks.

    The tables have the columns of `schema`. Unlike in `Batch`, `hunk_id` and `document` are the recorded hunk ids.
    Of `hunks`, only the ids and word counts are used.
    """

    hunks: Rows
    hunk_symbols: Rows
    hunk_terms: Rows
    symbol_terms: Rows


# `writer` becomes the version that this run writes with. `version` stays that of the newest finished run.
_INSERT_WRITER: Final = """
INSERT INTO metadata SELECT ?, any_value(version), ? FROM metadata_before WHERE component = ?"""
_WRITERS: Final = "SELECT component, writer FROM metadata WHERE writer IS NOT NULL"
_ROW_VERSIONS: Final = "SELECT part, component, version FROM made_by"

_DELETE_COMMITS: Final = (
    "CREATE OR REPLACE TEMP TABLE selected_hunks AS"
    " SELECT hunk_id FROM hunks WHERE commit_sha IN (SELECT commit_sha FROM selected_commits)",
    "DELETE FROM hunk_postings WHERE hunk_id IN (SELECT hunk_id FROM selected_hunks)",
    "DELETE FROM symbol_postings WHERE hunk_id IN (SELECT hunk_id FROM selected_hunks)",
    "DELETE FROM hunk_symbols WHERE hunk_id IN (SELECT hunk_id FROM selected_hunks)",
    "DELETE FROM hunks WHERE hunk_id IN (SELECT hunk_id FROM selected_hunks)",
    "DELETE FROM commits WHERE commit_sha IN (SELECT commit_sha FROM selected_commits)",
    "DELETE FROM unreadable WHERE commit_sha IN (SELECT commit_sha FROM selected_commits)",
)
_COUNT_RECORDED: Final = """
SELECT count(*)
FROM (SELECT commit_sha FROM commits UNION ALL SELECT commit_sha FROM unreadable)
SEMI JOIN selected_commits USING (commit_sha)"""

# `NOT IN` the used keys instead of `IN` the unused ones, which could be most of the table.
_DELETE_UNUSED_TERMS: Final = """
DELETE FROM terms WHERE term_id NOT IN (
    SELECT term_id FROM hunk_postings
    UNION SELECT term_id FROM symbol_postings
    UNION SELECT term_id FROM head_postings
)"""
_DELETE_UNUSED: Final = (
    "DELETE FROM unreached WHERE commit_sha IN (SELECT commit_sha FROM selected_commits)",
    "DELETE FROM branch_tips WHERE commit_sha IN (SELECT commit_sha FROM selected_commits)",
    "DELETE FROM vectors WHERE text_digest NOT IN"
    " (SELECT text_digest FROM hunks UNION SELECT message_digest FROM commits)",
    _DELETE_UNUSED_TERMS,
)

_DELETE_FILES: Final = (
    "CREATE OR REPLACE TEMP TABLE selected_symbols AS"
    " SELECT symbol_id FROM head_symbols WHERE file_path IN (SELECT file_path FROM selected_files)",
    "DELETE FROM head_postings WHERE symbol_id IN (SELECT symbol_id FROM selected_symbols)",
    "DELETE FROM head_symbols WHERE file_path IN (SELECT file_path FROM selected_files)",
    "DELETE FROM head_chunks WHERE file_path IN (SELECT file_path FROM selected_files)",
    "DELETE FROM head_files WHERE file_path IN (SELECT file_path FROM selected_files)",
)

# Only commits that have rows are inserted. Commits without rows change only ignored files, or could not be read.
_INSERT_UNREACHED: Final = """
INSERT INTO unreached
SELECT commit_sha FROM commits_in SEMI JOIN unreached_in USING (commit_sha) ANTI JOIN unreached USING (commit_sha)"""

# The join skips the vectors that an earlier batch stored.
_INSERT_VECTORS: Final = """
INSERT INTO vectors FROM vectors_in ANTI JOIN vectors USING (text_digest)"""

# Records the current versions before the first batch of a refresh, because from then on rows may have them.
_RECORD_NEW_VERSIONS: Final = """
INSERT INTO made_by
SELECT $part, component, writer FROM metadata
WHERE component IN (SELECT unnest($components)) AND writer IS NOT NULL
EXCEPT FROM made_by"""
# Commits with hunks that depend on the components, oldest first. Renames to another suffix are included, because the
# old file may be in a parser's language. `merged_paths`: files that a clean merge lists in the `diff` of its only row.
_OUTDATED_HUNKS: Final = """
SELECT commit_sha, list(hunk_id) AS hunk_ids, list(file_path) AS file_paths, list(old_path) AS old_paths,
       list_transform(string_split(string_agg(diff, '\n') FILTER (content_kind = 'message'), '\n'),
                      lambda line: trim(line)) AS merged_paths
FROM hunks
WHERE list_contains($components, 'words_version')
   OR list_contains($components, 'parser_' || language)
   OR regexp_extract(old_path, '[^.]*$') <> regexp_extract(file_path, '[^.]*$')
GROUP BY commit_sha
ORDER BY min(hunk_id)"""
_DELETE_SYMBOLS_AND_POSTINGS: Final = (
    "DELETE FROM hunk_symbols WHERE hunk_id IN (SELECT hunk_id FROM hunks_in)",
    "DELETE FROM hunk_postings WHERE hunk_id IN (SELECT hunk_id FROM hunks_in)",
    "DELETE FROM symbol_postings WHERE hunk_id IN (SELECT hunk_id FROM hunks_in)",
)
_UPDATE_WORD_COUNTS: Final = """
UPDATE hunks SET word_count = hunks_in.word_count, symbol_word_count = hunks_in.symbol_word_count
FROM hunks_in WHERE hunks.hunk_id = hunks_in.hunk_id"""
# Postings of hunks below `clustered_hunks` are sorted by term. Postings of refreshed hunks are appended unsorted.
_UPDATE_CLUSTERED_HUNKS: Final = """
UPDATE repository SET clustered_hunks = least(clustered_hunks, (SELECT min(hunk_id) FROM hunks_in))"""
_DELETE_OUTDATED_VERSIONS: Final = """
DELETE FROM made_by USING metadata
WHERE made_by.component = metadata.component
  AND part = $part
  AND made_by.component IN (SELECT unnest($components))
  AND made_by.version IS DISTINCT FROM writer"""


def record_run_start(
    connection: duckdb.DuckDBPyConnection,
    location: IndexLocation,
    *,
    head: str,
    unreachable: Sequence[str],
    components: ComponentVersions,
    branch_patterns: Sequence[str],
) -> None:
    """Record the repository, and HEAD, component versions and branch patterns of a new index run.

    `head`: HEAD that the run will index. `unreachable`: recorded commits that this HEAD does not reach. `components`:
    versions of the run. `branch_patterns`: patterns of refs that this run and later ones index besides HEAD.
    """
    rows = pa.table({"commit_sha": pa.array(unreachable, pa.string())})
    # Paths may contain bytes that are not UTF-8, and the database stores only text.
    path = str(location.path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    insert = (
        "INSERT INTO repository SELECT ?, ?, ?, NULL, NULL, NULL, 0, NULL WHERE NOT EXISTS (FROM repository)"
    )
    patterns = pa.table({"pattern": pa.array(branch_patterns, pa.string())})
    with run_transaction(connection, unreached_in=rows, patterns_in=patterns):
        connection.execute(insert, [location.repo_id, path, location.first_commit])
        connection.execute("UPDATE repository SET path = ?, head_commit = ?", [path, head])
        connection.execute("DELETE FROM unreached")
        connection.execute("INSERT INTO unreached SELECT commit_sha FROM unreached_in")
        connection.execute("DELETE FROM branch_patterns")
        connection.execute("INSERT INTO branch_patterns SELECT pattern FROM patterns_in")
        connection.execute("CREATE OR REPLACE TEMP TABLE metadata_before AS FROM metadata")
        connection.execute("DELETE FROM metadata")
        for name in compatibility.COMPONENT_NAMES:
            connection.execute(_INSERT_WRITER, [name, components.get(name), name])


def replace_batch(connection: duckdb.DuckDBPyConnection, batch: Batch) -> float:
    """Replace everything recorded for the commits of a batch, and move the watermark in the same transaction.

    Returns the seconds spent on postings.
    """
    with run_transaction(
        connection,
        selected_commits=pa.table({"commit_sha": pa.array(batch.covered_commits, pa.string())}),
        commits_in=batch.commits,
        hunks_in=batch.hunks,
        hunk_symbols_in=batch.hunk_symbols,
        vectors_in=quantize_table(_drop_duplicates(batch.vectors)),
    ):
        if fetch_int(connection, _COUNT_RECORDED):
            _execute_all(connection, _DELETE_COMMITS)
        is_empty = not (batch.commits.num_rows or batch.vectors.num_rows)
        postings_seconds = 0.0 if is_empty else _insert_history(connection, batch)
        if batch.commits.num_rows:
            _record_row_versions(connection, compatibility.HISTORY_PART, batch.hunks)
        if batch.unreachable:
            rows = pa.table({"commit_sha": pa.array(batch.unreachable, pa.string())})
            with register_tables(connection, unreached_in=rows):
                connection.execute(_INSERT_UNREACHED)
        if batch.unreadable.num_rows:
            with register_tables(connection, unreadable_in=batch.unreadable):
                connection.execute("INSERT INTO unreadable SELECT commit_sha, reason FROM unreadable_in")
        if batch.watermark is not None:
            connection.execute(
                "UPDATE repository SET last_indexed_commit = ?, indexed_at = ?",
                [batch.watermark, _get_current_time()],
            )
    return postings_seconds


def write_vectors(
    connection: duckdb.DuckDBPyConnection,
    vectors: Rows,
    *,
    cache_usage: CacheUsage | None = None,
    completed_commit: str | None = None,
) -> None:
    """Insert the vectors of texts that have none, and record the usage of the embedding cache by the run so far.

    `vectors`: rows of `schema.EMBEDDINGS`, which the transaction quantizes. `cache_usage`: None leaves the record
    unchanged. `completed_commit`: HEAD, once the run has indexed it completely; None while vectors are missing.
    """
    with run_transaction(connection, vectors_in=quantize_table(_drop_duplicates(vectors))):
        connection.execute(_INSERT_VECTORS)
        if cache_usage is not None and cache_usage.requested_texts:
            connection.execute("DELETE FROM embed_cache")
            connection.execute("INSERT INTO embed_cache VALUES (?, ?, ?)", astuple(cache_usage))
        if completed_commit is not None:
            connection.execute("UPDATE repository SET completed_commit = ?", [completed_commit])


def replace_head(connection: duckdb.DuckDBPyConnection, change: HeadChange) -> float:
    """Replace the rows of these files in the HEAD snapshot; return the seconds spent on postings."""
    with run_transaction(
        connection,
        selected_files=pa.table({"file_path": pa.array(change.replaced_paths, pa.string())}),
        files_in=change.files,
        symbols_in=change.symbols,
        chunks_in=change.chunks,
    ):
        _execute_all(connection, _DELETE_FILES)
        first_symbol = fetch_int(connection, "SELECT coalesce(max(symbol_id) + 1, 0) FROM head_symbols")
        _insert(connection, "head_files", "files_in")
        _insert(connection, "head_symbols", "symbols_in", symbol_id=first_symbol)
        _insert(connection, "head_chunks", "chunks_in")
        if change.files.num_rows:
            _record_row_versions(connection, compatibility.HEAD_PART, change.files)
        return insert_postings(connection, {"head_postings": change.terms}, first_symbol)


def record_run_end(
    connection: duckdb.DuckDBPyConnection,
    head: str,
    components: ComponentVersions,
    *,
    is_head_rebuilt: bool,
    is_complete: bool,
    branch_tips: Collection[str],
    obsolete_commits: Sequence[str] = (),
) -> ComponentVersions:
    """Move the watermark to `head`. Record and return the component versions that are confirmed for all rows.

    - `components`: versions of the run.
    - `is_head_rebuilt`: True if the run wrote all rows of the HEAD snapshot.
    - `is_complete`: True if the HEAD snapshot is complete and every text has its vector. If False, this HEAD is not
      recorded as completed, so that the next run continues.
    - `branch_tips`: commits of the refs that the run has indexed besides HEAD.
    - `obsolete_commits`: unreadable commits that neither this HEAD nor a branch reaches. Their records are deleted, so
      that no run tries to read them again.
    """
    rows = pa.table({"commit_sha": pa.array(obsolete_commits, pa.string())})
    tips = pa.table({"commit_sha": pa.array(sorted(branch_tips), pa.string())})
    with run_transaction(connection, obsolete_in=rows, tips_in=tips):
        connection.execute("DELETE FROM branch_tips; INSERT INTO branch_tips SELECT commit_sha FROM tips_in")
        connection.execute("DELETE FROM unreadable WHERE commit_sha IN (SELECT commit_sha FROM obsolete_in)")
        if is_head_rebuilt:
            _delete_outdated_head_versions(connection)
        row_versions = compatibility.load_recorded_versions(connection).row_versions
        confirmed_versions = compatibility.confirm_versions(row_versions, components)
        for name in compatibility.COMPONENT_NAMES:
            version = confirmed_versions.get(name)
            connection.execute("UPDATE metadata SET version = ? WHERE component = ?", [version, name])
        connection.execute(
            "UPDATE repository SET last_indexed_commit = ?, indexed_at = ?", [head, _get_current_time()]
        )
        # An earlier run with fewer branches may have recorded this HEAD as complete. An incomplete run clears that.
        completed = "$head" if is_complete else "nullif(completed_commit, $head)"
        connection.execute(f"UPDATE repository SET completed_commit = {completed}", {"head": head})
    return confirmed_versions


def start_refresh(connection: duckdb.DuckDBPyConnection, components: Collection[str]) -> pa.Table:
    """Record the current versions of these components; return the commits whose hunks depend on the components.

    The columns are those of _OUTDATED_HUNKS.
    """
    parameters = {"components": list(components)}
    with run_transaction(connection):
        connection.execute(_RECORD_NEW_VERSIONS, {"part": compatibility.HISTORY_PART, **parameters})
        return connection.execute(_OUTDATED_HUNKS, parameters).to_arrow_table()


def refresh_rows(connection: duckdb.DuckDBPyConnection, rows: RefreshedRows) -> float:
    """Replace the symbols and terms of these hunks; return the seconds spent on inserting postings."""
    with run_transaction(connection, hunks_in=rows.hunks, hunk_symbols_in=rows.hunk_symbols):
        _execute_all(connection, _DELETE_SYMBOLS_AND_POSTINGS)
        connection.execute(_UPDATE_WORD_COUNTS)
        connection.execute(_UPDATE_CLUSTERED_HUNKS)
        connection.execute("INSERT INTO hunk_symbols BY NAME FROM hunk_symbols_in")
        terms_by_table = {"hunk_postings": rows.hunk_terms, "symbol_postings": rows.symbol_terms}
        return insert_postings(connection, terms_by_table, first_document_id=0)


def finish_refresh(connection: duckdb.DuckDBPyConnection, components: Collection[str]) -> None:
    """Record that all rows of these components in the history have the current version. Delete unused terms."""
    with run_transaction(connection):
        connection.execute(
            _DELETE_OUTDATED_VERSIONS, {"part": compatibility.HISTORY_PART, "components": list(components)}
        )
        connection.execute(_DELETE_UNUSED_TERMS)


def delete_commits(connection: duckdb.DuckDBPyConnection, shas: Sequence[str]) -> None:
    """Delete the rows of these commits, and the vectors and terms that nothing refers to any more."""
    with run_transaction(connection, selected_commits=pa.table({"commit_sha": pa.array(shas, pa.string())})):
        _execute_all(connection, _DELETE_COMMITS)
        _execute_all(connection, _DELETE_UNUSED)


def _record_row_versions(connection: duckdb.DuckDBPyConnection, part: str, rows: Rows) -> None:
    """Record the versions of the components that wrote these rows of a part.

    Parsers are recorded only if there are rows in their language.
    """
    # Versions are compared in Python, because an SQL statement that does it took an eighth of a batch's time.
    languages = rows.column("language").unique().to_pylist()
    components = {
        name
        for name in compatibility.COMPONENT_NAMES
        if part in compatibility.get_component_parts(name) and _is_used(name, languages)
    }
    writers = {(part, *row) for row in connection.execute(_WRITERS).fetchall() if row[0] in components}
    for row in sorted(writers.difference(connection.execute(_ROW_VERSIONS).fetchall())):
        connection.execute("INSERT INTO made_by VALUES (?, ?, ?)", row)


def _is_used(component: str, languages: Collection[str | None]) -> bool:
    """Return whether the component writes rows for files in these languages. Only parsers depend on the language."""
    language = component.removeprefix("parser_")
    return language == component or language in languages


def _delete_outdated_head_versions(connection: duckdb.DuckDBPyConnection) -> None:
    """Delete the recorded versions of HEAD rows, except those of this run."""
    connection.execute(
        "DELETE FROM made_by WHERE part = ? AND (component, version) NOT IN"
        " (SELECT component, writer FROM metadata WHERE writer IS NOT NULL)"
        " OR part = ? AND version IS NULL",
        [compatibility.HEAD_PART, compatibility.HEAD_PART],
    )


def _insert_history(connection: duckdb.DuckDBPyConnection, batch: Batch) -> float:
    """Insert the rows of a batch; return the seconds spent on postings."""
    first_hunk = fetch_int(connection, "SELECT coalesce(max(hunk_id) + 1, 0) FROM hunks")
    _insert(connection, "commits", "commits_in")
    _insert(connection, "hunks", "hunks_in", hunk_id=first_hunk)
    _insert(connection, "hunk_symbols", "hunk_symbols_in", hunk_id=first_hunk)
    connection.execute(_INSERT_VECTORS)
    terms_by_table = {"hunk_postings": batch.hunk_terms, "symbol_postings": batch.symbol_terms}
    return insert_postings(connection, terms_by_table, first_hunk)


def _drop_duplicates(vectors: Rows) -> Rows:
    """Return the first row of each text. This is not done in SQL, because DuckDB would sort all vectors."""
    first_rows: dict[bytes, int] = {}
    for row, text_digest in enumerate(vectors.column("text_digest").to_pylist()):
        first_rows.setdefault(text_digest, row)
    return vectors if len(first_rows) == vectors.num_rows else vectors.take(list(first_rows.values()))


def _insert(connection: duckdb.DuckDBPyConnection, table: str, source: str, **offsets: int) -> None:
    """Insert the rows of the registered table `source` by column name. `offsets`: numbers to add to columns."""
    replacements = ", ".join(f"{column} + {offset} AS {column}" for column, offset in offsets.items())
    columns = f"* REPLACE ({replacements})" if replacements else "*"
    connection.execute(f"INSERT INTO {table} BY NAME SELECT {columns} FROM {source}")


def _execute_all(connection: duckdb.DuckDBPyConnection, statements: Sequence[str]) -> None:
    for statement in statements:
        connection.execute(statement)


def _get_current_time() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
