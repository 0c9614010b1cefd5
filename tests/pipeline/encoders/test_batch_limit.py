"""An encoder that is given only so many texts at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest

from pipeline.encoders.accelerated import InPortions
from tests.serve.sample_index import WordEncoder


@dataclass(slots=True)
class Counting:
    """Remembers how many texts it was given at a time."""

    name: str = "counting"
    dimension: int = WordEncoder().dimension
    given: list[int] = field(default_factory=list)

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.given.append(len(texts))
        return WordEncoder().encode(texts) if texts else np.empty((0, self.dimension), np.float32)

    def unload(self) -> None:
        self.given.clear()


@pytest.mark.parametrize(("most", "given"), [(1, [1] * 5), (2, [2, 2, 1]), (5, [5]), (9, [5])])
def test_portions_change_no_vector(most: int, given: list[int]) -> None:
    """However few texts the encoder is given at a time, the vectors are the same, in the same order."""
    texts = [f"text number {number}" for number in range(5)]
    counting = Counting()
    portioned = InPortions(counting, most)
    assert np.array_equal(portioned.encode(texts), WordEncoder().encode(texts))
    assert counting.given == given
    assert (portioned.name, portioned.dimension) == ("counting", 384)
    portioned.unload()
    assert not counting.given


def test_no_texts() -> None:
    """No texts are no vectors, of the right length."""
    assert InPortions(Counting(), 3).encode([]).shape == (0, 384)
