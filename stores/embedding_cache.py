"""Embedding cache: a database beside the index with the vectors of texts. It survives a rebuild of the index.

An entry has the model that made its vector, and two keys:

- `content_hash`: hash of what the text is made from (message, and for a hunk its kind of change, paths and diff).
- `text_digest`: digest of the text that is embedded. A newer parser can make another text from the same content.

A vector is used only if the model and both keys match. A new text for the same content and model replaces the entry.
Only `delete_unused_entries` deletes entries of other models. The table has no primary key, because the write
transaction keeps entries unique.

The cache only saves time. A damaged file is replaced, and a run continues without a cache that it cannot read or write.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from stores import database, duckdb_engine, errors, index_location, locks
from stores.compatibility import EMBEDDING_DIMENSION
from stores.duckdb_engine import make_files_private
from stores.errors import LineageError, is_special_file
from stores.index_location import EMBEDDINGS_FILE, IndexLocation
from stores.locks import Deadline, IndexBusy
from stores.schema import DIGEST, VECTOR

logger = logging.getLogger(__name__)

CACHE_LOCK: Final = "embeddings.lock"
TEMP_FILE: Final = f"{EMBEDDINGS_FILE}.draft"
# Time that an index run waits for the lock. Index runs do not overlap, so only `delete_unused_entries` can hold it.
WAIT_SECONDS: Final = 10.0
# Time that `delete_unused_entries` waits for the lock. An index run holds it to its end, so a longer wait is no use.
PRUNE_WAIT_SECONDS: Final = 2.0
IN_USE_MESSAGE: Final = "Another program uses the embedding cache. This run continues without it."

LOOKUP_SCHEMA: Final = pa.schema([("content_hash", DIGEST), ("text_digest", DIGEST)])
ENTRY_SCHEMA: Final = pa.schema([*LOOKUP_SCHEMA, ("embedding", VECTOR)])
RESULT_SCHEMA: Final = pa.schema([("text_digest", DIGEST), ("embedding", VECTOR)])

_CREATE_TABLE: Final = f"""
CREATE TABLE IF NOT EXISTS embeddings (
    content_hash BLOB NOT NULL,
    embed_model  VARCHAR NOT NULL,
    text_digest  BLOB NOT NULL,
    embedding    FLOAT[{EMBEDDING_DIMENSION}] NOT NULL
)"""
# The row ids are found first, then their vectors are read. A single join would read every vector of the file.
_LOOKUP: Final = """
SELECT text_digest, embedding FROM embeddings WHERE rowid IN (
    SELECT min(embeddings.rowid) FROM embeddings JOIN lookup_keys USING (content_hash, text_digest)
    WHERE embed_model = ? GROUP BY text_digest)"""
_DELETE_REPLACED: Final = """
DELETE FROM embeddings WHERE embed_model = ? AND content_hash IN (SELECT content_hash FROM new_entries)"""
_INSERT: Final = """
INSERT INTO embeddings
SELECT content_hash, ?, any_value(text_digest), any_value(embedding) FROM new_entries GROUP BY content_hash"""
_COUNT_UNUSED: Final = "SELECT count(*) FILTER (embed_model != ?), count(*) FROM cache.embeddings"


class CacheUnusable(LineageError):
    """Error for an embedding cache that is damaged, or that another program uses."""


class EmbeddingCache:
    """Embedding cache, opened for an index run and a model. If the file is unusable, it finds and stores nothing."""

    def __init__(self, location: IndexLocation, model: str) -> None:
        self.location = location
        self.model = model
        self._engine: duckdb.DuckDBPyConnection | None = None
        if special_file := _find_special_file(location):
            logger.warning(
                "This run continues without an embedding cache: %s is no regular file", special_file
            )
            return
        try:
            self._open()
        except duckdb.Error as error:
            self._handle_read_error(error)

    def look_up(self, keys: pa.Table) -> pa.Table:
        """Return the digests and vectors of those texts that the cache has (RESULT_SCHEMA).

        `keys`: content hash and digest of the texts to look up (LOOKUP_SCHEMA).
        """
        if self._engine is not None:
            try:
                return self._select(self._engine, keys)
            except duckdb.Error as error:
                self._handle_read_error(error)
        return RESULT_SCHEMA.empty_table()

    def store(self, entries: pa.Table) -> None:
        """Store entries (ENTRY_SCHEMA). They replace the entries of the same content and model."""
        if self._engine is None or not entries.num_rows:
            return
        try:
            self._write(self._engine, entries)
        except duckdb.Error as error:
            self._disable("Writing to", error)

    def count(self) -> int:
        """Return the number of entries of all models; 0 if the cache cannot be used."""
        if self._engine is not None:
            try:
                return int(self._engine.execute("SELECT count(*) FROM embeddings").fetchall()[0][0])
            except duckdb.Error as error:
                self._handle_read_error(error)
        return 0

    def close(self) -> None:
        """Checkpoint and close the file."""
        engine, self._engine = self._engine, None
        if engine is not None:
            with suppress(duckdb.Error):
                engine.execute("USE memory")
                engine.execute("DETACH cache")  # writes the log into the file
            engine.close()

    def _open(self) -> None:
        """Open the file, and create it if necessary. Raises duckdb.Error."""
        engine = duckdb_engine.start_engine(self.location, duckdb_engine.WRITER_THREADS)
        options = f"ROW_GROUP_SIZE {database.ROW_GROUP_SIZE}"
        try:
            with make_files_private():
                engine.execute(database.build_attach_statement(self.location.embeddings, "cache", options))
                engine.execute("USE cache")
                engine.execute(_CREATE_TABLE)
            self._select(engine, LOOKUP_SCHEMA.empty_table())  # fails if the table has other columns
        except BaseException:
            engine.close()
            raise
        self._engine = engine

    def _handle_read_error(self, error: duckdb.Error) -> None:
        """Replace a file that is damaged or has other columns; after any other error, close the cache."""
        has_other_columns = isinstance(error, (duckdb.BinderException, duckdb.CatalogException))
        if "lock on file" in str(error):
            logger.warning(IN_USE_MESSAGE)
            self.close()
        elif has_other_columns or database.reports_damage(self.location.embeddings, error):
            self._replace_file(error)
        else:
            self._disable("Reading", error)

    def _disable(self, action: str, error: duckdb.Error) -> None:
        """Log a warning and close the cache. `action`: start of the warning, such as `Reading`."""
        logger.warning(
            "%s the embedding cache failed. This run continues without it: %s", action, _get_first_line(error)
        )
        self.close()

    def _replace_file(self, error: duckdb.Error) -> None:
        """Log a warning with the error, and open a new file instead of the old one."""
        self.close()
        logger.warning(
            "This run cannot read the embedding cache %s and replaces it: %s",
            self.location.embeddings,
            _get_first_line(error),
        )
        for file in self.location.folder.glob(f"{EMBEDDINGS_FILE}*"):
            file.unlink(missing_ok=True)
        try:
            self._open()
        except duckdb.Error as open_error:
            logger.warning("This run continues without an embedding cache: %s", _get_first_line(open_error))

    def _select(self, engine: duckdb.DuckDBPyConnection, keys: pa.Table) -> pa.Table:
        with database.register_tables(engine, lookup_keys=keys):
            return engine.execute(_LOOKUP, [self.model]).to_arrow_table().cast(RESULT_SCHEMA)

    def _write(self, engine: duckdb.DuckDBPyConnection, entries: pa.Table) -> None:
        with database.register_tables(engine, new_entries=entries):
            engine.execute("BEGIN")
            engine.execute(_DELETE_REPLACED, [self.model])
            engine.execute(_INSERT, [self.model])
            with make_files_private():  # the commit creates the write-ahead log
                engine.execute("COMMIT")


@contextmanager
def open_cache(location: IndexLocation, model: str) -> Iterator[EmbeddingCache | None]:
    """Yield the cache of this index for one index run; None if another process holds its lock for WAIT_SECONDS."""
    index_location.create_index_directory(location)
    with ExitStack() as stack:
        try:
            stack.enter_context(
                locks.acquire_exclusive_lock(location.folder / CACHE_LOCK, Deadline.after(WAIT_SECONDS))
            )
        except IndexBusy:
            logger.warning(IN_USE_MESSAGE)
            yield None
            return
        yield stack.enter_context(closing(EmbeddingCache(location, model)))


def count_unused_entries(location: IndexLocation, model: str) -> tuple[int, int]:
    """Return (number of entries of other models, number of all entries); (0, 0) if the cache cannot be read."""
    if not location.embeddings.exists() or _find_special_file(location):
        return 0, 0
    with (
        closing(duckdb_engine.start_engine(location, duckdb_engine.READER_THREADS)) as engine,
        suppress(duckdb.Error),
    ):
        engine.execute(database.build_attach_statement(location.embeddings, "cache", "READ_ONLY"))
        unused, total = engine.execute(_COUNT_UNUSED, [model]).fetchall()[0]
        return int(unused), int(total)
    return 0, 0


def delete_unused_entries(location: IndexLocation, model: str) -> None:
    """Delete the entries of models other than `model`.

    The entries of `model` are copied into a new, smaller file, which replaces the cache in one rename. If the process
    is killed, the old or the new file is intact. Raises IndexBusy if an index run holds the cache's lock. An error of
    DuckDB is raised as OutOfMemory or StorageError if it is one, else as CacheUnusable.
    """
    temp_file = location.folder / TEMP_FILE
    with (
        _translate_errors(location.embeddings),
        locks.acquire_exclusive_lock(location.folder / CACHE_LOCK, Deadline.after(PRUNE_WAIT_SECONDS)),
        make_files_private(),
        closing(duckdb_engine.start_engine(location, duckdb_engine.WRITER_THREADS)) as engine,
    ):
        temp_file.unlink(missing_ok=True)
        engine.execute(database.build_attach_statement(location.embeddings, "cache"))
        engine.execute(database.build_attach_statement(temp_file, "fresh"))
        engine.execute(_read_table_ddl(engine))
        engine.execute("INSERT INTO fresh.embeddings FROM cache.embeddings WHERE embed_model = ?", [model])
        engine.execute("DETACH fresh")
        # This checkpoints the old file, which deletes its log. DuckDB would replay a remaining log into the new file.
        engine.execute("DETACH cache")
        temp_file.replace(location.embeddings)


@contextmanager
def _translate_errors(file: Path) -> Iterator[None]:
    """Translate DuckDB's errors about the cache into errors for users."""
    try:
        yield
    except duckdb.Error as error:
        raise (
            errors.from_memory_error(error)
            or errors.from_duckdb_error(str(error), file)
            or CacheUnusable(
                f"The embedding cache {file} cannot be used: {_get_first_line(error)}",
                hint="Try again when no other program uses it. If it is damaged, the next index run replaces it.",
            )
        ) from error


def _read_table_ddl(engine: duckdb.DuckDBPyConnection) -> str:
    """Return the DDL of a new table like the old one, which another program version may have created."""
    sql = "SELECT sql FROM duckdb_tables() WHERE database_name = 'cache' AND table_name = 'embeddings'"
    ddl = str(engine.execute(sql).fetchall()[0][0])
    return ddl.replace("CREATE TABLE embeddings", "CREATE TABLE fresh.embeddings", 1)


def _find_special_file(location: IndexLocation) -> Path | None:
    """Return the path of the cache or its write-ahead log if it is a directory or another special file; else None."""
    files = (location.embeddings, location.embeddings.with_name(f"{EMBEDDINGS_FILE}.wal"))
    return next(filter(is_special_file, files), None)


def _get_first_line(error: duckdb.Error) -> str:
    return str(error).splitlines()[0]
