"""Words of documents -> numbered terms, and postings that name them by number.

The database is asked once which words it has; the rest is arithmetic on columns. In SQL, with a join for each table,
it was twice the work.

Write an index: a batch of commits, HEAD's symbols, the beginning and the end of a pass, its deletion.

Each function is one transaction, so that a kill at any moment leaves the last one that ended. Rows come
as Arrow tables whose documents are counted from 0; the store numbers them, and their words, inside the
transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stores import schema
from stores.database import registered

if TYPE_CHECKING:
    import duckdb

    from stores.snapshot import Ints


import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, field
from datetime import UTC, datetime

import duckdb

from stores import compatibility, index_location, locks
from stores.compatibility import Components
from stores.database import WRITE_WAIT_SECONDS
from stores.duckdb_engine import SPILL
from stores.history import Use
from stores.index_location import DATABASE, PLACE, Place
from stores.locks import Deadline

Rows: TypeAlias = pa.Table | pa.RecordBatch

_KNOWN: Final = "SELECT place, term_id FROM asked_words JOIN terms ON word = term"
_NEXT: Final = "SELECT coalesce(max(term_id) + 1, 0) FROM terms"


def write(connection: duckdb.DuckDBPyConnection, words: Mapping[str, Rows], shift: int) -> None:
    """Insert the postings of a batch's documents, and the words that no document had before.

    `words`: by table of postings, rows as in `schema.WORDS`. `shift`: the number of the batch's first document.
    A word gets its number when it first appears: in the order of documents, then of the alphabet. So the numbers do
    not depend on how the documents were cut into batches. By number within a batch: each is a short clustered run.
    """
    said = _Said.of(words)
    if not len(said.vocabulary):
        return
    numbers = _numbers(connection, said)[said.words]
    ends = accumulate((rows.num_rows for rows in words.values()), initial=0)
    for (table, rows), (start, end) in zip(words.items(), pairwise(ends), strict=True):
        term_ids, documents = numbers[start:end], said.documents[start:end]
        order = np.lexsort((documents, term_ids))
        postings = pa.table(
            {
                "term_id": term_ids[order],
                "document": documents[order] + shift,
                "frequency": rows.column("frequency").take(pa.array(order)),
            }
        )
        with registered(connection, postings_in=postings):
            connection.execute(f"INSERT INTO {table} FROM postings_in")


@dataclass(frozen=True, slots=True, eq=False)
class _Said:
    """Row by row, which document says which word of the vocabulary."""

    documents: Ints
    words: Ints
    vocabulary: pa.StringArray

    @classmethod
    def of(cls, words: Mapping[str, Rows]) -> _Said:
        parts = pa.concat_tables(pa.table(rows.columns, schema.WORDS) for rows in words.values())
        coded = parts.column("term").combine_chunks().dictionary_encode()
        return cls(parts.column("document").to_numpy(), coded.indices.to_numpy(), coded.dictionary)

    def in_order(self) -> Ints:
        """The vocabulary's places, by the first document with the word, then by the alphabet."""
        first = np.full(len(self.vocabulary), np.iinfo(np.int64).max)
        np.minimum.at(first, self.words, self.documents)
        by_alphabet = pc.sort_indices(self.vocabulary).to_numpy()
        in_order: Ints = by_alphabet[np.argsort(first[by_alphabet], kind="stable")]
        return in_order


def _numbers(connection: duckdb.DuckDBPyConnection, said: _Said) -> Ints:
    """The number of each word of the vocabulary; those that had none are now recorded with theirs."""
    numbers = np.full(len(said.vocabulary), -1)
    asked = pa.table({"place": np.arange(len(numbers)), "word": said.vocabulary})
    with registered(connection, asked_words=asked):
        known = connection.execute(_KNOWN).fetchnumpy()
    numbers[known["place"]] = known["term_id"]
    in_order = said.in_order()
    fresh = in_order[numbers[in_order] < 0]
    if len(fresh):
        numbers[fresh] = connection.execute(_NEXT).fetchall()[0][0] + np.arange(len(fresh))
        terms = pa.table({"number": numbers[fresh], "word": said.vocabulary.take(pa.array(fresh))})
        with registered(connection, terms_in=terms):
            connection.execute("INSERT INTO terms FROM terms_in")
    return numbers


