"""Bring an index to the current schema, step by step, each applied once, in one transaction with its record.

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
from stores.steps import m002_versions_of_rows
from stores.versions import SCHEMA_VERSION


class NewerSchema(LineageError):
    """The index was made by a newer version of the program; nothing is read from it or written to it."""


class FailedMigration(LineageError):
    """The index could not be brought to the current schema, and is as it was."""


# The first schema needs no step: an empty index gets the current tables.
MIGRATIONS: Final[dict[int, Callable[[duckdb.DuckDBPyConnection], None]]] = {
    2: m002_versions_of_rows.apply,
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
