"""The unquantized encoder as a file: made when it is first needed, and again when it is not what it was.

The bundled encoder on graphics and neural processors: unquantized, and many texts in a run.

Its vectors lie in the space of the CPU's: the mean cosine between the two is 0.998.

An encoder that is given only so many texts at a time: what a device's memory holds.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.encoders import providers
from pipeline.encoders.base import EMBEDDING_MODEL, Encoder, OnnxEncoder, readable, tokenizer
from pipeline.encoders.providers import COREML, CPU, CUDA
from stores import locks
from stores.locks import Deadline
from stores.types import EMBEDDING_DIMENSION

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


FOLDER: Final = "models"
NAME: Final = "minilm-fp32.onnx"
LOCK: Final = "making.lock"
# Making takes a second or two; on a machine with much else to do, some more.
WAIT_SECONDS: Final = 60.0
# Of the file that `unquantized` makes; it changes with the bundled file, and so does this.
DIGEST: Final = "35a1e2f0c9ffa0a8ed83a404c754ee59ac8d3ce66248e35a59d76d58571dcd72"


def kept(home: Path) -> Path:
    """The file under the home of the indexes, whole."""
    file = home / FOLDER / NAME
    if not _is_whole(file):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locks.held(file.parent / LOCK, Deadline.after(WAIT_SECONDS)):
            if not _is_whole(file):  # whoever had the lock may have made it
                _make(file)
    return file


def _is_whole(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest() == DIGEST
    except OSError:
        return False


def _make(file: Path) -> None:
    """In one step at the end: killed, it leaves a draft that the next one writes over."""
    from pipeline.encoders import onnx_graph

    draft = file.with_name(f"{NAME}.draft")
    with open(draft, "wb", opener=_owners) as opened:  # the owner's alone from its first byte
        opened.write(onnx_graph.made())
        opened.flush()
        os.fsync(opened.fileno())
    draft.replace(file)


def _owners(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


LONGEST: Final = 256


@dataclass(frozen=True, slots=True)
class Shape:
    """Of a run: `texts` side by side, each filled up to a multiple of `step` tokens.

    `fixed`: neither may vary, because each shape is compiled for half a minute.
    """

    texts: int
    step: int
    fixed: bool = False

    @property
    def sizes(self) -> dict[str, int]:
        """What is known of the model's dimensions before the first run."""
        return {"texts": self.texts, "tokens": self.step} if self.fixed else {}


# Sixteen thousand tokens fill a graphics processor, and eight lengths are few enough to be tuned for. None of
# this changes a vector but for rounding.
SHAPES: Final = {
    CPU: Shape(8, 32),
    CUDA: Shape(64, 32),
    COREML: Shape(8, LONGEST, fixed=True),
}


class AcceleratedEncoder:
    """The bundled all-MiniLM-L6-v2, unquantized, on one execution provider; opened at once, or ProviderUnavailable.

    `home`: of the indexes; the model's file is kept there.
    """

    name: Final = EMBEDDING_MODEL
    dimension: Final = EMBEDDING_DIMENSION

    def __init__(self, provider: str, home: Path) -> None:
        from pipeline.encoders.onnx_graph import Words

        providers.check(provider)
        self.provider = provider
        self._shape = SHAPES[provider]
        self._session = providers.session(provider, kept(home), sizes=self._shape.sizes)
        self._words = Words.bundled()
        self._tokenizer = tokenizer()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, in order; rows have length 1."""
        import numpy as np

        tokens = [one.ids for one in self._tokenizer.encode_batch([readable(text) for text in texts])]
        rows = np.empty((len(texts), self.dimension), np.float32)
        for places in _alike(tokens, self._shape.texts):
            rows[places] = self._sums([tokens[place] for place in places])
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows

    def unload(self) -> None:
        """Keep everything: the model lies in the device's memory, and may take half a minute to open."""

    def _sums(self, tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        import numpy as np

        from pipeline.encoders.onnx_graph import FILLED

        filled = _filled(tokens, self._shape)
        there = filled >= 0
        run = {
            "placed": self._words.placed(np.maximum(filled, 0)),
            "filled": np.where(there, np.float32(0), FILLED)[:, None, None, :],
            "counted": there[:, None, :].astype(np.float32),
        }
        (sums,) = self._session.run(None, run)
        wanted: NDArray[np.float32] = sums[: len(tokens), 0]
        return wanted


def encoder_for(provider: str, threads: int, home: Path) -> Encoder:
    """The encoder of a provider that was chosen."""
    return OnnxEncoder(threads) if provider == CPU else AcceleratedEncoder(provider, home)


def _alike(tokens: Sequence[Sequence[int]], most: int) -> Iterator[list[int]]:
    """Places of texts of about the same length, so that little of a run only fills it."""
    order = sorted(range(len(tokens)), key=lambda place: len(tokens[place]), reverse=True)
    for start in range(0, len(order), most):
        yield order[start : start + most]


def _filled(tokens: Sequence[Sequence[int]], shape: Shape) -> NDArray[np.int64]:
    """Token ids as rows of one length, -1 where there is no token."""
    import numpy as np

    texts = shape.texts if shape.fixed else len(tokens)
    longest = max(map(len, tokens))
    rows = np.full((texts, -(-longest // shape.step) * shape.step), -1, np.int64)
    for row, ids in zip(rows, tokens, strict=False):
        row[: len(ids)] = ids
    return rows


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
