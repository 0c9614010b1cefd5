"""The embedding cache beside an index: how much of it was made by models that nobody asks any more, and without it.

Only what a rebuild leaves is looked at here, by the file's own tables; the run that fills it is another's matter.
"""

from __future__ import annotations

from contextlib import closing, suppress
from typing import Final

import duckdb

from stores import database, engines, locking
from stores.embeddings import LOCK
from stores.locking import Deadline
from stores.places import EMBEDDINGS, Place
from stores.privacy import private

DRAFT: Final = f"{EMBEDDINGS}.draft"
# A run keeps the cache for as long as it lasts; who finds it at work comes again.
WAIT_SECONDS: Final = 2.0

_COUNT: Final = "SELECT count(*) FILTER (embed_model != ?), count(*) FROM cache.embeddings"


def others(place: Place, model: str) -> tuple[int, int]:
    """Entries of other models than this one, and all; (0, 0) for a cache that is absent or cannot be read."""
    if not place.embeddings.exists():
        return 0, 0
    with closing(engines.started(place, engines.READER_THREADS)) as engine, suppress(duckdb.Error):
        engine.execute(database.attachment(place.embeddings, "cache", "READ_ONLY"))
        found, total = engine.execute(_COUNT, [model]).fetchall()[0]
        return int(found), int(total)
    return 0, 0


def drop_others(place: Place, model: str) -> None:
    """Leave only what this model made, in a file as small as that; killed at any moment, one of both is whole."""
    with (
        locking.held(place.folder / LOCK, Deadline.after(WAIT_SECONDS)),
        private(),
        closing(engines.started(place, engines.WRITER_THREADS)) as engine,
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
