"""Generated commits as batches for the writer; every value is a function of the commit's number."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from stores import migrations, schema
from stores.compatibility import COMPONENT_NAMES, EMBEDDING_DIMENSION, ComponentVersions
from stores.index_location import IndexLocation
from stores.writer import Batch, HeadChange

# Naive UTC, as in the database.
FIRST_DATE = datetime.fromisoformat("2020-01-01")
CURRENT_VERSIONS = ComponentVersions(**dict.fromkeys(COMPONENT_NAMES, "1"))


@dataclass(frozen=True, slots=True)
class SampleCommit:
    """Commit with one hunk; `words` and `symbols` are the frequencies of terms in its text and symbol names."""

    number: int
    words: Mapping[str, int] = field(default_factory=lambda: {"word": 1})
    symbols: Mapping[str, int] = field(default_factory=dict)
    text: str = ""


@contextmanager
def open_empty_index() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an in-memory database with the tables of an index that has no commits."""
    with duckdb.connect() as connection:
        migrations.migrate(connection)
        connection.execute("INSERT INTO repository VALUES ('id', '/path', NULL, NULL, NULL, NULL, 0, NULL)")
        yield connection


def make_location(home: Path, name: str = "repo-0123") -> IndexLocation:
    """Return the location of an index under this home."""
    return IndexLocation(home, name, Path("/somewhere/repo"), "a" * 40)


def make_sha(number: int) -> str:
    """Return the sha of the commit with this number."""
    return hashlib.blake2b(str(number).encode(), digest_size=20).hexdigest()


def compute_digest(text: str) -> bytes:
    """Return the digest of a text."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def make_batch(commits: Sequence[SampleCommit], *, watermark: bool = True) -> Batch:
    """Return the commits as one batch; with `watermark`, its last commit becomes the watermark."""
    digests = list(
        dict.fromkeys(
            key
            for commit in commits
            for key in (_compute_message_digest(commit), _compute_text_digest(commit))
        )
    )
    return Batch(
        covered_commits=[make_sha(commit.number) for commit in commits],
        commits=pa.Table.from_pylist([_build_commit_row(commit) for commit in commits], schema.COMMITS),
        hunks=pa.Table.from_pylist(
            [_build_hunk_row(n, commit) for n, commit in enumerate(commits)], schema.HUNKS
        ),
        hunk_symbols=pa.Table.from_pylist(
            [_build_symbol_row(n, name) for n, commit in enumerate(commits) for name in commit.symbols],
            schema.HUNK_SYMBOLS,
        ),
        vectors=make_vectors(digests),
        hunk_terms=make_term_rows([commit.words for commit in commits]),
        symbol_terms=make_term_rows([commit.symbols for commit in commits]),
        watermark=make_sha(commits[-1].number) if watermark and commits else None,
    )


def make_vectors(digests: Sequence[bytes]) -> pa.Table:
    """Return a random unit vector for each digest; the same digest gives the same vector."""
    rows = [np.random.default_rng(list(key)).standard_normal(EMBEDDING_DIMENSION) for key in digests]
    unit_vectors = [(row / np.linalg.norm(row)).astype(np.float32) for row in rows]
    flat = pa.array(np.concatenate([np.zeros(0, np.float32), *unit_vectors]))
    embedding = pa.FixedSizeListArray.from_arrays(flat, EMBEDDING_DIMENSION)
    columns = [pa.array(digests, schema.DIGEST), embedding.cast(schema.VECTOR)]
    return pa.Table.from_arrays(columns, schema=schema.EMBEDDINGS)


def make_term_rows(documents: Sequence[Mapping[str, int]]) -> pa.Table:
    """Return rows of DOCUMENT_TERMS for documents, each given as a map from term to frequency."""
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
            [_build_head_symbol_row(n, path, name) for n, (path, name) in enumerate(symbols)],
            schema.HEAD_SYMBOLS,
        ),
        chunks=pa.Table.from_pylist(
            [{"file_path": path, "chunk": 0, "start_line": 1, "end_line": 2, "tokens": 3} for path in paths],
            schema.HEAD_CHUNKS,
        ),
        terms=make_term_rows([{name.lower(): 1} for _, name in symbols]),
    )


def _build_commit_row(commit: SampleCommit) -> dict[str, Any]:
    date = FIRST_DATE + timedelta(days=commit.number)
    return {
        "commit_sha": make_sha(commit.number),
        "parents": [make_sha(commit.number - 1)] if commit.number else [],
        "author_name": "Ada Lovelace",
        "author_email": "ada@example.org",
        "author_date": date,
        "commit_date": date,
        "message": f"Commit {commit.number}",
        "message_digest": _compute_message_digest(commit),
    }


def _build_hunk_row(number: int, commit: SampleCommit) -> dict[str, Any]:
    return {
        "hunk_id": number,
        "commit_sha": make_sha(commit.number),
        "file_path": f"file{commit.number}.py",
        "change_kind": "modified",
        "content_kind": "text",
        "added_lines": 1,
        "removed_lines": 0,
        "diff": "@@ -0,0 +1 @@\n+line",
        "diff_truncated": False,
        "semantic_text": commit.text,
        "text_digest": _compute_text_digest(commit),
        "word_count": sum(commit.words.values()),
        "symbol_word_count": sum(commit.symbols.values()),
    }


def _build_symbol_row(number: int, name: str) -> dict[str, Any]:
    return {"hunk_id": number, "name": name, "parent": "", "kind": "function", "confidence": "ExactSpan"}


def _build_head_symbol_row(number: int, path: str, name: str) -> dict[str, Any]:
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


def _compute_message_digest(commit: SampleCommit) -> bytes:
    return compute_digest(f"Commit {commit.number}")


def _compute_text_digest(commit: SampleCommit) -> bytes:
    return compute_digest(commit.text or f"text {commit.number}")
