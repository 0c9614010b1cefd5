"""An encoder that is given only so many texts at a time: what a device's memory holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.encoder import Encoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class InPortions:
    """The encoder, given at most `most` texts at a time. Vectors are the same, since each text is embedded alone."""

    encoder: Encoder
    most: int

    @property
    def name(self) -> str:
        """The encoder's."""
        return self.encoder.name

    @property
    def dimension(self) -> int:
        """The encoder's."""
        return self.encoder.dimension

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, in order; rows have length 1."""
        import numpy as np

        # At least one portion, so that no texts come out as the encoder has them come out.
        starts = range(0, max(len(texts), 1), self.most)
        return np.concatenate([self.encoder.encode(texts[start : start + self.most]) for start in starts])

    def unload(self) -> None:
        """The encoder's."""
        self.encoder.unload()
