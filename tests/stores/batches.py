"""Generated commits as batches for the writer; every value is a function of the document's number."""

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
from stores.compatibility import COMPONENT_NAMES, ComponentVersions
from stores.index_location import IndexLocation
from stores.types import EMBEDDING_DIMENSION
from stores.writer import Batch, HeadChange

# Naive UTC, as in the database.
FIRST_DATE = datetime.fromisoformat("2020-01-01")
CURRENT_VERSIONS = ComponentVersions(**dict.fromkeys(COMPONENT_NAMES, "1"))


@dataclass(frozen=True, slots=True)
class Document:
    """Commit with one hunk: the commit's number, and the frequencies of the hunk's words and symbol words."""

    commit: int
    words: Mapping[str, int] = field(default_factory=lambda: {"word": 1})
    symbols: Mapping[str, int] = field(default_factory=dict)
    text: str = ""


def make_location(home: Path, name: str = "repo-0123") -> IndexLocation:
    """Return the location of an index under this home."""
    return IndexLocation(home, name, Path("/somewhere/repo"), "a" * 40)


def sha(number: int) -> str:
    """Return the sha of the commit with this number."""
    return hashlib.blake2b(str(number).encode(), digest_size=20).hexdigest()


def digest(text: str) -> bytes:
    """Return the digest of a text."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def make_batch(documents: Sequence[Document], *, watermark: bool = True) -> Batch:
    """Return the documents as one batch; with `watermark`, its last commit becomes the watermark."""
    digests = list(
        dict.fromkeys(
            key for document in documents for key in (_message_digest(document), _text_digest(document))
        )
    )
    return Batch(
        covered_commits=[sha(document.commit) for document in documents],
        commits=pa.Table.from_pylist([_commit_row(document) for document in documents], schema.COMMITS),
        hunks=pa.Table.from_pylist(
            [_hunk_row(n, document) for n, document in enumerate(documents)], schema.HUNKS
        ),
        hunk_symbols=pa.Table.from_pylist(
            [_symbol_row(n, name) for n, document in enumerate(documents) for name in document.symbols],
            schema.HUNK_SYMBOLS,
        ),
        vectors=make_vectors(digests),
        hunk_terms=make_term_rows([document.words for document in documents]),
        symbol_terms=make_term_rows([document.symbols for document in documents]),
        watermark=sha(documents[-1].commit) if watermark and documents else None,
    )


def make_vectors(digests: Sequence[bytes]) -> pa.Table:
    """Return a random unit vector for each digest; the same digest gives the same vector."""
    rows = [np.random.default_rng(list(key)).standard_normal(EMBEDDING_DIMENSION) for key in digests]
    unit = [(row / np.linalg.norm(row)).astype(np.float32) for row in rows]
    flat = pa.array(np.concatenate([np.zeros(0, np.float32), *unit]))
    embedding = pa.FixedSizeListArray.from_arrays(flat, EMBEDDING_DIMENSION)
    columns = [pa.array(digests, schema.DIGEST), embedding.cast(schema.VECTOR)]
    return pa.Table.from_arrays(columns, schema=schema.VECTORS)


def make_term_rows(documents: Sequence[Mapping[str, int]]) -> pa.Table:
    """Return the terms of the documents, which are given as term -> frequency."""
    rows = [
        {"document": number, "term": term, "frequency": frequency}
        for number, document in enumerate(documents)
        for term, frequency in document.items()
    ]
    return pa.Table.from_pylist(rows, schema.DOCUMENT_TERMS)


def make_head_change(paths: Sequence[str], names: Sequence[str], *, blob: str = "b" * 40) -> HeadChange:
    """Return a change that replaces these files; each of them has all these symbols."""
    symbols = [(path, name) for path in paths for name in names]
    return HeadChange(
        replaced_paths=paths,
        files=pa.Table.from_pylist(
            [{"file_path": path, "blob_sha": blob, "language": "python"} for path in paths],
            schema.HEAD_FILES,
        ),
        symbols=pa.Table.from_pylist(
            [_head_symbol_row(n, path, name) for n, (path, name) in enumerate(symbols)], schema.HEAD_SYMBOLS
        ),
        chunks=pa.Table.from_pylist(
            [{"file_path": path, "chunk": 0, "start_line": 1, "end_line": 2, "tokens": 3} for path in paths],
            schema.HEAD_CHUNKS,
        ),
        terms=make_term_rows([{name.lower(): 1} for _, name in symbols]),
    )


def _commit_row(document: Document) -> dict[str, Any]:
    date = FIRST_DATE + timedelta(days=document.commit)
    return {
        "commit_sha": sha(document.commit),
        "parents": [sha(document.commit - 1)] if document.commit else [],
        "author_name": "Ada Lovelace",
        "author_email": "ada@example.org",
        "author_date": date,
        "commit_date": date,
        "message": f"Commit {document.commit}",
        "message_digest": _message_digest(document),
    }


def _hunk_row(number: int, document: Document) -> dict[str, Any]:
    return {
        "hunk_id": number,
        "commit_sha": sha(document.commit),
        "file_path": f"file{document.commit}.py",
        "change_kind": "modified",
        "content_kind": "text",
        "added_lines": 1,
        "removed_lines": 0,
        "diff": "@@ -0,0 +1 @@\n+line",
        "diff_truncated": False,
        "semantic_text": document.text,
        "text_digest": _text_digest(document),
        "word_count": sum(document.words.values()),
        "symbol_word_count": sum(document.symbols.values()),
    }


def _symbol_row(number: int, name: str) -> dict[str, Any]:
    return {"hunk_id": number, "name": name, "parent": "", "kind": "function", "confidence": "ExactSpan"}


def _head_symbol_row(number: int, path: str, name: str) -> dict[str, Any]:
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


def _message_digest(document: Document) -> bytes:
    return digest(f"Commit {document.commit}")


def _text_digest(document: Document) -> bytes:
    return digest(document.text or f"text {document.commit}")
