"""An index as the first schema had it: its DDL as it was published, and rows that a pass of that time wrote.

`schema_1.json` holds every row of such an index but the vectors, which the tests' encoder gives anew, of `history`:
the repository that the pass read.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import duckdb

from pipeline.encoders.base import EMBEDDING_MODEL
from stores import database, index_location
from stores.index_location import Place
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder

HERE: Final = Path(__file__).parent
BLOBS: Final = {"message_digest", "text_digest"}


def history(path: Path) -> Repo:
    """The repository of these rows: its commits have the shas they name."""
    repo = Repo.create(path)
    repo.commit_file("net.py", "def connect():\n    timeout(3)\n", "Wait three seconds for a connection")
    page = "export function draw(name: string) {\n  return name;\n}\n"
    repo.commit_file("page.ts", page, "Draw a page")
    longer = "def connect():\n    timeout(5)\n\n\ndef retry():\n    connect()\n"
    repo.commit_file("net.py", longer, "Retry a connection after five seconds")
    return repo


def make(place: Place) -> None:
    """An index of schema 1 at this place, its vectors, and their name, of the encoder that tests have now."""
    index_location.claim(place)
    with closing(duckdb.connect()) as connection:
        connection.execute(database.attachment(place.database, "ix"))
        connection.execute("USE ix")
        connection.execute((HERE / "schema_1.sql").read_text(encoding="utf-8"))
        rows = json.loads((HERE / "schema_1.json").read_text(encoding="utf-8"))
        for table, entries in rows.items():
            for entry in entries:
                _insert(connection, table, entry)
        _embed(connection, rows)
        connection.execute("UPDATE repository SET repo_id = ?, path = ?", [place.repo_id, str(place.path)])
        connection.execute("USE memory")
        connection.execute("DETACH ix")


def tables(connection: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[str, str, str]]]:
    """Table -> its columns, each with type and whether it may be null."""
    names = connection.execute("SELECT table_name FROM duckdb_tables() WHERE NOT temporary").fetchall()
    described = {name: connection.execute(f"DESCRIBE {name}").fetchall() for (name,) in names}
    return {name: [tuple(row[:3]) for row in rows] for name, rows in described.items()}


def _insert(connection: duckdb.DuckDBPyConnection, table: str, entry: dict[str, Any]) -> None:
    values = [
        bytes.fromhex(value) if name in BLOBS and value is not None else value
        for name, value in entry.items()
    ]
    connection.execute(
        f"INSERT INTO {table} ({', '.join(entry)}) VALUES ({', '.join('?' * len(values))})", values
    )


def _embed(connection: duckdb.DuckDBPyConnection, rows: dict[str, list[dict[str, Any]]]) -> None:
    texts = {row["message_digest"]: row["message"] for row in rows["commits"]}
    texts |= {row["text_digest"]: row["semantic_text"] for row in rows["hunks"]}
    vectors = WordEncoder().encode(list(texts.values()))
    for digest, vector in zip(texts, vectors.tolist(), strict=True):
        connection.execute("INSERT INTO vectors VALUES (?, ?)", [bytes.fromhex(digest), vector])
    name = "UPDATE metadata SET version = ? WHERE component = 'embedding_model'"
    connection.execute(name, [EMBEDDING_MODEL])
