"""Vector lane: ranking of hunks by exact cosine over their whitened vectors, and vectors of commit messages.

The ranking uses whitened vectors (`whitening`); the similarities in answers are plain cosines. Vectors are in memory,
or for a large index in the side file (`quantized_vectors`). If that file is missing, each query reads the vectors from
the database in blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

from stores import history, quantized_search, quantized_vectors
from stores.database import fetch_int
from stores.filters import FilterMask
from stores.quantized_search import QuantizedFileDamaged, QuantizedQuery, QuantizedSnapshot
from stores.quantized_vectors import to_matrix
from stores.snapshot import (
    LANE_DEPTH,
    PREFERRED_PATH_BOOST,
    Bools,
    Digests,
    Floats,
    Ints,
    RankedHunk,
    Snapshot,
    select_top_k,
    select_top_k_at,
    to_digest_array,
)
from stores.types import EMBEDDING_DIMENSION
from stores.whitening import BLOCK_ROWS, MAX_TEXTS_TO_FIT, Vectors, Whitening, fit_whitening, normalize

# Weight of the message's cosine when `serve.search.retrieval` averages it with a hunk's own cosine. See "Vector lane"
# in README.md.
MESSAGE_WEIGHT: Final = 0.25
# Longer messages are cut. Nine in ten messages are shorter; longer ones describe the change first, then quote logs
# and mails.
MAX_MESSAGE_CHARS: Final = 4_000
# Number of vectors in 64 MB. For a longer history, each query reads the messages of its candidates.
MAX_CACHED_MESSAGES: Final = 64_000_000 // (4 * EMBEDDING_DIMENSION)

# Cosines are rounded to nine decimals, so that the order of summation cannot decide a tie.
COSINE_DECIMALS: Final = 9
# Added to the cosine of a hunk in a preferred path. Whitened cosines are near 0.2 for unrelated texts and 0.6 for
# related ones, so 0.1 has about the effect of the factor in the full-text lanes.
PREFERRED_PATH_COSINE_BOOST: Final = PREFERRED_PATH_BOOST / 15

_PENDING_TEXTS_SQL: Final = "SELECT DISTINCT text_digest FROM hunks ANTI JOIN vectors USING (text_digest)"
_VECTORS_SQL: Final = "SELECT text_digest, embedding FROM vectors"
_HUNK_VECTORS_SQL: Final = """
SELECT hunk_id, embedding FROM hunks JOIN vectors USING (text_digest) WHERE hunk_id IN ({hunks})"""
_MESSAGES_SQL: Final = """
SELECT commit_sha, left(message, {longest}) AS message, embedding
FROM commits LEFT JOIN vectors ON text_digest = message_digest"""


@dataclass(frozen=True, slots=True, eq=False)
class CommitMessages:
    """Commit messages and their vectors.

    row_by_sha: row of each commit in `messages` (cut to MAX_MESSAGE_CHARS) and `vectors` (zeros for a message without a
    vector).
    """

    row_by_sha: dict[str, int]
    messages: pa.ChunkedArray
    vectors: Vectors

    @property
    def bytes(self) -> int:
        """Approximate memory in bytes."""
        return int(self.messages.nbytes) + self.vectors.nbytes + 150 * len(self.row_by_sha)

    def get_messages(self, shas: Sequence[str]) -> list[str]:
        """Return the messages of these commits, which must all be loaded."""
        messages: list[str] = self.messages.take(pa.array(self._find_rows(shas), pa.int64())).to_pylist()
        return messages

    def get_vectors(self, shas: Sequence[str]) -> Vectors:
        """Return the vectors of the messages of these commits, which must all be loaded."""
        return self.vectors[self._find_rows(shas)]

    def _find_rows(self, shas: Sequence[str]) -> list[int]:
        return [self.row_by_sha[sha] for sha in shas]


def load_all_messages(connection: duckdb.DuckDBPyConnection) -> CommitMessages | None:
    """Load all messages; None if there are more than MAX_CACHED_MESSAGES."""
    count = fetch_int(connection, "SELECT count(*) FROM commits")
    return _read_messages(connection, "") if count <= MAX_CACHED_MESSAGES else None


def load_messages(connection: duckdb.DuckDBPyConnection, shas: Sequence[str]) -> CommitMessages:
    """Load the messages of these commits."""
    # SQL literals, because with a list as a bound parameter DuckDB cannot skip row groups.
    sha_literals = ", ".join(f"'{sha}'" for sha in shas) or "NULL"
    return _read_messages(connection, f" WHERE commit_sha IN ({sha_literals})")


@dataclass(frozen=True, slots=True, eq=False)
class TextVectors:
    """Distinct texts of a snapshot, for vector search.

    digests: the texts' digests, sorted. norms: lengths of the whitened vectors; empty with `quantized`. vectors: stored
    vectors; None if they are too many for memory. is_pending: texts that have no vector yet, which no search finds.
    quantized: the texts in the side file, if it is used.
    """

    digests: Digests
    whitening: Whitening
    norms: Floats
    vectors: Vectors | None
    is_pending: Bools
    quantized: QuantizedSnapshot | None = None

    @property
    def bytes(self) -> int:
        """Approximate memory in bytes, without the digests, which belong to the snapshot."""
        arrays = (self.whitening.axes, self.norms, self.vectors)
        size = sum(array.nbytes for array in arrays if array is not None)
        return size + (self.quantized.bytes if self.quantized else 0)


def load_text_vectors(
    connection: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    *,
    whitening: Whitening | None = None,
    side_file: Path | None = None,
) -> TextVectors:
    """Load the vectors of a snapshot's texts.

    whitening: transform to use; None fits one to the texts. side_file: path of the file with quantized vectors; it is
    read only if `whitening` is None and there are more than `history.MAX_ROWS_IN_MEMORY` texts.
    """
    digests = snapshot.text_digests
    pending_texts = connection.execute(_PENDING_TEXTS_SQL).to_arrow_table().column(0)
    is_pending = np.isin(digests, to_digest_array(pending_texts.combine_chunks()))
    fits_in_memory = len(digests) <= history.MAX_ROWS_IN_MEMORY
    if (
        not fits_in_memory
        and side_file is not None
        and whitening is None
        and (quantized_file := quantized_vectors.open_quantized_file(connection, side_file))
    ):
        quantized = QuantizedSnapshot.from_file(
            quantized_file,
            snapshot,
            lambda missing: _read_first_vectors(connection, missing, len(missing)),
        )
        return TextVectors(digests, quantized_file.whitening, np.zeros(0), None, is_pending, quantized)
    vectors = _read_first_vectors(connection, digests, len(digests)) if fits_in_memory else None
    # Digests are hashes, so the first ones are a random sample that does not depend on the order of indexing.
    whitening = whitening or fit_whitening(
        _read_first_vectors(connection, digests, MAX_TEXTS_TO_FIT) if vectors is None else vectors
    )
    norms = np.zeros(len(digests))
    for indices, block in _iterate_blocks(connection, digests, vectors):
        norms[indices] = np.linalg.norm(whitening.transform(block), axis=1)
    return TextVectors(digests, whitening, norms, vectors, is_pending)


def search(
    connection: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    text_vectors: TextVectors,
    query: Vectors,
    mask: FilterMask,
    *,
    limit: int = LANE_DEPTH,
) -> tuple[RankedHunk, ...]:
    """Return the hunks whose texts are most similar to the query's vector, best first."""
    if text_vectors.is_pending.any():
        is_included = mask.is_included & ~text_vectors.is_pending[snapshot.hunks.text_indices]
        mask = replace(mask, is_included=is_included)
    if text_vectors.quantized is not None:
        try:
            positions, scores = _search_quantized(text_vectors.quantized, mask, query, limit)
            return select_top_k_at(snapshot, positions, scores, limit)
        except QuantizedFileDamaged:
            text_vectors.quantized.file.discard()
            text_vectors = load_text_vectors(connection, snapshot, whitening=text_vectors.whitening)
    scores = _score_texts(connection, text_vectors, query)[snapshot.hunks.text_indices]
    return select_top_k(
        snapshot, scores + PREFERRED_PATH_COSINE_BOOST * mask.is_preferred, mask.is_included, limit
    )