def nothing(of: pa.Schema) -> pa.Table:
    """No rows of this schema."""
    return of.empty_table()


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Everything a stretch of the walk gives, as one transaction.

    `covered`: every commit of the stretch; what the index has of them is replaced. Row fields are as in
    `schema`, with `hunk_id` and `document` counted from 0. `unreadable`: those of the covered that could
    not be read. `watermark`: where the walk stands after this batch; None leaves it. `cache`: what the pass has had
    of the embedding cache so far.
    """

    covered: Sequence[str] = ()
    commits: Rows = field(default_factory=lambda: nothing(schema.COMMITS))
    hunks: Rows = field(default_factory=lambda: nothing(schema.HUNKS))
    hunk_symbols: Rows = field(default_factory=lambda: nothing(schema.HUNK_SYMBOLS))
    vectors: Rows = field(default_factory=lambda: nothing(schema.VECTORS))
    hunk_words: Rows = field(default_factory=lambda: nothing(schema.WORDS))
    symbol_words: Rows = field(default_factory=lambda: nothing(schema.WORDS))
    unreadable: Rows = field(default_factory=lambda: nothing(schema.UNREADABLE))
    watermark: str | None = None
    cache: Use | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadChange:
    """Files of the HEAD snapshot to replace, and what now stands in their place.

    `replaced_paths`: every path whose rows go, the new files' own included; row fields as in `schema`,
    with `symbol_id` and `document` counted from 0.
    """

    replaced_paths: Sequence[str]
    files: Rows = field(default_factory=lambda: nothing(schema.HEAD_FILES))
    symbols: Rows = field(default_factory=lambda: nothing(schema.HEAD_SYMBOLS))
    chunks: Rows = field(default_factory=lambda: nothing(schema.HEAD_CHUNKS))
    words: Rows = field(default_factory=lambda: nothing(schema.WORDS))


@dataclass(frozen=True, slots=True)
class Spent:
    """Where the time of a write went, in seconds: `full_text` is part of the whole."""

    full_text: float = 0.0


# What this pass writes with, beside what the last one that ended vouched for.
_NOTE_WRITER: Final = """
INSERT INTO metadata SELECT ?, any_value(version), ? FROM metadata_before WHERE component = ?"""
_WRITERS: Final = "SELECT component, writer FROM metadata WHERE writer IS NOT NULL"
_NOTED: Final = "SELECT part, component, version FROM made_by"

_FORGET_COMMITS: Final = (
    "CREATE OR REPLACE TEMP TABLE replaced AS"
    " SELECT hunk_id FROM hunks WHERE commit_sha IN (SELECT commit_sha FROM covered)",
    "DELETE FROM hunk_postings WHERE hunk_id IN (SELECT hunk_id FROM replaced)",
    "DELETE FROM symbol_postings WHERE hunk_id IN (SELECT hunk_id FROM replaced)",
    "DELETE FROM hunk_symbols WHERE hunk_id IN (SELECT hunk_id FROM replaced)",
    "DELETE FROM hunks WHERE hunk_id IN (SELECT hunk_id FROM replaced)",
    "DELETE FROM commits WHERE commit_sha IN (SELECT commit_sha FROM covered)",
    "DELETE FROM unreadable WHERE commit_sha IN (SELECT commit_sha FROM covered)",
)
_HOW_MANY_ARE_KNOWN: Final = """
SELECT count(*)
FROM (SELECT commit_sha FROM commits UNION ALL SELECT commit_sha FROM unreadable)
SEMI JOIN covered USING (commit_sha)"""

# Each digest and number is looked for among those in use; a list of those to delete may be most of the table.
_FORGET_UNUSED: Final = (
    "DELETE FROM unreached WHERE commit_sha IN (SELECT commit_sha FROM covered)",
    "DELETE FROM vectors WHERE text_digest NOT IN"
    " (SELECT text_digest FROM hunks UNION SELECT message_digest FROM commits)",
    "DELETE FROM terms WHERE term_id NOT IN (SELECT term_id FROM hunk_postings"
    " UNION SELECT term_id FROM symbol_postings UNION SELECT term_id FROM head_postings)",
)

_FORGET_FILES: Final = (
    "CREATE OR REPLACE TEMP TABLE replaced AS"
    " SELECT symbol_id FROM head_symbols WHERE file_path IN (SELECT file_path FROM covered)",
    "DELETE FROM head_postings WHERE symbol_id IN (SELECT symbol_id FROM replaced)",
    "DELETE FROM head_symbols WHERE file_path IN (SELECT file_path FROM covered)",
    "DELETE FROM head_chunks WHERE file_path IN (SELECT file_path FROM covered)",
    "DELETE FROM head_files WHERE file_path IN (SELECT file_path FROM covered)",
)

# An earlier batch may have had the text.
_INSERT_VECTORS: Final = """
INSERT INTO vectors SELECT text_digest, embedding FROM vectors_in ANTI JOIN vectors USING (text_digest)"""


def begin_pass(
    connection: duckdb.DuckDBPyConnection,
    place: Place,
    *,
    head: str,
    unreached: Sequence[str],
    components: Components,
) -> None:
    """Note whose index this is, which HEAD the pass aims at, and which recorded commits it does not reach."""
    rows = pa.table({"commit_sha": pa.array(unreached, pa.string())})
    # A path may have bytes that are no text, and the database holds only text.
    path = str(place.path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    with _transaction(connection, unreached_in=rows):
        connection.execute(
            "INSERT INTO repository SELECT ?, ?, ?, NULL, NULL, NULL, 0, NULL WHERE NOT EXISTS (FROM repository)",
            [place.repo_id, path, place.first_commit],
        )
        connection.execute("UPDATE repository SET path = ?, head_commit = ?", [path, head])
        connection.execute("DELETE FROM unreached")
        connection.execute("INSERT INTO unreached SELECT commit_sha FROM unreached_in")
        connection.execute("CREATE OR REPLACE TEMP TABLE metadata_before AS FROM metadata")
        connection.execute("DELETE FROM metadata")
        for name in compatibility.NAMES:
            connection.execute(_NOTE_WRITER, [name, compatibility.version(components, name), name])


def replace_batch(connection: duckdb.DuckDBPyConnection, batch: Batch) -> Spent:
    """Replace everything known of the covered commits, and move the watermark with it."""
    with _transaction(
        connection,
        covered=pa.table({"commit_sha": pa.array(batch.covered, pa.string())}),
        commits_in=batch.commits,
        hunks_in=batch.hunks,
        hunk_symbols_in=batch.hunk_symbols,
        vectors_in=_distinct(batch.vectors),
    ):
        if _one(connection, _HOW_MANY_ARE_KNOWN):
            _run(connection, _FORGET_COMMITS)
        empty = not (batch.commits.num_rows or batch.vectors.num_rows)
        spent = Spent() if empty else _insert_history(connection, batch)
        if batch.commits.num_rows:
            _note_made(connection, compatibility.HISTORY, batch.hunks)
        if batch.unreadable.num_rows:
            with registered(connection, unreadable_in=batch.unreadable):
                connection.execute("INSERT INTO unreadable SELECT commit_sha, reason FROM unreadable_in")
        if batch.cache is not None and batch.cache.asked:
            connection.execute("DELETE FROM embed_cache")
            connection.execute("INSERT INTO embed_cache VALUES (?, ?, ?)", astuple(batch.cache))
        if batch.watermark is not None:
            connection.execute(
                "UPDATE repository SET last_indexed_commit = ?, indexed_at = ?", [batch.watermark, _now()]
            )
    return spent


def replace_head(connection: duckdb.DuckDBPyConnection, change: HeadChange) -> Spent:
    """Replace the HEAD snapshot's rows of some files."""
    with _transaction(
        connection,
        covered=pa.table({"file_path": pa.array(change.replaced_paths, pa.string())}),
        files_in=change.files,
        symbols_in=change.symbols,
        chunks_in=change.chunks,
    ):
        _run(connection, _FORGET_FILES)
        shift = _one(connection, "SELECT coalesce(max(symbol_id) + 1, 0) FROM head_symbols")
        _insert(connection, "head_files", "files_in")
        _insert(connection, "head_symbols", "symbols_in", symbol_id=shift)
        _insert(connection, "head_chunks", "chunks_in")
        if change.files.num_rows:
            _note_made(connection, compatibility.HEAD, change.files)
        started = time.perf_counter()
        write(connection, {"head_postings": change.words}, shift)
        return Spent(full_text=time.perf_counter() - started)


