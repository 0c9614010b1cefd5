"""Which recorded commits HEAD reaches.

The schema's version and what each one changed; apart from the schema, so that asking loads no Arrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Reach:
    """Which recorded commits HEAD reaches, as a difference to what the index noted for its own HEAD.

    `gone`: commits the index's HEAD reaches and the present one does not; `back`: the other way round.
    With `complete`, `back` alone is everything HEAD reaches: the index's HEAD object no longer exists.
    """

    gone: tuple[str, ...] = ()
    back: tuple[str, ...] = ()
    complete: bool = False


SCHEMA_VERSION: Final = 2
SCHEMA_HISTORY: Final = {
    1: "commits, hunks, touched symbols, vectors, words by lane, HEAD symbols and chunks, watermark",
    2: "which versions made which rows, the HEAD of the newest pass that ended, what the embedding cache gave",
}

EMBEDDING_DIMENSION: Final = 384
