"""Numbered steps from schema to schema, each applied once, in one transaction with its record."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from importlib import resources
from typing import Final

import duckdb

from stores.errors import LineageError
from stores.versions import SCHEMA_VERSION


class NewerSchema(LineageError):
    """The index was made by a newer version of the program; nothing is read from it or written to it."""


def tables_sql() -> str:
    """The published DDL of the current schema."""
    return resources.files("stores").joinpath("tables.sql").read_text(encoding="utf-8")


def m001_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the tables of an empty index."""
    connection.execute(tables_sql())


MIGRATIONS: Final[dict[int, Callable[[duckdb.DuckDBPyConnection], None]]] = {1: m001_tables}


def check(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the index has tables; NewerSchema when they are of a schema this program does not know."""
    version = applied(connection)
    if version > SCHEMA_VERSION:
        raise NewerSchema(
            f"The index has schema {version}; this version of lineage knows schemas up to {SCHEMA_VERSION}.",
            hint="Use the lineage that made it, or run `lineage index --rebuild --yes` to make it anew.",
        )
    return version > 0


def migrate(connection: duckdb.DuckDBPyConnection) -> None:
    """Bring the index to the current schema."""
    check(connection)
    for version in range(applied(connection) + 1, SCHEMA_VERSION + 1):
        connection.execute("BEGIN")
        MIGRATIONS[version](connection)
        moment = datetime.now(UTC).replace(tzinfo=None)
        connection.execute("INSERT INTO migrations VALUES (?, ?)", [version, moment])
        connection.execute("COMMIT")


def applied(connection: duckdb.DuckDBPyConnection) -> int:
    """The schema version of the index; 0 while it has no tables."""
    try:
        row = connection.execute("SELECT coalesce(max(version), 0) FROM migrations").fetchone()
    except duckdb.CatalogException:
        return 0
    return int(row[0]) if row else 0
