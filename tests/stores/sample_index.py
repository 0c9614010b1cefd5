"""Small indexes made by hand from the published tables, so that every word and vector in them is known."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from stores import schema
from stores.types import EMBEDDING_DIMENSION

FIRST_DATE = datetime(2020, 1, 1)  # noqa: DTZ001 - the database keeps UTC without saying so
TABLES_SQL = Path(schema.__file__).with_name("tables.sql")


@dataclass(frozen=True, slots=True)
class Doc:
    """A hunk and, named by `commit`, the commit it belongs to; `symbols` are names it touched."""

    commit: int
    path: str
    words: Sequence[str] = ("word",)
    symbols: Sequence[str] = ()
    language: str | None = "python"
    author: str = "Ada Lovelace"
    email: str = "ada@example.org"
    vector: Sequence[float] = (1.0,)

    @property
    def sha(self) -> str:
        return sha(self.commit)

    @property
    def date(self) -> datetime:
        return FIRST_DATE + timedelta(days=self.commit)

    @property
    def digest(self) -> bytes:
        return hashlib.blake2b(repr(tuple(self.vector)).encode(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class HeadSymbol:
    """A symbol of the HEAD snapshot."""

    path: str
    name: str
    siblings: Sequence[str] = ()


def sha(commit: int) -> str:
    return hashlib.sha1(str(commit).encode(), usedforsecurity=False).hexdigest()


def small_index(
    docs: Sequence[Doc], *, symbols: Sequence[HeadSymbol] = (), unreached: Iterable[int] = ()
) -> duckdb.DuckDBPyConnection:
    """A database in memory that holds these rows and nothing else."""
    connection = duckdb.connect()
    connection.execute(TABLES_SQL.read_text(encoding="utf-8"))
    numbers: dict[str, int] = {}
    _fill(connection, "commits", [_commit(doc) for doc in {doc.commit: doc for doc in docs}.values()])
    _fill(connection, "hunks", [_hunk(number, doc) for number, doc in enumerate(docs)])
    _fill(
        connection, "hunk_symbols", [_symbol(n, name) for n, doc in enumerate(docs) for name in doc.symbols]
    )
    _fill(connection, "vectors", list({doc.digest: _vector(doc) for doc in docs}.values()))
    _fill(connection, "hunk_postings", _postings("hunk_id", [doc.words for doc in docs], numbers))
    _fill(connection, "symbol_postings", _postings("hunk_id", [doc.symbols for doc in docs], numbers))
    _fill(connection, "head_symbols", [_head_symbol(n, symbol) for n, symbol in enumerate(symbols)])
    names = [[symbol.name, *symbol.siblings] for symbol in symbols]
    _fill(connection, "head_postings", _postings("symbol_id", names, numbers))
    _fill(connection, "terms", [{"term_id": number, "term": term} for term, number in numbers.items()])
    _fill(connection, "unreached", [{"commit_sha": sha(commit)} for commit in unreached])
    return connection


def unit(*parts: float) -> np.ndarray:
    """A unit vector whose first coordinates are in these proportions."""
    vector = np.zeros(EMBEDDING_DIMENSION, dtype=np.float32)
    vector[: len(parts)] = parts
    return vector / np.linalg.norm(vector)


def _fill(connection: duckdb.DuckDBPyConnection, table: str, rows: list[dict[str, Any]]) -> None:
    connection.register("rows", pa.Table.from_pylist(rows, schema=schema.TABLES[table]))
    connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM rows")
    connection.unregister("rows")


def _commit(doc: Doc) -> dict[str, Any]:
    return {
        "commit_sha": doc.sha,
        "parents": [],
        "author_name": doc.author,
        "author_email": doc.email,
        "author_date": doc.date,
        "commit_date": doc.date,
        "message": f"Commit {doc.commit}",
        "message_digest": bytes(16),
    }


def _hunk(number: int, doc: Doc) -> dict[str, Any]:
    return {
        "hunk_id": number,
        "commit_sha": doc.sha,
        "file_path": doc.path,
        "change_kind": "modified",
        "content_kind": "text",
        "language": doc.language,
        "added_lines": 1,
        "removed_lines": 0,
        "diff": "@@ -0,0 +1 @@\n+line",
        "diff_truncated": False,
        "semantic_text": " ".join(doc.words),
        "text_digest": doc.digest,
        "word_count": len(doc.words),
        "symbol_word_count": len(doc.symbols),
    }


def _symbol(number: int, name: str) -> dict[str, Any]:
    return {"hunk_id": number, "name": name, "parent": "", "kind": "function", "confidence": "ExactSpan"}


def _vector(doc: Doc) -> dict[str, Any]:
    return {"text_digest": doc.digest, "embedding": unit(*doc.vector).tolist()}


def _head_symbol(number: int, symbol: HeadSymbol) -> dict[str, Any]:
    return {
        "symbol_id": number,
        "file_path": symbol.path,
        "kind": "function",
        "name": symbol.name,
        "parent": "",
        "start_line": 1,
        "end_line": 2,
        "source_text": "",
        "sibling_names": list(symbol.siblings),
        "chunk": 0,
        "word_count": 1 + len(symbol.siblings),
    }


def _postings(key: str, documents: Sequence[Sequence[str]], numbers: dict[str, int]) -> list[dict[str, Any]]:
    return [
        {"term_id": numbers.setdefault(word, len(numbers)), key: document, "frequency": times}
        for document, words in enumerate(documents)
        for word, times in Counter(words).items()
    ]