def end_pass(
    connection: duckdb.DuckDBPyConnection,
    head: str,
    components: Components,
    *,
    head_renewed: bool,
    head_whole: bool = True,
    forgotten: Sequence[str] = (),
) -> Components:
    """Move the watermark to HEAD, and vouch for what every row is of: the versions that are vouched for.

    `components` are the pass's own; `head_renewed` says that it made every row of HEAD's snapshot, `head_whole` that
    the snapshot is all there: else this HEAD does not count as done, and the next pass tries again. `forgotten`:
    commits that could not be read, and that this HEAD does not reach.
    """
    rows = pa.table({"commit_sha": pa.array(forgotten, pa.string())})
    with _transaction(connection, forgotten_in=rows):
        connection.execute("DELETE FROM unreadable WHERE commit_sha IN (SELECT commit_sha FROM forgotten_in)")
        if head_renewed:
            _forget_made_before(connection)
        made = compatibility.recorded(connection).made
        vouched = compatibility.vouched(made, components)
        _vouch(connection, vouched)
        connection.execute("UPDATE repository SET last_indexed_commit = ?, indexed_at = ?", [head, _now()])
        if head_whole:
            connection.execute("UPDATE repository SET completed_commit = ?", [head])
    return vouched


def forget(connection: duckdb.DuckDBPyConnection, shas: Sequence[str]) -> None:
    """Delete what is recorded of these commits, and the vectors and words that nothing has any more."""
    with _transaction(connection, covered=pa.table({"commit_sha": pa.array(shas, pa.string())})):
        _run(connection, _FORGET_COMMITS)
        _run(connection, _FORGET_UNUSED)


