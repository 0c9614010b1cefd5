"""Whitening transform of embeddings, fitted to the texts of an index.

All texts of a repository share a large common component, which identifies the repository and hides the differences
between its texts. The transform subtracts the mean and makes the variances of the principal axes more equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from stores.snapshot import Floats
from stores.types import EMBEDDING_DIMENSION

Vectors: TypeAlias = npt.NDArray[np.float32]

# 2.6 texts per dimension. With fewer texts the smallest variances are mostly noise, which whitening amplifies.
MIN_TEXTS_TO_WHITEN: Final = 1_000
# 26 texts per dimension. They determine a variance to a third, which the exponent reduces to a twelfth.
MAX_TEXTS_TO_FIT: Final = 10_000
# Full whitening, -1/2, amplifies noise; without whitening the common component dominates. See "Vector lane" in
# README.md.
WHITENING_EXPONENT: Final = -0.1875
# Share of the mean that is subtracted from a query. See "Vector lane" in README.md.
QUERY_MEAN_SHARE: Final = 0.5
# Smaller variances, relative to the largest one, are rounding errors.
MIN_VARIANCE_SHARE: Final = 1e-6
# 2,048 rows of 384 doubles are 6 MB: enough rows for a fast matrix product.
BLOCK_ROWS: Final = 2_048


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """Transform of embeddings: subtract `mean`, multiply by the square matrix `axes`, then normalise the rows."""

    mean: Floats
    axes: Floats

    @classmethod
    def identity(cls) -> Whitening:
        """Return the transform that changes nothing."""
        return cls(np.zeros(EMBEDDING_DIMENSION), np.eye(EMBEDDING_DIMENSION))

    def transform(self, rows: Floats) -> Floats:
        """Return the transformed rows, not normalised."""
        return np.asarray((rows - self.mean) @ self.axes)

    def transform_query(self, query: Floats) -> Floats:
        """Return the transformed query, not normalised; only QUERY_MEAN_SHARE of the mean is subtracted."""
        return np.asarray((query - QUERY_MEAN_SHARE * self.mean) @ self.axes)


def fit_whitening(sample: Vectors) -> Whitening:
    """Fit the transform to the first rows of the sample; the identity for fewer than MIN_TEXTS_TO_WHITEN."""
    count = min(len(sample), MAX_TEXTS_TO_FIT)
    if count < MIN_TEXTS_TO_WHITEN:
        return Whitening.identity()
    total, products = np.zeros(EMBEDDING_DIMENSION), np.zeros((EMBEDDING_DIMENSION,) * 2)
    for block in _iterate_blocks(sample[:count]):
        total += block.sum(axis=0)
        products += block.T @ block
    mean = total / count
    variances, directions = np.linalg.eigh(products / count - np.outer(mean, mean))
    if variances[-1] <= 0:  # all vectors are equal
        return Whitening.identity()
    variances = np.maximum(variances, variances[-1] * MIN_VARIANCE_SHARE)
    # Rotating back makes the result unique, because eigenvectors of equal variances have no fixed order.
    return Whitening(mean, (directions * variances**WHITENING_EXPONENT) @ directions.T)


def _iterate_blocks(rows: Vectors) -> Iterator[Floats]:
    for start in range(0, len(rows), BLOCK_ROWS):
        yield rows[start : start + BLOCK_ROWS].astype(np.float64)


def normalize(vector: npt.NDArray[Any]) -> Floats:
    """Scale the vector to length 1; zeros stay zeros."""
    vector64 = np.asarray(vector, dtype=np.float64)
    return vector64 / (np.linalg.norm(vector64) or 1.0)
