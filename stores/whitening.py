"""Where texts are compared: whitened by the mean and axes of the index's own texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from stores.snapshot import Floats
from stores.types import EMBEDDING_DIMENSION

Vectors: TypeAlias = npt.NDArray[np.float32]

# Two or three texts per axis: below that the smallest variances are noise, and evening out would raise it.
FEWEST_TO_WHITEN: Final = 1_000
# Two dozen texts per axis settle its variance to a third, which evening out makes a twelfth.
MOST_TO_LEARN_FROM: Final = 10_000
# Three eighths of the way to equal axes: full whitening made noise as loud as meaning, none leaves what all texts of a
# history share in the way. At -1/4 questions that somebody wrote fared worse, at -1/8 news fragments and subjects did.
EVENING: Final = -0.1875
# A question is no text of the index, and has less of what those share. Taking the whole mean from it lowered nDCG@10
# of the lane by 0.02 to 0.03 where somebody wrote the questions, taking none by as much there and by 0.01 for the
# sentences of bodies; news fragments and subjects cared little.
QUESTION_SHARE: Final = 0.5
# An axis with less than this share of the largest variance carries rounding errors.
FLATTEST_AXIS: Final = 1e-6
# 2,048 rows of 384 doubles are 6 MB: large enough for one product to pay, small beside everything else.
BLOCK_ROWS: Final = 2_048


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Where texts are compared: `mean` taken away, `axes` (a square matrix) applied, rows normalised."""

    mean: Floats
    axes: Floats

    @classmethod
    def raw(cls) -> Space:
        """Vectors as the encoder made them."""
        return cls(np.zeros(EMBEDDING_DIMENSION), np.eye(EMBEDDING_DIMENSION))

    def placed(self, rows: Floats) -> Floats:
        """The rows in this space, not normalised."""
        return np.asarray((rows - self.mean) @ self.axes)

    def asked(self, question: Floats) -> Floats:
        """A question in this space, not normalised: half of the mean is taken from it."""
        return np.asarray((question - QUESTION_SHARE * self.mean) @ self.axes)

    def turned(self, sample: Vectors) -> Space:
        """The same space, turned so that these texts spread most along its first axis, and least along its last.

        No angle between places changes.
        """
        products = np.zeros_like(self.axes)
        for block in _blocks(sample):
            placed = self.placed(block)
            placed /= np.maximum(np.linalg.norm(placed, axis=1, keepdims=True), np.finfo(np.float64).tiny)
            products += placed.T @ placed
        _, directions = np.linalg.eigh(products)
        return Space(self.mean, self.axes @ directions[:, ::-1])


def learnt(sample: Vectors) -> Space:
    """The space of the texts' own mean and axes, learnt from the first of them."""
    count = min(len(sample), MOST_TO_LEARN_FROM)
    if count < FEWEST_TO_WHITEN:
        return Space.raw()
    total, products = np.zeros(EMBEDDING_DIMENSION), np.zeros((EMBEDDING_DIMENSION,) * 2)
    for block in _blocks(sample[:count]):
        total += block.sum(axis=0)
        products += block.T @ block
    mean = total / count
    variances, directions = np.linalg.eigh(products / count - np.outer(mean, mean))
    if variances[-1] <= 0:  # all texts in one point have no axes
        return Space.raw()
    variances = np.maximum(variances, variances[-1] * FLATTEST_AXIS)
    # Turned back to the original axes: directions of equal variance come in any order, the product does not.
    return Space(mean, (directions * variances**EVENING) @ directions.T)


def _blocks(rows: Vectors) -> Iterator[Floats]:
    for start in range(0, len(rows), BLOCK_ROWS):
        yield rows[start : start + BLOCK_ROWS].astype(np.float64)


def unit(row: npt.NDArray[Any]) -> Floats:
    """The row with length 1; zeros stay zeros."""
    wide = np.asarray(row, dtype=np.float64)
    return wide / (np.linalg.norm(wide) or 1.0)
