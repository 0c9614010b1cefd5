"""Vectors of texts: pending texts, whitening, quantization to 8-bit integers (codes), and exact dot products with them.

An index run first writes the rows of all commits, then the vectors of their texts. So the next run after an
interruption continues with the texts that have no vector.

The vectors of a repository's texts share a large common component, which identifies the repository and hides
the differences between the texts. The whitening transform, fitted to the texts of an index, subtracts the
mean and makes the variances of the principal axes more equal.

`quantize` makes the codes of every vector in an index. A search scans the codes of all texts
(`QuantizedVectors.multiply`); "Vector scan" in README.md compares this with other methods.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stores import schema
from stores.compatibility import EMBEDDING_DIMENSION
from stores.database import format_literals, register_tables
from stores.duckdb_engine import READER_THREADS
from stores.snapshot import Floats, Ints

Vectors: TypeAlias = npt.NDArray[np.float32]

# With fewer texts (1,000 are 2.6 per dimension), the smallest variances are mostly noise, which whitening amplifies.
MIN_TEXTS_TO_WHITEN: Final = 1_000
# Maximum size of the sample, 26 texts per dimension. The estimated variances are off by up to a third, and their powers
# with WHITENING_EXPONENT by 6 %.
MAX_TEXTS_TO_FIT: Final = 10_000
# Exponent of the variances. -1/2 (full whitening) amplifies noise; with 0 (no whitening), the common component
# dominates. See "Vector lane" in README.md.
WHITENING_EXPONENT: Final = -0.1875
# Share of the mean that is subtracted from a query. See "Vector lane" in README.md.
QUERY_MEAN_SHARE: Final = 0.5
# Smallest variance, relative to the largest one. Smaller ones are rounding errors.
MIN_VARIANCE_SHARE: Final = 1e-6
# Rows that are converted to 64-bit floats at a time: 6 MB, enough for a fast matrix product.
WHITENING_BLOCK_ROWS: Final = 2_048

Codes: TypeAlias = npt.NDArray[np.int8]

# Largest code. Codes are symmetric: -128 is not used.
MAX_CODE: Final = 127
# 32-bit floats represent every integer up to this one.
MAX_EXACT_INTEGER: Final = 1 << 24
# Rows that are converted to 32-bit floats at a time: 0.4 MB, which fits into the second-level cache of a core.
SCAN_BLOCK_ROWS: Final = 256
# Minimum number of rows for each thread of a scan, about 0.5 ms of work. Starting a thread takes up to 0.2 ms.
MIN_ROWS_PER_THREAD: Final = 4_096
# Columns of the triangular matrix in `compute_norms` that are multiplied at a time: few, so that most products with
# zeros are left out.
PANEL_COLUMNS: Final = 96


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """Transform of embeddings: subtract `mean`, then multiply by the square matrix `axes`."""

    mean: Floats
    axes: Floats

    @classmethod
    def identity(cls) -> Whitening:
        """Return the transform that changes nothing."""
        return cls(np.zeros(EMBEDDING_DIMENSION), np.eye(EMBEDDING_DIMENSION))

    def transform(self, rows: Floats) -> Floats:
        """Return the transformed rows, not normalized."""
        return np.asarray((rows - self.mean) @ self.axes)

    def transform_query(self, query: Floats) -> Floats:
        """Return the transformed query, not normalized. Only QUERY_MEAN_SHARE of the mean is subtracted."""
        return np.asarray((query - QUERY_MEAN_SHARE * self.mean) @ self.axes)


def fit_whitening(sample: Vectors) -> Whitening:
    """Fit the transform to the first MAX_TEXTS_TO_FIT rows of the sample.

    Return the identity for fewer than MIN_TEXTS_TO_WHITEN rows.
    """
    count = min(len(sample), MAX_TEXTS_TO_FIT)
    if count < MIN_TEXTS_TO_WHITEN:
        return Whitening.identity()
    total, products = np.zeros(EMBEDDING_DIMENSION), np.zeros((EMBEDDING_DIMENSION,) * 2)
    for block in _iterate_float64_blocks(sample[:count]):
        total += block.sum(axis=0)
        products += block.T @ block
    mean = total / count
    variances, directions = np.linalg.eigh(products / count - np.outer(mean, mean))
    if variances[-1] <= 0:  # all vectors are equal
        return Whitening.identity()
    variances = np.maximum(variances, variances[-1] * MIN_VARIANCE_SHARE)
    # Rotating back makes the result unique, because eigenvectors of equal variances have no fixed order.
    return Whitening(mean, (directions * variances**WHITENING_EXPONENT) @ directions.T)


def _iterate_float64_blocks(rows: Vectors) -> Iterator[Floats]:
    for start in range(0, len(rows), WHITENING_BLOCK_ROWS):
        yield rows[start : start + WHITENING_BLOCK_ROWS].astype(np.float64)


def normalize(vector: npt.NDArray[Any]) -> Floats:
    """Scale the vector to length 1; zeros stay zeros."""
    vector64 = np.asarray(vector, dtype=np.float64)
    return vector64 / (np.linalg.norm(vector64) or 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedVectors:
    """Quantized vectors: a vector is about `codes[row] * scales[row]`, with codes from -127 to 127."""

    codes: Codes
    scales: Vectors

    def __len__(self) -> int:
        return len(self.scales)

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.codes.nbytes + self.scales.nbytes

    @classmethod
    def from_columns(cls, codes: pa.Array, scales: pa.Array) -> QuantizedVectors:
        """Convert columns of the table `vectors`. A null, as an outer join gives, becomes a vector of zeros."""
        is_valid = scales.is_valid().to_numpy(zero_copy_only=False)
        vectors = cls(
            np.zeros((len(scales), EMBEDDING_DIMENSION), np.int8), np.zeros(len(scales), np.float32)
        )
        vectors.codes[is_valid] = to_matrix(codes.drop_null())
        vectors.scales[is_valid] = scales.drop_null().to_numpy()
        return vectors

    def take(self, rows: Ints | slice) -> QuantizedVectors:
        """Return the vectors of these rows."""
        return QuantizedVectors(self.codes[rows], self.scales[rows])

    def decode(self) -> Vectors:
        """Return the vectors as floats."""
        return self.codes * self.scales[:, None]

    def multiply(self, weights: Floats) -> Floats:
        """Return the dot product of each vector with the weights, computed on several threads.

        The sums are exact, so equal vectors have equal products on every machine. For this, each weight is rounded to
        about a thousandth of the largest one. This loses less than the codes themselves, which are rounded to 1/127 of
        a vector's largest number.
        """
        integers, factor = _round_weights(weights)
        sums = np.empty(len(self), np.float32)
        threads = max(1, min(READER_THREADS, os.cpu_count() or 1, len(self) // MIN_ROWS_PER_THREAD))

        def scan(thread: int) -> None:
            for block, codes in self._iterate_scan_blocks(thread, threads):
                np.dot(codes, integers, out=sums[block])

        if threads == 1:
            scan(0)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(scan, range(threads)))
        return sums * (self.scales / np.float64(factor))

    def compute_norms(self, mean: Floats, axes: Floats) -> Floats:
        """Return the length of (vector - mean) @ axes for each vector. Equal vectors get equal lengths."""
        # A triangular matrix gives the same lengths, and products with its zeros are left out. The square of a length
        # is |scale * codes @ triangle|² - 2 * scale * (codes @ triangle) @ offset + |offset|².
        triangle = np.asarray(np.linalg.cholesky(axes @ axes.T), np.float64)
        integers, factor = _round_weights(triangle)
        offset = (mean @ triangle).astype(np.float32)
        squares, crosses = np.zeros((2, len(self)), np.float32)
        for block, codes in self._iterate_scan_blocks():
            for start in range(0, EMBEDDING_DIMENSION, PANEL_COLUMNS):
                panel = slice(start, start + PANEL_COLUMNS)
                products = codes[:, start:] @ integers[start:, panel]
                squares[block] += np.vecdot(products, products)
                crosses[block] += np.vecdot(products, offset[panel])
        scales = self.scales / np.float64(factor)
        return np.sqrt(np.maximum(0, scales**2 * squares - 2 * scales * crosses + offset @ offset))

    def _iterate_scan_blocks(self, first: int = 0, step: int = 1) -> Iterator[tuple[slice, Vectors]]:
        """Yield every `step`-th block of rows from block `first` on, and its codes as floats.

        The floats are valid only until the next block, because their buffer is reused.
        """
        buffer = np.empty((SCAN_BLOCK_ROWS, EMBEDDING_DIMENSION), np.float32)
        for start in range(first * SCAN_BLOCK_ROWS, len(self), step * SCAN_BLOCK_ROWS):
            block = slice(start, min(start + SCAN_BLOCK_ROWS, len(self)))
            codes = buffer[: block.stop - start]
            np.copyto(codes, self.codes[block])
            yield block, codes


def quantize(vectors: Vectors) -> QuantizedVectors:
    """Return the codes of these vectors. The largest absolute value of each vector gets the code 127 or -127."""
    scales = np.abs(vectors).max(axis=1) / np.float32(MAX_CODE)
    divisors = np.where(scales == 0, np.float32(1), scales)
    return QuantizedVectors(np.rint(vectors / divisors[:, None]).astype(np.int8), scales)


def quantize_table(embeddings: pa.Table | pa.RecordBatch) -> pa.Table:
    """Convert rows of `schema.EMBEDDINGS` to rows of the table `vectors`."""
    vectors = quantize(to_matrix(pa.table(embeddings).column("embedding").combine_chunks()))
    codes = pa.FixedSizeListArray.from_arrays(pa.array(vectors.codes.reshape(-1)), type=schema.CODES)
    return pa.table(
        [embeddings.column("text_digest"), codes, pa.array(vectors.scales)], schema=schema.VECTORS
    )


def to_matrix(column: pa.Array) -> npt.NDArray[Any]:
    """Convert an Arrow column of vectors or of their codes, without nulls, to a matrix with a row for each vector."""
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(-1, EMBEDDING_DIMENSION)


def _round_weights(weights: Floats) -> tuple[Vectors, float]:
    """Return the weights times a factor, rounded to integers, and the factor.

    The factor is the largest with which no sum of codes times integers exceeds MAX_EXACT_INTEGER. `weights`: a vector,
    or a matrix with a vector in each column.
    """
    largest_sum = float(np.abs(weights).sum(axis=0).max())
    # Rounding adds at most a half to each integer.
    factor = (MAX_EXACT_INTEGER / MAX_CODE - EMBEDDING_DIMENSION / 2) / (largest_sum or 1.0)
    return np.rint(weights * factor).astype(np.float32), factor


# Columns of `list_pending_texts`.
PENDING_SCHEMA: Final = pa.schema(
    [("text_digest", pa.binary()), ("hunk_id", pa.int64()), ("commit_sha", pa.string())]
)

# Commits are recorded parents first, so the last rows are the newest. Hunks with the same text are represented by the
# newest one.
_PENDING_TEXTS: Final = """
WITH texts AS (
    SELECT text_digest, max(hunk_id) AS hunk_id, arg_max(commit_sha, hunk_id) AS commit_sha
    FROM hunks ANTI JOIN vectors USING (text_digest)
    GROUP BY text_digest
    UNION ALL
    SELECT message_digest, NULL, arg_max(commit_sha, rowid)
    FROM commits ANTI JOIN vectors ON message_digest = text_digest
    GROUP BY message_digest
)
SELECT text_digest, hunk_id, commit_sha
FROM texts JOIN (SELECT commit_sha, rowid AS position FROM commits) USING (commit_sha)
ORDER BY position DESC, hunk_id DESC NULLS FIRST"""

_HUNK_TEXTS: Final = """
SELECT text_digest, semantic_text, diff, file_path, old_path, change_kind, message
FROM hunks JOIN commits USING (commit_sha)
WHERE hunk_id IN ({hunks})
ORDER BY hunk_id DESC"""
_MESSAGES: Final = """
SELECT message_digest, message FROM commits SEMI JOIN pending USING (commit_sha) ORDER BY commits.rowid DESC"""


@dataclass(frozen=True, slots=True)
class PendingHunk:
    """Hunk whose text has no vector yet, with the content from which the text is made."""

    text_digest: bytes
    semantic_text: str
    diff: str
    file_path: str
    old_path: str | None
    change_kind: str
    message: str


@dataclass(frozen=True, slots=True)
class PendingMessage:
    """Commit message that has no vector yet."""

    text_digest: bytes
    message: str


def list_pending_texts(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Return the texts without a vector, those of the newest commits first (PENDING_SCHEMA).

    Each distinct text has one row: its digest, and the newest hunk and commit that has it. For a commit message,
    `hunk_id` is null.
    """
    return connection.execute(_PENDING_TEXTS).to_arrow_table().cast(PENDING_SCHEMA)


def load_pending_texts(
    connection: duckdb.DuckDBPyConnection, pending: pa.Table
) -> list[PendingHunk | PendingMessage]:
    """Load the texts of some rows of `list_pending_texts`: messages first, then hunks, both from new to old."""
    is_message = pending.column("hunk_id").is_null()
    with register_tables(connection, pending=pending.filter(is_message)):
        messages = connection.execute(_MESSAGES).fetchall()
    hunk_ids = format_literals(pending.column("hunk_id").drop_null().to_pylist())
    rows = connection.execute(_HUNK_TEXTS.format(hunks=hunk_ids)).fetchall()
    return [*(PendingMessage(*row) for row in messages), *(PendingHunk(*row) for row in rows)]
