"""Vectors kept by what they were made of: a file beside the index, which a rebuild of the index leaves.

An entry is found by its content's hash and its model, and holds only for the very text it was made of: where a new
parser reads other symbols out of the same change, it is replaced. Nothing is evicted. The file is worth time and
nothing else, so one that is damaged gives way to a fresh one, and one that cannot be written is left alone.

No primary key, as in the index: what must be unique is made so in the transaction that writes.

The embedding cache beside an index: how much of it was made by models that nobody asks any more, and without it.

Only what a rebuild leaves is looked at here, by the file's own tables; the run that fills it is another's matter.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Final

import duckdb
import pyarrow as pa

from stores import database, duckdb_engine, index_location, locks
from stores.duckdb_engine import private
from stores.index_location import EMBEDDINGS, Place
from stores.locks import Deadline, IndexBusy
from stores.schema import DIGEST, VECTOR
from stores.types import EMBEDDING_DIMENSION

logger = logging.getLogger(__name__)

LOCK: Final = "embeddings.lock"
# Only one run is at work; who else looks into the file does so for a moment.
WAIT_SECONDS: Final = 10.0
IN_USE: Final = "The embedding cache is in use by another program; this run goes without it."

ASKED: Final = pa.schema([("content_hash", DIGEST), ("text_digest", DIGEST)])
ENTRIES: Final = pa.schema([*ASKED, ("embedding", VECTOR)])
FOUND: Final = pa.schema([("text_digest", DIGEST), ("embedding", VECTOR)])

_TABLE: Final = f"""
CREATE TABLE IF NOT EXISTS embeddings (
    content_hash BLOB NOT NULL,
    embed_model  VARCHAR NOT NULL,
    text_digest  BLOB NOT NULL,
    embedding    FLOAT[{EMBEDDING_DIMENSION}] NOT NULL
)"""
# First which rows, then their vectors: joined in one, every vector of the file would be read.
_KNOWN: Final = """
SELECT text_digest, embedding FROM embeddings WHERE rowid IN (
    SELECT min(embeddings.rowid) FROM embeddings JOIN asked USING (content_hash, text_digest)
    WHERE embed_model = ? GROUP BY text_digest)"""
_REPLACED: Final = """
DELETE FROM embeddings WHERE embed_model = ? AND content_hash IN (SELECT content_hash FROM entries_in)"""
_KEPT: Final = """
INSERT INTO embeddings
SELECT content_hash, ?, any_value(text_digest), any_value(embedding) FROM entries_in GROUP BY content_hash"""


class Embeddings:
    """The cache, open for one pass and one model; a pass goes on without it when it cannot be used."""

    def __init__(self, place: Place, model: str) -> None:
        self.place = place
        self.model = model
        self._engine: duckdb.DuckDBPyConnection | None = None
        try:
            self._open()
        except duckdb.Error as error:
            self._renew(error)

    def known(self, asked: pa.Table) -> pa.Table:
        """Digest and vector of those of the texts that are here; `asked` as in ASKED."""
        if self._engine is not None:
            try:
                return self._rows(self._engine, asked)
            except duckdb.Error as error:
                self._renew(error)
        return FOUND.empty_table()

    def keep(self, entries: pa.Table) -> None:
        """Keep these, in the place of older ones of the same content; `entries` as in ENTRIES."""
        if self._engine is None or not entries.num_rows:
            return
        try:
            self._write(self._engine, entries)
        except duckdb.Error as error:
            logger.warning("The embedding cache is not written to any further: %s", _reason(error))
            self.close()

    def count(self) -> int:
        """How many vectors it has, of all models."""
        if self._engine is None:
            return 0
        return int(self._engine.execute("SELECT count(*) FROM embeddings").fetchall()[0][0])

    def close(self) -> None:
        """Leave the file whole and small."""
        engine, self._engine = self._engine, None
        if engine is not None:
            with suppress(duckdb.Error):
                engine.execute("USE memory")
                engine.execute("DETACH cache")  # writes its log into the file
            engine.close()

    def _open(self) -> None:
        engine = duckdb_engine.started(self.place, duckdb_engine.WRITER_THREADS)
        rows = f"ROW_GROUP_SIZE {database.ROW_GROUP_SIZE}"
        try:
            with private():
                engine.execute(database.attachment(self.place.embeddings, "cache", rows))
                engine.execute("USE cache")
                engine.execute(_TABLE)
            self._rows(engine, ASKED.empty_table())  # whether it is what it should be
        except BaseException:
            engine.close()
            raise
        self._engine = engine

    def _renew(self, error: duckdb.Error) -> None:
        """Begin a fresh file in the place of one that cannot be read."""
        self.close()
        if "lock on file" in str(error):
            logger.warning(IN_USE)
            return
        logger.warning(
            "The embedding cache %s cannot be read and is begun anew: %s",
            self.place.embeddings,
            _reason(error),
        )
        for file in self.place.folder.glob(f"{index_location.EMBEDDINGS}*"):
            file.unlink(missing_ok=True)
        try:
            self._open()
        except duckdb.Error as again:
            logger.warning("This run goes without an embedding cache: %s", _reason(again))

    def _rows(self, engine: duckdb.DuckDBPyConnection, asked: pa.Table) -> pa.Table:
        with database.registered(engine, asked=asked):
            return engine.execute(_KNOWN, [self.model]).to_arrow_table().cast(FOUND)

    def _write(self, engine: duckdb.DuckDBPyConnection, entries: pa.Table) -> None:
        with database.registered(engine, entries_in=entries):
            engine.execute("BEGIN")
            engine.execute(_REPLACED, [self.model])
            engine.execute(_KEPT, [self.model])
            with private():  # the write-ahead log is made here
                engine.execute("COMMIT")


@contextmanager
def opened(place: Place, model: str) -> Iterator[Embeddings | None]:
    """The cache of this index, for a pass; None where another program does not let go of it."""
    index_location.claim(place)
    with ExitStack() as stack:
        try:
            stack.enter_context(locks.held(place.folder / LOCK, Deadline.after(WAIT_SECONDS)))
        except IndexBusy:
            logger.warning(IN_USE)
            yield None
            return
        yield stack.enter_context(closing(Embeddings(place, model)))


def _reason(error: duckdb.Error) -> str:
    return str(error).splitlines()[0]


DRAFT: Final = f"{EMBEDDINGS}.draft"
# A run keeps the cache for as long as it lasts; who finds it at work comes again.
PRUNE_WAIT_SECONDS: Final = 2.0

_COUNT: Final = "SELECT count(*) FILTER (embed_model != ?), count(*) FROM cache.embeddings"


def others(place: Place, model: str) -> tuple[int, int]:
    """Entries of other models than this one, and all; (0, 0) for a cache that is absent or cannot be read."""
    if not place.embeddings.exists():
        return 0, 0
    with (
        closing(duckdb_engine.started(place, duckdb_engine.READER_THREADS)) as engine,
        suppress(duckdb.Error),
    ):
        engine.execute(database.attachment(place.embeddings, "cache", "READ_ONLY"))
        found, total = engine.execute(_COUNT, [model]).fetchall()[0]
        return int(found), int(total)
    return 0, 0


def drop_others(place: Place, model: str) -> None:
    """Leave only what this model made, in a file as small as that; killed at any moment, one of both is whole."""
    with (
        locks.held(place.folder / LOCK, Deadline.after(PRUNE_WAIT_SECONDS)),
        private(),
        closing(duckdb_engine.started(place, duckdb_engine.WRITER_THREADS)) as engine,
    ):
        (place.folder / DRAFT).unlink(missing_ok=True)
        engine.execute(database.attachment(place.embeddings, "cache"))
        engine.execute(database.attachment(place.folder / DRAFT, "fresh"))
        engine.execute(_tables(engine))
        engine.execute("INSERT INTO fresh.embeddings FROM cache.embeddings WHERE embed_model = ?", [model])
        engine.execute("DETACH fresh")
        engine.execute("DETACH cache")  # its log goes into it, so that none is left to be replayed
        (place.folder / DRAFT).replace(place.embeddings)


def _tables(engine: duckdb.DuckDBPyConnection) -> str:
    """The DDL of the cache as its maker wrote it."""
    sql = "SELECT sql FROM duckdb_tables() WHERE database_name = 'cache' AND table_name = 'embeddings'"
    ddl = str(engine.execute(sql).fetchall()[0][0])
    return ddl.replace("CREATE TABLE embeddings", "CREATE TABLE fresh.embeddings", 1)