def compute_hunk_similarities(
    connection: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    text_vectors: TextVectors,
    query: Vectors,
    hunks: Sequence[int],
) -> dict[int, float]:
    """Return the plain cosine between the query and the text of each of these hunks."""
    rows = load_hunk_vectors(connection, snapshot, text_vectors, hunks)
    return dict(zip(hunks, compute_cosine_similarities(rows, query).tolist(), strict=True))


def load_hunk_vectors(
    connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, text_vectors: TextVectors, hunks: Sequence[int]
) -> Vectors:
    """Return the stored vectors of these hunks' texts, one row each; zeros for a text without a vector."""
    positions = snapshot.hunks.positions.find_positions(np.array(hunks, dtype=np.int64))
    if text_vectors.quantized is not None:
        try:
            return text_vectors.quantized.read_verified_vectors(text_vectors.quantized.rows[positions])
        except QuantizedFileDamaged:
            text_vectors.quantized.file.discard()
    if text_vectors.vectors is not None:
        return text_vectors.vectors[snapshot.hunks.text_indices[positions]]
    vector_by_hunk = _read_hunk_vectors(connection, hunks) if hunks else {}
    zeros = np.zeros(EMBEDDING_DIMENSION, np.float32)
    return np.array([vector_by_hunk.get(hunk, zeros) for hunk in hunks]).reshape(-1, EMBEDDING_DIMENSION)


def compute_cosine_similarities(vectors: Vectors | Floats, query: Vectors | Floats) -> Floats:
    """Return the cosine between the query and each row; 0 for a row of zeros."""
    vectors64 = vectors.astype(np.float64)
    norms = np.linalg.norm(vectors64, axis=1)
    return np.round(vectors64 @ normalize(query) / np.where(norms == 0, 1, norms), COSINE_DECIMALS)


