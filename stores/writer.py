"""Write transactions of an index: batches of commits, HEAD symbols, start and end of an index run, deletion.

The functions that write, replace, record or delete commits are one transaction each, so a process that is killed loses
only the current one. Arrow tables come with documents (hunks or symbols) numbered from 0; here they get their ids.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stores import compatibility, index_location, locks, schema
from stores.compatibility import ComponentVersions
from stores.database import WRITE_WAIT_SECONDS, fetch_int, register_tables
from stores.duckdb_engine import SPILL_DIRECTORY
from stores.history import CacheUsage
from stores.index_location import DATABASE_FILE, LOCATION_FILE, IndexLocation
from stores.locks import Deadline
from stores.vectors import quantize_table

if TYPE_CHECKING:
    from stores.snapshot import Ints

Rows: TypeAlias = pa.Table | pa.RecordBatch

_KNOWN_TERMS: Final = "SELECT position, term_id FROM vocabulary_in JOIN terms USING (term)"
_NEXT_TERM_ID: Final = "SELECT coalesce(max(term_id) + 1, 0) FROM terms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows of a batch of commits, for one transaction.

    covered_commits: all commits of the batch; everything recorded for them is replaced. The tables have the columns
    of `schema`, with `hunk_id` and `document` counted from 0. vectors: rows of `schema.EMBEDDINGS`, which the
    transaction quantizes. unreadable: covered commits that could not be read.
    watermark: new watermark; None leaves it unchanged. unreached: covered commits that HEAD does not reach.
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
    unreached: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadChange:
    """Files of the HEAD snapshot to replace, with their new rows.

    replaced_paths: all paths whose rows are deleted, including those of the new files. The tables have the columns of
    `schema`, with `symbol_id` and `document` counted from 0.
    """

    replaced_paths: Sequence[str]
    files: Rows = field(default_factory=schema.HEAD_FILES.empty_table)
    symbols: Rows = field(default_factory=schema.HEAD_SYMBOLS.empty_table)
    chunks: Rows = field(default_factory=schema.HEAD_CHUNKS.empty_table)
    terms: Rows = field(default_factory=schema.DOCUMENT_TERMS.empty_table)


# The version of this run as `writer`, and the one that the newest finished run confirmed as `version`.
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
_COUNT_KNOWN: Final = """
SELECT count(*)
FROM (SELECT commit_sha FROM commits UNION ALL SELECT commit_sha FROM unreadable)
SEMI JOIN selected_commits USING (commit_sha)"""

# `NOT IN` a list of the used keys, because a list of the unused ones could be most of the table.
_DELETE_UNUSED: Final = (
    "DELETE FROM unreached WHERE commit_sha IN (SELECT commit_sha FROM selected_commits)",
    "DELETE FROM branch_tips WHERE commit_sha IN (SELECT commit_sha FROM selected_commits)",
    "DELETE FROM vectors WHERE text_digest NOT IN"
    " (SELECT text_digest FROM hunks UNION SELECT message_digest FROM commits)",
    "DELETE FROM terms WHERE term_id NOT IN (SELECT term_id FROM hunk_postings"
    " UNION SELECT term_id FROM symbol_postings UNION SELECT term_id FROM head_postings)",
)

_DELETE_FILES: Final = (
    "CREATE OR REPLACE TEMP TABLE selected_symbols AS"
    " SELECT symbol_id FROM head_symbols WHERE file_path IN (SELECT file_path FROM selected_files)",
    "DELETE FROM head_postings WHERE symbol_id IN (SELECT symbol_id FROM selected_symbols)",
    "DELETE FROM head_symbols WHERE file_path IN (SELECT file_path FROM selected_files)",
    "DELETE FROM head_chunks WHERE file_path IN (SELECT file_path FROM selected_files)",
    "DELETE FROM head_files WHERE file_path IN (SELECT file_path FROM selected_files)",
)

# Insert only commits that have rows. The others change only ignored files or could not be read.
_INSERT_UNREACHED: Final = """
INSERT INTO unreached
SELECT commit_sha FROM commits_in SEMI JOIN unreached_in USING (commit_sha) ANTI JOIN unreached USING (commit_sha)"""

# Skip the vectors that an earlier batch stored.
_INSERT_VECTORS: Final = """
INSERT INTO vectors FROM vectors_in ANTI JOIN vectors USING (text_digest)"""


def record_run_start(
    connection: duckdb.DuckDBPyConnection,
    location: IndexLocation,
    *,
    head: str,
    unreached: Sequence[str],
    components: ComponentVersions,
    branch_patterns: Sequence[str] = (),
) -> None:
    """Record the repository, the HEAD that the run will index, and the indexed commits that this HEAD does not reach.

    branch_patterns: patterns of refs that the run and later ones index besides HEAD.
    """
    rows = pa.table({"commit_sha": pa.array(unreached, pa.string())})
    # Paths may contain bytes that are not UTF-8, and the database stores only text.
    path = str(location.path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    insert = (
        "INSERT INTO repository SELECT ?, ?, ?, NULL, NULL, NULL, 0, NULL WHERE NOT EXISTS (FROM repository)"
    )
    with run_transaction(connection, unreached_in=rows):
        connection.execute(insert, [location.repo_id, path, location.first_commit])
        connection.execute("UPDATE repository SET path = ?, head_commit = ?", [path, head])
        connection.execute("DELETE FROM unreached")
        connection.execute("INSERT INTO unreached SELECT commit_sha FROM unreached_in")
        connection.execute("DELETE FROM branch_patterns")
        for pattern in branch_patterns:
            connection.execute("INSERT INTO branch_patterns VALUES (?)", [pattern])
        connection.execute("CREATE OR REPLACE TEMP TABLE metadata_before AS FROM metadata")
        connection.execute("DELETE FROM metadata")
        for name in compatibility.COMPONENT_NAMES:
            connection.execute(
                _INSERT_WRITER, [name, compatibility.get_component_version(components, name), name]
            )


def replace_batch(connection: duckdb.DuckDBPyConnection, batch: Batch) -> float:
    """Replace everything recorded for the covered commits, and move the watermark in the same transaction.

    Return the seconds spent on postings.
    """
    with run_transaction(
        connection,
        selected_commits=pa.table({"commit_sha": pa.array(batch.covered_commits, pa.string())}),
        commits_in=batch.commits,
        hunks_in=batch.hunks,
        hunk_symbols_in=batch.hunk_symbols,
        vectors_in=quantize_table(_drop_duplicates(batch.vectors)),
    ):
        if fetch_int(connection, _COUNT_KNOWN):
            _execute_all(connection, _DELETE_COMMITS)
        is_empty = not (batch.commits.num_rows or batch.vectors.num_rows)
        postings_seconds = 0.0 if is_empty else _insert_history(connection, batch)
        if batch.commits.num_rows:
            _record_row_versions(connection, compatibility.HISTORY_PART, batch.hunks)
        if batch.unreached:
            unreached = pa.table({"commit_sha": pa.array(batch.unreached, pa.string())})
            with register_tables(connection, unreached_in=unreached):
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

    vectors: rows of `schema.EMBEDDINGS`, which the transaction quantizes.
    completed_commit: with the last vectors of an index run, the HEAD that it has indexed completely.
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
    is_complete: bool = True,
    obsolete_commits: Sequence[str] = (),
    branch_tips: Collection[str] = (),
) -> ComponentVersions:
    """Move the watermark to `head` and record the component versions that are confirmed for all rows; return them.

    components: versions of the run. is_head_rebuilt: the run wrote all rows of the HEAD snapshot. is_complete: the HEAD
    snapshot is complete and every text has its vector; if not, this HEAD is not recorded as completed, so that the next
    run continues.
    obsolete_commits: unreadable commits that neither this HEAD nor a branch reaches. Their records are deleted, so that
    no run tries to read them again. branch_tips: commits of the refs that the run has indexed besides HEAD.
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
            version = compatibility.get_component_version(confirmed_versions, name)
            connection.execute("UPDATE metadata SET version = ? WHERE component = ?", [version, name])
        connection.execute(
            "UPDATE repository SET last_indexed_commit = ?, indexed_at = ?", [head, _get_current_time()]
        )
        # An earlier run with fewer branches may have completed this HEAD: clear its record.
        completed = "$head" if is_complete else "nullif(completed_commit, $head)"
        connection.execute(f"UPDATE repository SET completed_commit = {completed}", {"head": head})
    return confirmed_versions


