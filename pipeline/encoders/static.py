"""Static encoder: a table of word vectors. The vector of a text is the normalized sum of the vectors of its words.

A word is a term as in the full-text index: an identifier, or a stemmed part of one (see `pipeline.text`). Each word
counts once, however often it occurs. Words outside the vocabulary share the table's last rows, the hash buckets: each
word has two of them, and hardly any two words have both in common.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.encoders import base
from pipeline.encoders.base import STATIC_MODEL, LazyEncoder, sanitize_text
from pipeline.text import count_terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STATIC_FILE: Final = "static.npz"


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Mapping of words to rows of the table.

    `word_rows`: row of each word of the vocabulary. `bucket_count`: number of hash buckets, a power of 2. The rows of
    the buckets follow those of the vocabulary.
    """

    word_rows: Mapping[str, int]
    bucket_count: int

    def find_rows(self, words: Iterable[str]) -> list[int]:
        """Return the rows of all given words, each row once, in ascending order."""
        rows: set[int] = set()
        for word in words:
            row = self.word_rows.get(word)
            if row is not None:
                rows.add(row)
            elif not word.isdigit():  # leave out issue numbers, line numbers and dates
                rows.update(self._get_bucket_rows(word))
        return sorted(rows)

    def _get_bucket_rows(self, word: str) -> tuple[int, int]:
        """Return the rows of the two hash buckets of a word outside the vocabulary.

        The lower half of the word's CRC-32 selects the first bucket, the upper half the second.
        """
        checksum, mask = zlib.crc32(word.encode()), self.bucket_count - 1
        first_bucket_row = len(self.word_rows)
        return first_bucket_row + (checksum & mask), first_bucket_row + (checksum >> 16 & mask)


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingTable:
    """Quantized word vectors.

    `codes`: one row per word of the vocabulary, then one per hash bucket. `scales`: factor of each row.
    """

    lexicon: Lexicon
    codes: NDArray[np.int8]
    scales: NDArray[np.float32]

    @classmethod
    def load(cls, file: Path) -> EmbeddingTable:
        """Load the table from an `.npz` file.

        The file has three arrays: `words`, the bytes of a text with one word of the vocabulary per line; `steps`, the
        codes; and `scales`.
        """
        import numpy as np

        with file.open("rb") as stream, np.load(stream) as arrays:
            vocabulary, codes = arrays["words"].tobytes().decode().split("\n"), arrays["steps"]
            word_rows = {word: row for row, word in enumerate(vocabulary)}
            return cls(Lexicon(word_rows, len(codes) - len(vocabulary)), codes, arrays["scales"])

    def embed(self, text: str) -> NDArray[np.float32]:
        """Return the unit vector of a text. For a text without words it is (1, 0, 0, ...)."""
        import numpy as np

        rows = self.lexicon.find_rows(count_terms(sanitize_text(text)))
        total: NDArray[np.float32] = self.scales[rows] @ self.codes[rows].astype(np.float32)
        if not total.any():
            total[0] = 1
        return total / np.linalg.norm(total)


class StaticEncoder(LazyEncoder):
    """Bundled static encoder. A text's vector does not depend on the other texts.

    `file`: table to use instead of the bundled one.
    Unpickling returns the encoder that all tasks of the process share.
    """

    name: Final = STATIC_MODEL

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or base.MODELS_DIR / STATIC_FILE
        super().__init__(partial(EmbeddingTable.load, self._file))

    def __reduce__(self) -> tuple[Callable[[Path], StaticEncoder], tuple[Path]]:
        """Pickle a call of `get_shared_encoder` instead of the table."""
        return get_shared_encoder, (self._file,)


@cache
def get_shared_encoder(file: Path) -> StaticEncoder:
    """Return the encoder that all tasks of this process share. `file`: its table."""
    return StaticEncoder(file)
