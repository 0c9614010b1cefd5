"""The schema's version and what each one changed; apart from the schema, so that asking loads no Arrow."""

from __future__ import annotations

from typing import Final

SCHEMA_VERSION: Final = 2
SCHEMA_HISTORY: Final = {
    1: "commits, hunks, touched symbols, vectors, words by lane, HEAD symbols and chunks, watermark",
    2: "which versions made which rows, the HEAD of the newest pass that ended, what the embedding cache gave",
}

EMBEDDING_DIMENSION: Final = 384