def delete_index(place: Place, *, wait: float = WRITE_WAIT_SECONDS) -> None:
    """Delete the database, its write-ahead log and side files; only lock files stay, which others may hold.

    ForeignFolder unless the folder really lies, under its own name, in `place.home`.
    """
    index_location.refuse_foreign(place)
    if not place.folder.exists():
        return
    with locks.entered(place.folder, exclusive=True, deadline=Deadline.after(wait)):
        # The log first: an old log beside a new database would be replayed into it.
        for file in [place.wal, *sorted(place.folder.glob(f"{DATABASE}*")), place.folder / PLACE]:
            file.unlink(missing_ok=True)
        shutil.rmtree(place.folder / SPILL, ignore_errors=True)


def _vouch(connection: duckdb.DuckDBPyConnection, components: Components) -> None:
    for name in compatibility.NAMES:
        vouched = compatibility.version(components, name)
        connection.execute("UPDATE metadata SET version = ? WHERE component = ?", [vouched, name])


def _note_made(connection: duckdb.DuckDBPyConnection, part: str, rows: Rows) -> None:
    """Note which versions this part's new rows are of: parsers only where there is something of their language."""
    # Put together here: in one statement over the rows it took an eighth of a batch, to find nothing new.
    languages = rows.column("language").unique().to_pylist()
    made = {
        name
        for name in compatibility.NAMES
        if part in compatibility.parts(name) and _is_used(name, languages)
    }
    writers = {(part, *row) for row in connection.execute(_WRITERS).fetchall() if row[0] in made}
    for row in sorted(writers.difference(connection.execute(_NOTED).fetchall())):
        connection.execute("INSERT INTO made_by VALUES (?, ?, ?)", row)


def _is_used(component: str, languages: Sequence[str | None]) -> bool:
    language = component.removeprefix("parser_")
    return language == component or language in languages


def _forget_made_before(connection: duckdb.DuckDBPyConnection) -> None:
    """No row of HEAD's snapshot is of another version than this pass's own any more."""
    connection.execute(
        "DELETE FROM made_by WHERE part = ? AND (component, version) NOT IN"
        " (SELECT component, writer FROM metadata WHERE writer IS NOT NULL)"
        " OR part = ? AND version IS NULL",
        [compatibility.HEAD, compatibility.HEAD],
    )


def _insert_history(connection: duckdb.DuckDBPyConnection, batch: Batch) -> Spent:
    shift = _one(connection, "SELECT coalesce(max(hunk_id) + 1, 0) FROM hunks")
    _insert(connection, "commits", "commits_in")
    _insert(connection, "hunks", "hunks_in", hunk_id=shift)
    _insert(connection, "hunk_symbols", "hunk_symbols_in", hunk_id=shift)
    connection.execute(_INSERT_VECTORS)
    started = time.perf_counter()
    said = {"hunk_postings": batch.hunk_words, "symbol_postings": batch.symbol_words}
    write(connection, said, shift)
    return Spent(full_text=time.perf_counter() - started)


def _distinct(vectors: Rows) -> Rows:
    """The first row of each text; DuckDB would carry every vector through a sort for it."""
    firsts: dict[bytes, int] = {}
    for row, text in enumerate(vectors.column("text_digest").to_pylist()):
        firsts.setdefault(text, row)
    return vectors if len(firsts) == vectors.num_rows else vectors.take(list(firsts.values()))


def _insert(connection: duckdb.DuckDBPyConnection, table: str, rows: str, **shifted: int) -> None:
    """Insert by column name; a `shifted` column is counted on from the number given."""
    replaced = ", ".join(f"{column} + {shift} AS {column}" for column, shift in shifted.items())
    columns = f"* REPLACE ({replaced})" if replaced else "*"
    connection.execute(f"INSERT INTO {table} BY NAME SELECT {columns} FROM {rows}")


def _run(connection: duckdb.DuckDBPyConnection, statements: Sequence[str]) -> None:
    for statement in statements:
        connection.execute(statement)


def _one(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    return int(connection.execute(sql).fetchall()[0][0])


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


@contextmanager
def _transaction(connection: duckdb.DuckDBPyConnection, **rows: Rows) -> Iterator[None]:
    """All or nothing, with these rows readable under their names meanwhile."""
    with registered(connection, **rows):
        connection.execute("BEGIN")
        try:
            yield
        except BaseException:
            with suppress(duckdb.Error):  # what failed may have ended it, or the engine
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