def delete_commits(connection: duckdb.DuckDBPyConnection, shas: Sequence[str]) -> None:
    """Delete the rows of these commits, and the vectors and terms that nothing refers to any more."""
    with run_transaction(connection, selected_commits=pa.table({"commit_sha": pa.array(shas, pa.string())})):
        _execute_all(connection, _DELETE_COMMITS)
        _execute_all(connection, _DELETE_UNUSED)


def delete_index(location: IndexLocation, *, wait: float = WRITE_WAIT_SECONDS) -> None:
    """Delete the database, its write-ahead log and the files that belong to them.

    Lock files stay, because other processes may hold them. Raises ForeignFolder unless the directory is a
    direct child of `location.home`.
    """
    index_location.check_index_directory(location)
    if not location.folder.exists():
        return
    with locks.acquire_index(
        location.folder, exclusive=True, deadline=Deadline.for_index(location.folder, wait)
    ):
        # The log first: an old log would be replayed into a new database.
        files = sorted(location.folder.glob(f"{DATABASE_FILE}*"))
        for file in (location.wal, *files, location.folder / LOCATION_FILE):
            if file.is_dir() and not file.is_symlink():  # a directory with the name of a file
                shutil.rmtree(file)
            file.unlink(missing_ok=True)
        shutil.rmtree(location.folder / SPILL_DIRECTORY, ignore_errors=True)


