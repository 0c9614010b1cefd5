"""Schema 1 knew of each component the oldest version only, and of a pass that ended no more than that one had.

Bring an index to the current schema, step by step, each applied once, in one transaction with its record.

A step that fails, or is killed, leaves the index as it was, for the version of the program that made it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from importlib import resources
from typing import Final

import duckdb

from stores.errors import LineageError
from stores.types import SCHEMA_VERSION

# What each component made in schema 1, whose parsers were called after their languages.
_HISTORY: Final = (
    "embedding_model",
    "embedding_dimension",
    "embed_cache",
    "semantic_text_version",
    "words_version",
)
_HEAD: Final = ("chunker_version", "words_version")
_LANGUAGES: Final = ("rust", "python", "java", "kotlin", "typescript", "javascript")

_TABLES: Final = """
CREATE OR REPLACE TABLE metadata (component VARCHAR NOT NULL, version VARCHAR, writer VARCHAR);
CREATE TABLE made_by (part VARCHAR NOT NULL, component VARCHAR NOT NULL, version VARCHAR);
CREATE TABLE embed_cache (entries BIGINT NOT NULL, asked BIGINT NOT NULL, found BIGINT NOT NULL);
-- Null: whether the newest pass ended is not known, so the next one looks at everything once.
ALTER TABLE repository ADD COLUMN completed_commit VARCHAR"""


def apply(connection: duckdb.DuckDBPyConnection) -> None:
    """Carry over what is known; rows whose version nobody noted are of version null."""
    said = connection.execute("SELECT component, version, complete FROM metadata").fetchall()
    versions = {component: version for component, version, _ in said}
    vouched = [(component, version) for component, version, complete in said if complete]
    made = [*_made(connection, "history", _HISTORY, "hunks"), *_made(connection, "head", _HEAD, "head_files")]
    connection.execute(_TABLES)
    for component, version in vouched:
        brought = "2" if component == "schema" else version
        connection.execute("INSERT INTO metadata VALUES (?, ?, NULL)", [component, brought])
    for part, component in made:
        connection.execute("INSERT INTO made_by VALUES (?, ?, ?)", [part, component, versions.get(component)])


def _made(
    connection: duckdb.DuckDBPyConnection, part: str, components: tuple[str, ...], table: str
) -> list[tuple[str, str]]:
    """The components that made rows of this part; none where it is empty."""
    rows = connection.execute(f"SELECT DISTINCT language FROM {table}").fetchall()
    spoken = {language for (language,) in rows}
    parsers = [f"parser_{language}" for language in _LANGUAGES if language in spoken]
    return [(part, component) for component in (*components, *parsers)] if rows else []


class NewerSchema(LineageError):
    """The index was made by a newer version of the program; nothing is read from it or written to it."""


class FailedMigration(LineageError):
    """The index could not be brought to the current schema, and is as it was."""


# The first schema needs no step: an empty index gets the current tables.
MIGRATIONS: Final[dict[int, Callable[[duckdb.DuckDBPyConnection], None]]] = {
    2: apply,
}


def tables_sql() -> str:
    """The published DDL of the current schema."""
    return resources.files("stores").joinpath("tables.sql").read_text(encoding="utf-8")


def check(connection: duckdb.DuckDBPyConnection) -> int:
    """The schema of the index, 0 while it has no tables; NewerSchema when this program does not know it."""
    version = applied(connection)
    if version > SCHEMA_VERSION:
        raise NewerSchema(
            f"The index has schema {version}; this version of lineage knows schemas up to {SCHEMA_VERSION}.",
            hint="Use the lineage that made it, or run `lineage index --rebuild --yes` to make it anew.",
        )
    return version


def migrate(connection: duckdb.DuckDBPyConnection) -> None:
    """Bring the index to the current schema."""
    found = check(connection)
    if not found:
        _step(connection, SCHEMA_VERSION, _make)
        return
    for version in range(found + 1, SCHEMA_VERSION + 1):
        try:
            _step(connection, version, MIGRATIONS[version])
        except duckdb.Error as error:
            raise not_migrated(version, str(error).splitlines()[0]) from error


def applied(connection: duckdb.DuckDBPyConnection) -> int:
    """The schema version of the index; 0 while it has no tables."""
    try:
        row = connection.execute("SELECT coalesce(max(version), 0) FROM migrations").fetchone()
    except duckdb.CatalogException:
        return 0
    return int(row[0]) if row else 0


def not_migrated(version: int, reason: str) -> FailedMigration:
    """Why the index is not at this schema."""
    return FailedMigration(
        f"The index could not be brought to schema {version} and is as it was: {reason}",
        hint="See that its folder can be written to and the disk has room, then try again; or make the index anew "
        "with `lineage index --rebuild --yes`.",
    )


def _make(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(tables_sql())


def _step(
    connection: duckdb.DuckDBPyConnection, version: int, change: Callable[[duckdb.DuckDBPyConnection], None]
) -> None:
    connection.execute("BEGIN")
    try:
        change(connection)
        moment = datetime.now(UTC).replace(tzinfo=None)
        connection.execute("INSERT INTO migrations VALUES (?, ?)", [version, moment])
    except BaseException:
        with suppress(duckdb.Error):  # what failed may have ended it, or the engine
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
