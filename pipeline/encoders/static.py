"""Static encoder: a table of word vectors. The vector of a text is the normalized sum of the rows of its words.

The words are those of the full-text index: identifiers and their stemmed parts (see `pipeline.text`). Each counts once,
however often it occurs. Words outside the vocabulary share the table's last rows, the hash buckets: each word has two,
so that hardly any two words share both.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from pipeline.encoders import base
from pipeline.encoders.base import STATIC_MODEL, sanitize_text
from pipeline.text import count_terms
from stores.compatibility import EMBEDDING_DIMENSION

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STATIC_FILE: Final = "static.npz"


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Mapping of words to rows of the table.

    `word_rows`: row of each word in the vocabulary. `bucket_count`: number of rows after these, for all other words; a
    power of 2.
    """

    word_rows: Mapping[str, int]
    bucket_count: int

    def find_rows(self, words: Iterable[str]) -> list[int]:
        """Return the rows of some words, each once, in ascending order."""
        rows: set[int] = set()
        for word in words:
            row = self.word_rows.get(word)
            if row is not None:
                rows.add(row)
            elif not word.isdigit():  # most numbers are issue numbers, line numbers or dates
                rows.update(self._get_bucket_rows(word))
        return sorted(rows)

    def _get_bucket_rows(self, word: str) -> tuple[int, int]:
        """Return the rows that the lower and the upper half of the word's hash select."""
        digest, mask = zlib.crc32(word.encode()), self.bucket_count - 1
        first_bucket = len(self.word_rows)
        return first_bucket + (digest & mask), first_bucket + (digest >> 16 & mask)


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingTable:
    """Quantized word vectors: int8 `codes`, one row per word, and `scales`, the factor of each row."""

    lexicon: Lexicon
    codes: NDArray[np.int8]
    scales: NDArray[np.float32]

    @classmethod
    def load(cls, file: Path) -> EmbeddingTable:
        """Load the table from an `.npz` file."""
        import numpy as np

        with file.open("rb") as stream, np.load(stream) as arrays:
            vocabulary, codes = arrays["words"].tobytes().decode().split("\n"), arrays["steps"]
            word_rows = {word: row for row, word in enumerate(vocabulary)}
            return cls(Lexicon(word_rows, len(codes) - len(vocabulary)), codes, arrays["scales"])

    def embed(self, text: str) -> NDArray[np.float32]:
        """Return a text's unit vector; for a text without words, the unit vector of the first axis."""
        import numpy as np

        rows = self.lexicon.find_rows(count_terms(sanitize_text(text)))
        total: NDArray[np.float32] = self.scales[rows] @ self.codes[rows].astype(np.float32)
        if not total.any():
            total[0] = 1
        return total / np.linalg.norm(total)


class StaticEncoder:
    """Bundled static encoder, loaded at the first text. A text's vector does not depend on the other texts.

    `file`: table to use instead of the bundled one. In another process a pickled encoder becomes the one that all tasks
    of that process share.
    """

    name: Final = STATIC_MODEL
    dimension: Final = EMBEDDING_DIMENSION

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or base.MODELS_DIR / STATIC_FILE
        self._loading = Lock()
        self._table: EmbeddingTable | None = None

    def __reduce__(self) -> tuple[Callable[[Path], StaticEncoder], tuple[Path]]:
        """Pickle only the path of the table."""
        return get_shared_encoder, (self._file,)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector per text, in order."""
        import numpy as np

        if not texts:
            return np.empty((0, self.dimension), np.float32)
        table = self._get_table()
        return np.stack([table.embed(text) for text in texts])

    def unload(self) -> None:
        """Free the table's memory. The next text loads the table again."""
        with self._loading:
            self._table = None

    def _get_table(self) -> EmbeddingTable:
        with self._loading:
            if self._table is None:
                self._table = EmbeddingTable.load(self._file)
            return self._table


@cache
def get_shared_encoder(file: Path) -> StaticEncoder:
    """Return the encoder of this table that all tasks of this process share."""
    return StaticEncoder(file)
