"""Reachability difference, schema version and embedding dimension.

Imports only the standard library, because every command imports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ReachabilityDelta:
    """Difference between the recorded commits that HEAD reaches and those that the index's HEAD reaches.

    `removed`: commits that only the index's HEAD reaches. `added`: commits that only the current HEAD reaches.
    `complete`: the index's HEAD commit no longer exists, and `added` lists every recorded commit that HEAD reaches.
    """

    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    complete: bool = False


SCHEMA_VERSION: Final = 2
# The change that each schema version made.
SCHEMA_HISTORY: Final = {
    1: "commits, hunks, touched symbols, vectors, terms by lane, HEAD symbols and chunks, watermark",
    2: "component versions of the rows, HEAD of the newest finished index run, embedding cache usage",
}

EMBEDDING_DIMENSION: Final = 384
