"""Small in-memory indexes with given words and vectors."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from stores import schema
from stores.compatibility import EMBEDDING_DIMENSION
from stores.vectors import quantize_table

FIRST_DATE = datetime(2020, 1, 1)  # noqa: DTZ001 - naive UTC, as in the database
TABLES_SQL = Path(schema.__file__).with_name("tables.sql")


@dataclass(frozen=True, slots=True)
class SampleHunk:
    """Hunk and its commit, whose number is `commit`; `symbols` are the names of the symbols it touched."""

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
        return make_sha(self.commit)

    @property
    def date(self) -> datetime:
        return FIRST_DATE + timedelta(days=self.commit)

    @property
    def digest(self) -> bytes:
        return hashlib.blake2b(repr(tuple(self.vector)).encode(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class HeadSymbol:
    """Symbol of the HEAD snapshot."""

    path: str
    name: str
    siblings: Sequence[str] = ()


def make_sha(commit: int) -> str:
    """Return the sha of the commit with this number."""
    return hashlib.sha1(str(commit).encode(), usedforsecurity=False).hexdigest()


def create_index(
    hunks: Sequence[SampleHunk], *, symbols: Sequence[HeadSymbol] = (), unreachable: Iterable[int] = ()
) -> duckdb.DuckDBPyConnection:
    """Create an in-memory index with these hunks; HEAD does not reach the commits in `unreachable`."""
    connection = duckdb.connect()
    connection.execute(TABLES_SQL.read_text(encoding="utf-8"))
    term_ids: dict[str, int] = {}
    _insert(
        connection,
        "commits",
        [_build_commit_row(hunk) for hunk in {hunk.commit: hunk for hunk in hunks}.values()],
    )
    _insert(connection, "hunks", [_build_hunk_row(number, hunk) for number, hunk in enumerate(hunks)])
    _insert(
        connection,
        "hunk_symbols",
        [_build_symbol_row(n, name) for n, hunk in enumerate(hunks) for name in hunk.symbols],
    )
    insert_vectors(connection, {hunk.digest: make_unit_vector(*hunk.vector) for hunk in hunks})
    _insert(
        connection, "hunk_postings", _build_posting_rows("hunk_id", [hunk.words for hunk in hunks], term_ids)
    )
    _insert(
        connection,
        "symbol_postings",
        _build_posting_rows("hunk_id", [hunk.symbols for hunk in hunks], term_ids),
    )
    _insert(
        connection, "head_symbols", [_build_head_symbol_row(n, symbol) for n, symbol in enumerate(symbols)]
    )
    names = [[symbol.name, *symbol.siblings] for symbol in symbols]
    _insert(connection, "head_postings", _build_posting_rows("symbol_id", names, term_ids))
    _insert(connection, "terms", [{"term_id": number, "term": term} for term, number in term_ids.items()])
    _insert(connection, "unreached", [{"commit_sha": make_sha(commit)} for commit in unreachable])
    return connection


def make_unit_vector(*parts: float) -> np.ndarray:
    """Return the unit vector in this direction; missing coordinates are 0."""
    vector = np.zeros(EMBEDDING_DIMENSION, dtype=np.float32)
    vector[: len(parts)] = parts
    return vector / np.linalg.norm(vector)


def insert_vectors(connection: duckdb.DuckDBPyConnection, vectors: Mapping[bytes, np.ndarray]) -> None:
    """Insert a vector for each text digest."""
    rows = [{"text_digest": digest, "embedding": vector.tolist()} for digest, vector in vectors.items()]
    _insert(connection, "vectors", quantize_table(pa.Table.from_pylist(rows, schema.EMBEDDINGS)).to_pylist())


def _insert(connection: duckdb.DuckDBPyConnection, table: str, rows: list[dict[str, Any]]) -> None:
    connection.register("rows", pa.Table.from_pylist(rows, schema=schema.TABLES[table]))
    connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM rows")
    connection.unregister("rows")


def _build_commit_row(hunk: SampleHunk) -> dict[str, Any]:
    return {
        "commit_sha": hunk.sha,
        "parents": [],
        "author_name": hunk.author,
        "author_email": hunk.email,
        "author_date": hunk.date,
        "commit_date": hunk.date,
        "message": f"Commit {hunk.commit}",
        "message_digest": bytes(16),
    }


def _build_hunk_row(number: int, hunk: SampleHunk) -> dict[str, Any]:
    return {
        "hunk_id": number,
        "commit_sha": hunk.sha,
        "file_path": hunk.path,
        "change_kind": "modified",
        "content_kind": "text",
        "language": hunk.language,
        "added_lines": 1,
        "removed_lines": 0,
        "diff": "@@ -0,0 +1 @@\n+line",
        "diff_truncated": False,
        "semantic_text": " ".join(hunk.words),
        "text_digest": hunk.digest,
        "word_count": len(hunk.words),
        "symbol_word_count": len(hunk.symbols),
    }


def _build_symbol_row(number: int, name: str) -> dict[str, Any]:
    return {"hunk_id": number, "name": name, "parent": "", "kind": "function", "confidence": "ExactSpan"}


def _build_head_symbol_row(number: int, symbol: HeadSymbol) -> dict[str, Any]:
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


def _build_posting_rows(
    key: str, documents: Sequence[Sequence[str]], term_ids: dict[str, int]
) -> list[dict[str, Any]]:
    return [
        {"term_id": term_ids.setdefault(word, len(term_ids)), key: document, "frequency": frequency}
        for document, words in enumerate(documents)
        for word, frequency in Counter(words).items()
    ]
