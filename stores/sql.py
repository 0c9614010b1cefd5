"""Connections for SQL statements of users: read-only, with DuckDB's extensions, and with additional views and macros.

`sql_views.sql` has the views and macros. Statements can neither write to the index nor access files or the network. An
open connection keeps index runs waiting, so each statement has a connection of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import duckdb
from duckdb.func import PythonUDFType

from stores import compatibility, database, duckdb_engine, index_copy, migrations
from stores.compatibility import EMBEDDING_DIMENSION
from stores.database import READ_WAIT_SECONDS
from stores.errors import LineageError, to_lineage_error
from stores.index_copy import OpenIndex
from stores.index_location import IndexLocation

if TYPE_CHECKING:
    import pyarrow as pa

ResultT = TypeVar("ResultT")

# Maximum number of repetitions of a statement whose error message DuckDB lost. On a busy machine with two cores, one in
# a hundred failing statements lost it.
MAX_RETRIES: Final = 2

# Python replacements would let statements read variables of this program. The settings are locked, because statements
# such as `SET threads = 1000000` would run for minutes and ignore Ctrl-C. The times in the index are in UTC, so `now()`
# is too.
_SETTINGS: Final = """
SET TimeZone = 'UTC';
SET enable_external_access = false;
SET python_enable_replacements = false;
SET lock_configuration = true"""
_LOCKED_MESSAGE: Final = "the configuration has been locked"
_CREATE_TAGS: Final = (
    "CREATE TEMP TABLE tags_in AS SELECT unnest(?::VARCHAR[]) AS name, unnest(?::VARCHAR[]) AS commit_sha"
)


class SqlError(LineageError):
    """Error for a statement of a user that failed. Its text is DuckDB's message."""


class LostMessageError(SqlError):
    """Error for a failed statement whose message DuckDB lost."""


def retry_lost_message(run: Callable[[], ResultT]) -> ResultT:
    """Return the result of `run`. If it raises LostMessageError, repeat it up to MAX_RETRIES times."""
    for _ in range(MAX_RETRIES):
        with suppress(LostMessageError):
            return run()
    return run()


@contextmanager
def open_for_sql(
    location: IndexLocation,
    encode: Callable[[str | None, str], Sequence[float]],
    tags: Sequence[tuple[str, str]] = (),
    *,
    wait: float = READ_WAIT_SECONDS,
) -> Iterator[OpenIndex]:
    """Open the index for one statement of a user. The body executes it.

    - `encode`: gets the embedding model of the index (None if unknown) and a text, and returns the text's vector. The
      SQL function `embed` calls it.
    - `tags`: name and commit of each tag of the repository.
    - `wait`: seconds to wait for the index.

    Raises SqlError for DuckDB's errors in the body, except those about files. It is a LostMessageError if DuckDB lost
    the message; call through `retry_lost_message` to run the statement again. Also raises the errors of `encode` and of
    `index_copy.open_index_or_copy`, and MissingExtension.
    """
    embed = _EmbedFunction(encode)
    with index_copy.open_index_or_copy(location, wait=wait) as index:
        _prepare(index.connection, embed, tags)
        try:
            yield index
        except BaseException as error:
            index.connection.interrupt()  # after Ctrl-C the statement still runs, and closing would wait for it
            if not _is_statement_error(error):
                raise
            if embed.error:
                raise embed.error from None
            raise _build_sql_error(error) from error


def _is_statement_error(error: BaseException) -> bool:
    """Return whether DuckDB refused a statement or failed at it, rather than at reading or writing a file.

    Statements have no access to files, so an IOException is about the index or temporary files.
    """
    if isinstance(error, duckdb.IOException) or database.describes_damage(str(error)):
        return False
    # pyarrow raises DuckDB's errors as OSError, without the number of a system error.
    return isinstance(error, duckdb.Error) or (
        isinstance(error, OSError) and error.errno is None and to_lineage_error(error) is None
    )


def _build_sql_error(error: BaseException) -> SqlError:
    message, hint = str(error), ""
    if database.has_lost_message(message):
        return LostMessageError("The statement failed, and DuckDB did not report why.", hint="Run it again.")
    if _LOCKED_MESSAGE in message:
        hint = "`lineage sql` does not allow changes of DuckDB's settings. Omit this statement."
    elif isinstance(error, duckdb.InternalException):
        message = message.splitlines()[0]  # a stack trace may follow
        hint = "Change the statement. If others fail too, run `lineage doctor` to check the index."
    return SqlError(message, hint=hint)


@dataclass(slots=True)
class _EmbedFunction:
    """SQL function `embed`, which DuckDB calls with batches of texts.

    A function for single texts would be slow and ignore Ctrl-C, because DuckDB would try to import pandas for each
    number that it returns.

    - `encode`: as in `open_for_sql`.
    - `model`: embedding model of the index.
    - `error`: error that ended a call of `encode`. It is stored, because DuckDB raises another error instead.
    """

    encode: Callable[[str | None, str], Sequence[float]]
    model: str | None = None
    error: KeyboardInterrupt | LineageError | None = None

    def compute(self, texts: pa.ChunkedArray) -> pa.Array:
        """Return the vector of each text; null for null."""
        import pyarrow as pa  # slow to import, and few statements embed texts

        try:
            vector_by_text = {
                text: self.encode(self.model, text) for text in texts.unique().to_pylist() if text is not None
            }
        except (KeyboardInterrupt, LineageError) as error:
            self.error = error
            raise
        vectors = [vector_by_text.get(text) for text in texts.to_pylist()]
        return pa.array(vectors, pa.list_(pa.float32(), EMBEDDING_DIMENSION))


def _prepare(
    connection: duckdb.DuckDBPyConnection, embed: _EmbedFunction, tags: Sequence[tuple[str, str]]
) -> None:
    """Load extensions, create the views, macros and `embed`, then restrict what statements can do."""
    duckdb_engine.load_extensions(connection)
    embed.model = compatibility.load_recorded_versions(connection).embedding_model
    # A lambda, because DuckDB would evaluate the annotations of a method.
    connection.create_function(
        "embed",
        lambda texts: embed.compute(texts),
        ["VARCHAR"],
        f"FLOAT[{EMBEDDING_DIMENSION}]",
        type=PythonUDFType.ARROW,
    )
    connection.execute(_CREATE_TAGS, [[name for name, _ in tags], [sha for _, sha in tags]])
    connection.execute(migrations.read_sql("sql_views.sql"))
    connection.execute(_SETTINGS)