def _read_messages(connection: duckdb.DuckDBPyConnection, condition: str) -> CommitMessages:
    rows = connection.execute(_MESSAGES_SQL.format(longest=MAX_MESSAGE_CHARS) + condition).to_arrow_table()
    embeddings = rows.column("embedding").combine_chunks()
    vectors = np.zeros((len(rows), EMBEDDING_DIMENSION), np.float32)
    vectors[embeddings.is_valid().to_numpy(zero_copy_only=False)] = to_matrix(embeddings.drop_null())
    row_by_sha = {sha: row for row, sha in enumerate(rows.column("commit_sha").to_pylist())}
    return CommitMessages(row_by_sha, rows.column("message"), vectors)


def _search_quantized(
    quantized: QuantizedSnapshot, mask: FilterMask, query: Vectors, limit: int
) -> tuple[Ints, Floats]:
    whitening = quantized.file.whitening
    whitened_query = whitening.transform_query(query.astype(np.float64))
    direction = whitening.axes @ normalize(whitened_query)
    offset = float(whitening.mean @ direction)

    def score_exactly(rows: Vectors) -> Floats:
        block = rows.astype(np.float64)
        return _to_cosines(block @ direction, offset, np.linalg.norm(whitening.transform(block), axis=1))

    quantized_query = QuantizedQuery(
        np.flatnonzero(mask.is_included), mask.is_preferred, PREFERRED_PATH_COSINE_BOOST
    )
    return quantized_search.score_candidates(
        quantized, quantized_query, whitened_query, score_exactly, limit=limit
    )


def _score_texts(connection: duckdb.DuckDBPyConnection, text_vectors: TextVectors, query: Vectors) -> Floats:
    """Return the whitened cosine between the query and each text."""
    whitening = text_vectors.whitening
    # The score is (row - mean) @ axes @ whitened query, divided by the row's norm. The parts without the row are
    # computed once.
    direction = whitening.axes @ normalize(whitening.transform_query(query.astype(np.float64)))
    offset = float(whitening.mean @ direction)
    products = np.full(len(text_vectors.digests), offset)  # a text that is not read gets the score 0
    for indices, block in _iterate_blocks(connection, text_vectors.digests, text_vectors.vectors):
        products[indices] = block @ direction
    return _to_cosines(products, offset, text_vectors.norms)


def _to_cosines(products: Floats, offset: float, norms: Floats) -> Floats:
    return np.round((products - offset) / np.where(norms == 0, 1, norms), COSINE_DECIMALS)


def _iterate_blocks(
    connection: duckdb.DuckDBPyConnection, digests: Digests, vectors: Vectors | None
) -> Iterator[tuple[Ints | slice, Floats]]:
    """Yield the vectors of the texts in blocks, with their indices; from the index if `vectors` is None."""
    if vectors is not None:
        yield from _slice_blocks(vectors)
        return
    for indices, block in _read_vectors(connection, digests):
        yield indices, block.astype(np.float64)


def _slice_blocks(vectors: Vectors) -> Iterator[tuple[slice, Floats]]:
    """Yield all rows in blocks, in a buffer that is reused, because allocating takes longer than copying."""
    buffer = np.empty((min(len(vectors), BLOCK_ROWS), EMBEDDING_DIMENSION))
    for start in range(0, len(vectors), BLOCK_ROWS):
        indices = slice(start, min(start + BLOCK_ROWS, len(vectors)))
        block = buffer[: indices.stop - start]
        np.copyto(block, vectors[indices])
        yield indices, block


def _read_first_vectors(connection: duckdb.DuckDBPyConnection, digests: Digests, count: int) -> Vectors:
    """Return the vectors of the first `count` texts; zeros for a text without a vector."""
    vectors = np.zeros((min(count, len(digests)), EMBEDDING_DIMENSION), np.float32)
    for indices, block in _read_vectors(connection, digests[:count]):
        vectors[indices] = block
    return vectors


def _read_vectors(connection: duckdb.DuckDBPyConnection, digests: Digests) -> Iterator[tuple[Ints, Vectors]]:
    """Yield the stored vectors of these texts with their indices, in table order."""
    if not len(digests):
        return
    for batch in connection.execute(_VECTORS_SQL).to_arrow_reader(BLOCK_ROWS):
        keys = to_digest_array(batch.column(0))
        indices = np.minimum(np.searchsorted(digests, keys), len(digests) - 1)
        is_requested = digests[indices] == keys
        yield indices[is_requested], to_matrix(batch.column(1))[is_requested]


def _read_hunk_vectors(connection: duckdb.DuckDBPyConnection, hunks: Sequence[int]) -> dict[int, Vectors]:
    # SQL literals, because with a list as a bound parameter DuckDB cannot skip row groups.
    rows = connection.execute(_HUNK_VECTORS_SQL.format(hunks=", ".join(map(str, hunks)))).to_arrow_table()
    vectors = to_matrix(rows.column(1).combine_chunks())
    return dict(zip(rows.column(0).to_pylist(), vectors, strict=True))