def _record_row_versions(connection: duckdb.DuckDBPyConnection, part: str, rows: Rows) -> None:
    """Record the versions of this part's new rows; parsers only if there are rows in their language."""
    # Rows are compared in Python, because one SQL statement for this took an eighth of a batch's time.
    languages = rows.column("language").unique().to_pylist()
    components = {
        name
        for name in compatibility.COMPONENT_NAMES
        if part in compatibility.get_component_parts(name)
        and name.removeprefix("parser_") in (name, *languages)
    }
    writers = {(part, *row) for row in connection.execute(_WRITERS).fetchall() if row[0] in components}
    for row in sorted(writers.difference(connection.execute(_ROW_VERSIONS).fetchall())):
        connection.execute("INSERT INTO made_by VALUES (?, ?, ?)", row)


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
    """Return the first row of each text. In SQL, DuckDB would sort all vectors."""
    first_rows: dict[bytes, int] = {}
    for row, text in enumerate(vectors.column("text_digest").to_pylist()):
        first_rows.setdefault(text, row)
    return vectors if len(first_rows) == vectors.num_rows else vectors.take(list(first_rows.values()))


def _insert(connection: duckdb.DuckDBPyConnection, table: str, source: str, **offsets: int) -> None:
    """Insert the rows of the registered table `source` by column name; add the number of each offset to its column."""
    replacements = ", ".join(f"{column} + {offset} AS {column}" for column, offset in offsets.items())
    columns = f"* REPLACE ({replacements})" if replacements else "*"
    connection.execute(f"INSERT INTO {table} BY NAME SELECT {columns} FROM {source}")


def _execute_all(connection: duckdb.DuckDBPyConnection, statements: Sequence[str]) -> None:
    for statement in statements:
        connection.execute(statement)


def _get_current_time() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


