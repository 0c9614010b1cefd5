"""The encoder that limits the number of texts per call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest

from pipeline.encoders.accelerated import BatchLimitedEncoder
from tests.serve.sample_index import WordEncoder


@dataclass(slots=True)
class CountingEncoder:
    """Encoder that records the number of texts in each call."""

    name: str = "counting"
    dimension: int = WordEncoder().dimension
    batch_sizes: list[int] = field(default_factory=list)

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.batch_sizes.append(len(texts))
        return WordEncoder().encode(texts) if texts else np.empty((0, self.dimension), np.float32)

    def unload(self) -> None:
        self.batch_sizes.clear()


@pytest.mark.parametrize(("max_texts", "batch_sizes"), [(1, [1] * 5), (2, [2, 2, 1]), (5, [5]), (9, [5])])
def test_batch_limits_do_not_change_vectors(max_texts: int, batch_sizes: list[int]) -> None:
    """With any limit the vectors are the same, in the same order."""
    texts = [f"text number {number}" for number in range(5)]
    counting = CountingEncoder()
    limited = BatchLimitedEncoder(counting, max_texts)
    assert np.array_equal(limited.encode(texts), WordEncoder().encode(texts))
    assert counting.batch_sizes == batch_sizes
    assert (limited.name, limited.dimension) == ("counting", 384)
    limited.unload()
    assert not counting.batch_sizes


def test_no_texts() -> None:
    """Without texts the array is empty, with the right dimension."""
    assert BatchLimitedEncoder(CountingEncoder(), 3).encode([]).shape == (0, 384)
