"""Batches of made-up commits for the store, each value a function of its document's number."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from stores import schema
from stores.compatibility import NAMES, Components
from stores.index_location import Place
from stores.types import EMBEDDING_DIMENSION
from stores.writer import Batch, HeadChange

# Naive, as the store keeps UTC.
FIRST_DATE = datetime.fromisoformat("2020-01-01")
CURRENT = Components(**dict.fromkeys(NAMES, "1"))


@dataclass(frozen=True, slots=True)
class Document:
    """A commit with one hunk: its number, the words of its text, and the names it touched."""

    commit: int
    words: Mapping[str, int] = field(default_factory=lambda: {"word": 1})
    symbols: Mapping[str, int] = field(default_factory=dict)
    text: str = ""


def place_in(home: Path, name: str = "repo-0123") -> Place:
    return Place(home, name, Path("/somewhere/repo"), "a" * 40)


def sha(number: int) -> str:
    return hashlib.blake2b(str(number).encode(), digest_size=20).hexdigest()


def digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def batch(documents: Sequence[Document], *, watermark: bool = True) -> Batch:
    """The documents as one batch, its last commit the watermark."""
    digests = list(dict.fromkeys(key for one in documents for key in (_message(one), _text(one))))
    return Batch(
        covered=[sha(one.commit) for one in documents],
        commits=pa.Table.from_pylist([_commit(one) for one in documents], schema.COMMITS),
        hunks=pa.Table.from_pylist([_hunk(n, one) for n, one in enumerate(documents)], schema.HUNKS),
        hunk_symbols=pa.Table.from_pylist(
            [_symbol(n, name) for n, one in enumerate(documents) for name in one.symbols], schema.HUNK_SYMBOLS
        ),
        vectors=vectors(digests),
        hunk_words=words([one.words for one in documents]),
        symbol_words=words([one.symbols for one in documents]),
        watermark=sha(documents[-1].commit) if watermark and documents else None,
    )


def vectors(digests: Sequence[bytes]) -> pa.Table:
    rows = [np.random.default_rng(list(key)).standard_normal(EMBEDDING_DIMENSION) for key in digests]
    unit = [(row / np.linalg.norm(row)).astype(np.float32) for row in rows]
    flat = pa.array(np.concatenate([np.zeros(0, np.float32), *unit]))
    embedding = pa.FixedSizeListArray.from_arrays(flat, EMBEDDING_DIMENSION)
    columns = [pa.array(digests, schema.DIGEST), embedding.cast(schema.VECTOR)]
    return pa.Table.from_arrays(columns, schema=schema.VECTORS)


def words(documents: Sequence[Mapping[str, int]]) -> pa.Table:
    rows = [
        {"document": number, "term": term, "frequency": times}
        for number, document in enumerate(documents)
        for term, times in document.items()
    ]
    return pa.Table.from_pylist(rows, schema.WORDS)


def head(paths: Sequence[str], names: Sequence[str], *, blob: str = "b" * 40) -> HeadChange:
    """Every path with every name as a symbol."""
    symbols = [(path, name) for path in paths for name in names]
    return HeadChange(
        replaced_paths=paths,
        files=pa.Table.from_pylist(
            [{"file_path": path, "blob_sha": blob, "language": "python"} for path in paths],
            schema.HEAD_FILES,
        ),
        symbols=pa.Table.from_pylist(
            [_head_symbol(n, path, name) for n, (path, name) in enumerate(symbols)], schema.HEAD_SYMBOLS
        ),
        chunks=pa.Table.from_pylist(
            [{"file_path": path, "chunk": 0, "start_line": 1, "end_line": 2, "tokens": 3} for path in paths],
            schema.HEAD_CHUNKS,
        ),
        words=words([{name.lower(): 1} for _, name in symbols]),
    )


def _commit(one: Document) -> dict[str, Any]:
    date = FIRST_DATE + timedelta(days=one.commit)
    return {
        "commit_sha": sha(one.commit),
        "parents": [sha(one.commit - 1)] if one.commit else [],
        "author_name": "Ada Lovelace",
        "author_email": "ada@example.org",
        "author_date": date,
        "commit_date": date,
        "message": f"Commit {one.commit}",
        "message_digest": _message(one),
    }


def _hunk(number: int, one: Document) -> dict[str, Any]:
    return {
        "hunk_id": number,
        "commit_sha": sha(one.commit),
        "file_path": f"file{one.commit}.py",
        "change_kind": "modified",
        "content_kind": "text",
        "added_lines": 1,
        "removed_lines": 0,
        "diff": "@@ -0,0 +1 @@\n+line",
        "diff_truncated": False,
        "semantic_text": one.text,
        "text_digest": _text(one),
        "word_count": sum(one.words.values()),
        "symbol_word_count": sum(one.symbols.values()),
    }


def _symbol(number: int, name: str) -> dict[str, Any]:
    return {"hunk_id": number, "name": name, "parent": "", "kind": "function", "confidence": "ExactSpan"}


def _head_symbol(number: int, path: str, name: str) -> dict[str, Any]:
    return {
        "symbol_id": number,
        "file_path": path,
        "kind": "function",
        "name": name,
        "parent": "",
        "start_line": 1,
        "end_line": 2,
        "source_text": f"def {name}(): ...",
        "sibling_names": [],
        "chunk": 0,
        "word_count": 1,
    }


def _message(one: Document) -> bytes:
    return digest(f"Commit {one.commit}")


def _text(one: Document) -> bytes:
    return digest(one.text or f"text {one.commit}")