@contextmanager
def run_transaction(connection: duckdb.DuckDBPyConnection, **rows: Rows) -> Iterator[None]:
    """Run the body in a transaction, with these tables readable under their names."""
    with register_tables(connection, **rows):
        connection.execute("BEGIN")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            with suppress(duckdb.Error):  # the failure may have ended the transaction or the instance
                connection.execute("ROLLBACK")
            raise


def insert_postings(
    connection: duckdb.DuckDBPyConnection, terms_by_table: Mapping[str, Rows], first_document: int
) -> float:
    """Insert the postings of a batch's documents, and the terms that are new; return the seconds this took.

    terms_by_table: rows of `schema.DOCUMENT_TERMS`, by postings table. first_document: number of the batch's first
    document. New terms are numbered by their first document, then alphabetically, so ids do not depend on the size of
    batches. The batch's postings are sorted by term. SQL, with a join per table, took twice the time.
    """
    started = time.perf_counter()
    occurrences = _TermOccurrences.from_term_rows(terms_by_table)
    if not len(occurrences.vocabulary):
        return 0.0
    term_ids = _assign_term_ids(connection, occurrences)[occurrences.vocabulary_indices]
    offsets = accumulate((rows.num_rows for rows in terms_by_table.values()), initial=0)
    for (table, rows), (start, end) in zip(terms_by_table.items(), pairwise(offsets), strict=True):
        table_ids, documents = term_ids[start:end], occurrences.documents[start:end]
        order = np.lexsort((documents, table_ids))
        postings = pa.table(
            {
                "term_id": table_ids[order],
                "document": documents[order] + first_document,
                "frequency": rows.column("frequency").take(pa.array(order)),
            }
        )
        with register_tables(connection, postings_in=postings):
            connection.execute(f"INSERT INTO {table} FROM postings_in")
    return time.perf_counter() - started


@dataclass(frozen=True, slots=True, eq=False)
class _TermOccurrences:
    """Occurrences of terms, one per row of the tables: its document and the index of its term in `vocabulary`."""

    documents: Ints
    vocabulary_indices: Ints
    vocabulary: pa.StringArray

    @classmethod
    def from_term_rows(cls, terms_by_table: Mapping[str, Rows]) -> _TermOccurrences:
        table = pa.concat_tables(
            pa.table(rows.columns, schema.DOCUMENT_TERMS) for rows in terms_by_table.values()
        )
        encoded = table.column("term").combine_chunks().dictionary_encode()
        return cls(table.column("document").to_numpy(), encoded.indices.to_numpy(), encoded.dictionary)

    def sort_vocabulary(self) -> Ints:
        """Return the indices of the vocabulary, sorted by the first document with the term, then alphabetically."""
        first_documents = np.full(len(self.vocabulary), np.iinfo(np.int64).max)
        np.minimum.at(first_documents, self.vocabulary_indices, self.documents)
        alphabetical = pc.sort_indices(self.vocabulary).to_numpy()
        order: Ints = alphabetical[np.argsort(first_documents[alphabetical], kind="stable")]
        return order


def _assign_term_ids(connection: duckdb.DuckDBPyConnection, occurrences: _TermOccurrences) -> Ints:
    """Return the id of each term of the vocabulary; new terms are inserted."""
    term_ids = np.full(len(occurrences.vocabulary), -1)
    vocabulary = pa.table({"position": np.arange(len(term_ids)), "term": occurrences.vocabulary})
    with register_tables(connection, vocabulary_in=vocabulary):
        known_terms = connection.execute(_KNOWN_TERMS).fetchnumpy()
    term_ids[known_terms["position"]] = known_terms["term_id"]
    order = occurrences.sort_vocabulary()
    new_terms = order[term_ids[order] < 0]
    if len(new_terms):
        term_ids[new_terms] = fetch_int(connection, _NEXT_TERM_ID) + np.arange(len(new_terms))
        terms = pa.table(
            {"term_id": term_ids[new_terms], "term": occurrences.vocabulary.take(pa.array(new_terms))}
        )
        with register_tables(connection, terms_in=terms):
            connection.execute("INSERT INTO terms FROM terms_in")
    return term_ids
