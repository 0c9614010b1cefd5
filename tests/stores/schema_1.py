"""An index with schema 1: its published DDL, and the rows that an index run of that version wrote.

`schema_1.json` has all rows of the index of the repository of `create_repo`, except the vectors, which `WordEncoder`
computes again.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import duckdb

from pipeline.component_versions import get_component_versions
from stores import database, index_location
from stores.index_location import IndexLocation
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder

FOLDER: Final = Path(__file__).parent
# Columns that `schema_1.json` has in hexadecimal.
BLOB_COLUMNS: Final = {"message_digest", "text_digest"}
# Components that would write the same rows today, so the tests need no refresh when their versions are raised.
CURRENT_COMPONENTS: Final = ("embedding_model", "parser_typescript", "parser_javascript")


def create_repo(path: Path) -> Repo:
    """Create the repository of the rows; its commits have the shas in the rows."""
    repo = Repo.create(path)
    repo.commit_file("net.py", "def connect():\n    timeout(3)\n", "Wait three seconds for a connection")
    page = "export function draw(name: string) {\n  return name;\n}\n"
    repo.commit_file("page.ts", page, "Draw a page")
    longer = "def connect():\n    timeout(5)\n\n\ndef retry():\n    connect()\n"
    repo.commit_file("net.py", longer, "Retry a connection after five seconds")
    return repo


def create_index(location: IndexLocation) -> None:
    """Create an index with schema 1, with current vectors and current versions of CURRENT_COMPONENTS."""
    index_location.create_index_directory(location)
    with closing(duckdb.connect()) as connection:
        connection.execute(database.build_attach_statement(location.database, "ix"))
        connection.execute("USE ix")
        connection.execute((FOLDER / "schema_1.sql").read_text(encoding="utf-8"))
        rows = json.loads((FOLDER / "schema_1.json").read_text(encoding="utf-8"))
        for table, table_rows in rows.items():
            for row in table_rows:
                _insert(connection, table, row)
        _embed(connection, rows)
        versions = get_component_versions("off")
        for name in CURRENT_COMPONENTS:
            statement = "UPDATE metadata SET version = ? WHERE component = ?"
            connection.execute(statement, [getattr(versions, name), name])
        connection.execute(
            "UPDATE repository SET repo_id = ?, path = ?", [location.repo_id, str(location.path)]
        )
        connection.execute("USE memory")
        connection.execute("DETACH ix")


def describe_tables(connection: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[str, str, str]]]:
    """Return the columns of each table as (name, type, nullable)."""
    names = connection.execute("SELECT table_name FROM duckdb_tables() WHERE NOT temporary").fetchall()
    rows_by_table = {name: connection.execute(f"DESCRIBE {name}").fetchall() for (name,) in names}
    return {name: [tuple(row[:3]) for row in rows] for name, rows in rows_by_table.items()}


def describe_full_text(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str, str]]:
    """Return the views and macros of the index as (schema, name, definition)."""
    views = "SELECT schema_name, view_name, sql FROM duckdb_views() WHERE NOT internal"
    macros = "SELECT schema_name, function_name, macro_definition FROM duckdb_functions() WHERE NOT internal"
    return connection.execute(f"{views} UNION ALL {macros} ORDER BY ALL").fetchall()


def _insert(connection: duckdb.DuckDBPyConnection, table: str, row: dict[str, Any]) -> None:
    values = [
        bytes.fromhex(value) if name in BLOB_COLUMNS and value is not None else value
        for name, value in row.items()
    ]
    connection.execute(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(values))})", values
    )


def _embed(connection: duckdb.DuckDBPyConnection, rows: dict[str, list[dict[str, Any]]]) -> None:
    """Insert the vectors of the messages and semantic texts of these rows."""
    texts = {row["message_digest"]: row["message"] for row in rows["commits"]}
    texts |= {row["text_digest"]: row["semantic_text"] for row in rows["hunks"]}
    vectors = WordEncoder().encode(list(texts.values()))
    for digest, vector in zip(texts, vectors.tolist(), strict=True):
        connection.execute("INSERT INTO vectors VALUES (?, ?)", [bytes.fromhex(digest), vector])
