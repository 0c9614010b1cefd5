"""Connections for statements of users: read-only, with DuckDB's extensions, and with views and macros for people.

`sql_views.sql` has the views and macros. Statements can neither write to the index nor access files or the network. A
connection keeps index runs waiting, so it is opened for each statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Final

import duckdb

from stores import compatibility, duckdb_engine, index_copy, migrations
from stores.database import READ_WAIT_SECONDS
from stores.errors import LineageError
from stores.index_copy import OpenIndex
from stores.index_location import IndexLocation
from stores.types import EMBEDDING_DIMENSION

# Texts that `embed` keeps the vector of: DuckDB may evaluate it several times for a statement.
EMBED_CACHE_SIZE: Final = 100
# `enable_external_access` cannot be changed back. Replacement scans would read Python variables of this program.
_RESTRICTIONS: Final = "SET enable_external_access = false; SET python_enable_replacements = false"
_CREATE_TAGS: Final = (
    "CREATE TEMP TABLE tags_in AS SELECT unnest(?::VARCHAR[]) AS name, unnest(?::VARCHAR[]) AS commit_sha"
)


class SqlError(LineageError):
    """A statement failed: DuckDB's message."""


@contextmanager
def open_for_sql(
    location: IndexLocation,
    encode: Callable[[str | None, str], Sequence[float]],
    tags: Sequence[tuple[str, str]] = (),
    *,
    wait: float = READ_WAIT_SECONDS,
) -> Iterator[OpenIndex]:
    """Open the index for a statement; raise SqlError for DuckDB's errors in the body.

    encode: returns the vector of a text, for `embed`, given the embedding model of the index. tags: (name, commit) of
    the repository's tags. Raises the errors of `index_copy.open_index_or_copy`, and MissingExtension.
    """
    try:
        with index_copy.open_index_or_copy(location, wait=wait) as index:
            _prepare(index.connection, encode, tags)
            try:
                yield index
            except BaseException:
                index.connection.interrupt()  # after Ctrl-C the statement still runs, and closing would wait for it
                raise
    except duckdb.Error as error:
        raise SqlError(str(error)) from error


def _prepare(
    connection: duckdb.DuckDBPyConnection,
    encode: Callable[[str | None, str], Sequence[float]],
    tags: Sequence[tuple[str, str]],
) -> None:
    """Load extensions, create the views, macros and `embed`, then restrict the instance."""
    duckdb_engine.load_extensions(connection)
    model = compatibility.load_recorded_versions(connection).embedding_model
    embed = lru_cache(EMBED_CACHE_SIZE)(partial(encode, model))
    # A function with a signature that DuckDB can count the parameters of.
    connection.create_function(
        "embed", lambda text: embed(text), ["VARCHAR"], f"FLOAT[{EMBEDDING_DIMENSION}]"
    )
    connection.execute(_CREATE_TAGS, [[name for name, _ in tags], [sha for _, sha in tags]])
    connection.execute(migrations.read_sql("sql_views.sql"))
    connection.execute(_RESTRICTIONS)
