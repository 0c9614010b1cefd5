"""The static encoder: a table with one row a word, and of a text the unit sum of its words' rows.

A word here is what full text knows as one (`pipeline.text.words`): an identifier whole, and its parts stemmed. Each
counts once, however often it occurs. Words that are not in the table share its last rows, its buckets: two by their
hash, so that hardly any two words share both.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from pipeline.encoders import base
from pipeline.encoders.base import STATIC_MODEL, readable
from pipeline.text import words
from stores.types import EMBEDDING_DIMENSION

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STATIC_FILE: Final = "static.npz"


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Word -> rows of the table: `numbers` of the words that have one of their own, then `buckets` (a power of 2)."""

    numbers: Mapping[str, int]
    buckets: int

    def rows(self, found: Iterable[str]) -> list[int]:
        """The rows of different words, each once, in ascending order."""
        rows: set[int] = set()
        for word in found:
            number = self.numbers.get(word)
            if number is not None:
                rows.add(number)
            elif not word.isdigit():  # a number nobody shares is an issue's, a line's or a date's
                rows.update(self._shared(word))
        return sorted(rows)

    def _shared(self, word: str) -> tuple[int, int]:
        digest, last = zlib.crc32(word.encode()), self.buckets - 1
        first = len(self.numbers)
        return first + (digest & last), first + (digest >> 16 & last)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The rows as they are kept: `steps` of 8 bits, each row times its `scales`."""

    lexicon: Lexicon
    steps: NDArray[np.int8]
    scales: NDArray[np.float32]

    @classmethod
    def read(cls, file: Path) -> Table:
        """The table of a file."""
        import numpy as np

        with file.open("rb") as content, np.load(content) as kept:
            known = kept["words"].tobytes().decode().split("\n")
            lexicon = Lexicon({word: row for row, word in enumerate(known)}, len(kept["steps"]) - len(known))
            return cls(lexicon, kept["steps"], kept["scales"])

    def vector(self, text: str) -> NDArray[np.float32]:
        """The unit sum of a text's words; of a text without any, the first axis."""
        import numpy as np

        rows = self.lexicon.rows(words(readable(text)))
        total: NDArray[np.float32] = self.scales[rows] @ self.steps[rows].astype(np.float32)
        if not total.any():
            total[0] = 1
        return total / np.linalg.norm(total)


class StaticEncoder:
    """The bundled table, loaded at the first text. Each text is summed alone: its neighbours change no bit of it."""

    name: Final = STATIC_MODEL
    dimension: Final = EMBEDDING_DIMENSION

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or base.MODELS / STATIC_FILE
        self._loading = Lock()
        self._table: Table | None = None

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, in order; rows have length 1."""
        import numpy as np

        if not texts:
            return np.empty((0, self.dimension), np.float32)
        vector = self._loaded().vector
        return np.stack([vector(text) for text in texts])

    def unload(self) -> None:
        """Give back the memory of the table, which the next text loads again."""
        with self._loading:
            self._table = None

    def _loaded(self) -> Table:
        with self._loading:
            if self._table is None:
                self._table = Table.read(self._file)
            return self._table
