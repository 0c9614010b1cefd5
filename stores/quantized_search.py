"""Exact top-k search over the quantized vectors of a large index, with pruning bounds.

Each stage excludes texts from the next one:

1. Score the leading dimensions of the int8 codes, with an upper bound of the trailing ones.
2. Score all dimensions of the codes, with the quantization error as the bound.
3. Compute the exact score from the stored vector.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from stores.duckdb_engine import READER_THREADS
from stores.errors import LineageError
from stores.quantized_vectors import LEADING_DIMENSIONS, Codes8, QuantizedFile, QuantizedVectors
from stores.snapshot import Bools, Digests, Floats, Ints, Snapshot
from stores.whitening import Vectors, normalize

# Upper bound of the rounding error of a sum of 384 products of 32-bit floats around 1.
ROUNDING: Final = 1e-4
# Above this share of the rows, scanning all rows is faster than selecting some.
MAX_GATHERED_SHARE: Final = 0.25
# Multiple of k: so many texts are scored with all codes, to find a lower bound of the k-th best score.
FIRST_PASS_FACTOR: Final = 4
# Rows that are converted to 32-bit floats at a time: 0.5 MB, which fits into the second-level cache of a core.
BLOCK_ROWS: Final = 512

Rows: TypeAlias = npt.NDArray[np.int32]
RowSelection: TypeAlias = Rows | slice
# Returns the exact scores of these vectors.
ExactScorer: TypeAlias = Callable[[Vectors], Floats]
# Returns two values for each of these rows, as an array of shape (2, number of rows).
BoundFunction: TypeAlias = Callable[[QuantizedVectors, RowSelection], Vectors]


class QuantizedFileDamaged(LineageError):
    """Vector in the side file that does not match its code."""


def build_file_damaged_error(file: QuantizedFile) -> QuantizedFileDamaged:
    """Return the error for a damaged side file."""
    return QuantizedFileDamaged(
        f"{file.path} is damaged.", hint="Run `lineage index`, which writes a new one."
    )


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedSnapshot:
    """Texts of a snapshot, in the side file or in the tail (the texts that are newer than the file).

    rows: row of each hunk's text; the rows of the tail follow those of the file. tail_vectors and tail_quantized:
    stored vectors and codes of the tail.
    """

    file: QuantizedFile
    rows: Rows
    tail_vectors: Vectors
    tail_quantized: QuantizedVectors

    @classmethod
    def from_file(
        cls, file: QuantizedFile, snapshot: Snapshot, load_vectors: Callable[[Digests], Vectors]
    ) -> QuantizedSnapshot:
        """Find the snapshot's texts in the file; `load_vectors` returns the vectors of the tail."""
        rows = file.find_rows(snapshot.text_digests)
        tail = np.flatnonzero(rows < 0)
        rows[tail] = len(file.vectors) + np.arange(len(tail))
        tail_vectors = load_vectors(snapshot.text_digests[tail])
        rows_by_hunk = rows.astype(np.int32)[snapshot.hunks.text_indices]
        tail_quantized = QuantizedVectors.from_vectors(file.whitening, tail_vectors)
        return cls(file, rows_by_hunk, tail_vectors, tail_quantized)

    @property
    def bytes(self) -> int:
        """Approximate memory in bytes, without the mapped file."""
        return self.rows.nbytes + self.tail_vectors.nbytes + self.tail_quantized.bytes

    def read_vectors(self, rows: Rows) -> Vectors:
        """Return the stored vectors of these rows; raises QuantizedFileDamaged if one is not finite."""
        file_rows = len(self.file.vectors)
        vectors = np.asarray(self.file.vectors[np.minimum(rows, file_rows - 1)])
        in_tail = rows >= file_rows
        vectors[in_tail] = self.tail_vectors[rows[in_tail] - file_rows]
        if not np.isfinite(vectors).all():
            raise build_file_damaged_error(self.file)
        return vectors

    def read_verified_vectors(self, rows: Rows) -> Vectors:
        """Return the stored vectors of these rows; raises QuantizedFileDamaged if one does not match its code."""
        vectors = self.read_vectors(rows)
        in_file = rows < len(self.file.vectors)
        whitened = self.file.whitening.transform(vectors[in_file].astype(np.float64))
        whitened /= np.maximum(np.linalg.norm(whitened, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        distances = np.linalg.norm(whitened - self.file.quantized.decode(rows[in_file]), axis=1)
        if np.any(distances > self.file.quantized.errors[rows[in_file]] + ROUNDING):
            raise build_file_damaged_error(self.file)
        return vectors

    def compute_bounds(self, rows: Rows, bounds: BoundFunction) -> Vectors:
        """Apply `bounds` to these rows of the file and of the tail; returns an array of shape (2, len(rows))."""
        file_rows = len(self.file.vectors)
        if len(rows) > MAX_GATHERED_SHARE * file_rows:
            bounds_by_part = [
                bounds(vectors, slice(None)) for vectors in (self.file.quantized, self.tail_quantized)
            ]
            return np.take(np.hstack(bounds_by_part), rows, axis=1)
        result = np.empty((2, len(rows)), np.float32)
        in_tail = rows >= file_rows
        result[:, ~in_tail] = bounds(self.file.quantized, rows[~in_tail])
        result[:, in_tail] = bounds(self.tail_quantized, rows[in_tail] - file_rows)
        return result


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedQuery:
    """Conditions of a search.

    hunks: positions of the hunks that pass the filters. is_preferred: mask over all hunks of the snapshot. boost: added
    to the scores of preferred hunks.
    """

    hunks: Ints
    is_preferred: Bools
    boost: float

    def compute_boosts(self, selection: Ints | slice) -> Floats:
        """Return the boost of each of these elements of `hunks`; 0 if not preferred."""
        return np.asarray(self.boost * self.is_preferred[self.hunks[selection]])


@dataclass(frozen=True, slots=True, eq=False)
class QueryVector:
    """Whitened query of length 1, as leading and trailing dimensions."""

    leading: Vectors
    trailing: Vectors

    @classmethod
    def from_query(cls, query: Floats) -> QueryVector:
        """Normalise and split a whitened query."""
        return cls(*np.split(normalize(query).astype(np.float32), [LEADING_DIMENSIONS]))

    def bound_by_leading_codes(self, texts: QuantizedVectors, rows: RowSelection) -> Vectors:
        """Return the approximate score by the leading codes, and an upper bound of the exact score."""
        approximate = _multiply(texts.leading_codes, rows, self.leading) * texts.scales[rows]
        trailing = texts.trailing_norms[rows] * np.float32(np.linalg.norm(self.trailing))
        return np.stack((approximate, approximate + trailing + texts.errors[rows] + ROUNDING))

    def bound_by_all_codes(self, texts: QuantizedVectors, rows: RowSelection) -> Vectors:
        """Return the approximate score by all codes, and the bound of its error."""
        leading = _multiply(texts.leading_codes, rows, self.leading)
        trailing = _multiply(texts.trailing_codes, rows, self.trailing)
        return np.stack(((leading + trailing) * texts.scales[rows], texts.errors[rows] + ROUNDING))


def score_candidates(
    snapshot: QuantizedSnapshot,
    query: QuantizedQuery,
    query_vector: Floats,
    exact_scorer: ExactScorer,
    *,
    limit: int,
) -> tuple[Ints, Floats]:
    """Return the positions of the hunks that can be among the `limit` best, ascending, and their exact scores.

    query_vector: whitened query. Raises QuantizedFileDamaged if an exact score is outside its bounds.
    """
    vector = QueryVector.from_query(query_vector)
    rows = snapshot.rows[query.hunks]
    approximate, upper = snapshot.compute_bounds(rows, vector.bound_by_leading_codes)
    if query.is_preferred.any():
        boost = query.compute_boosts(slice(None))
        approximate, upper = approximate + boost, upper + boost
    first_pass = np.flatnonzero(approximate >= _find_kth_highest(approximate, FIRST_PASS_FACTOR * limit))
    score, error = snapshot.compute_bounds(rows[first_pass], vector.bound_by_all_codes)
    threshold = _find_kth_highest(score - error + query.compute_boosts(first_pass), limit)
    candidates = np.flatnonzero(upper >= threshold)
    score, error = snapshot.compute_bounds(rows[candidates], vector.bound_by_all_codes)
    is_candidate = score + error + query.compute_boosts(candidates) >= threshold
    candidates, score, error = candidates[is_candidate], score[is_candidate], error[is_candidate]
    exact = _score_exactly(snapshot, rows[candidates], exact_scorer)
    if np.any(np.abs(exact - score) > error):
        raise build_file_damaged_error(snapshot.file)
    return query.hunks[candidates], exact + query.compute_boosts(candidates)


def _score_exactly(snapshot: QuantizedSnapshot, rows: Rows, exact_scorer: ExactScorer) -> Floats:
    distinct_rows, inverse = np.unique(rows, return_inverse=True)
    return exact_scorer(snapshot.read_verified_vectors(distinct_rows))[inverse]


def _find_kth_highest(scores: Vectors | Floats, limit: int) -> float:
    """Return the `limit`-th highest score; -inf if there are at most `limit` scores."""
    if len(scores) <= limit:
        return -np.inf
    return float(np.partition(scores, len(scores) - limit)[len(scores) - limit])


def _multiply(codes: Codes8, rows: RowSelection, query: Vectors) -> Vectors:
    """Return the dot product of each of these rows with the query."""
    if isinstance(rows, slice):
        return _multiply_blocks(len(codes), query, lambda start, end: codes[start:end])
    return _multiply_blocks(len(rows), query, lambda start, end: codes[rows[start:end]])


def _multiply_blocks(count: int, query: Vectors, read_block: Callable[[int, int], Codes8]) -> Vectors:
    """Return the dot product of each row with the query; compute it in blocks on several threads."""
    products = np.empty(count, np.float32)
    blocks = -(-count // BLOCK_ROWS)
    threads = min(READER_THREADS, os.cpu_count() or 1, blocks)

    def scan(first_block: int) -> None:
        buffer = np.empty((BLOCK_ROWS, len(query)), np.float32)
        for start in range(first_block * BLOCK_ROWS, count, max(1, threads) * BLOCK_ROWS):
            end = min(start + BLOCK_ROWS, count)
            np.copyto(buffer[: end - start], read_block(start, end))
            np.dot(buffer[: end - start], query, out=products[start:end])

    if threads <= 1:
        scan(0)
        return products
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(scan, range(threads)))
    return products
