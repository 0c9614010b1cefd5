"""The schema's version and what each one changed; apart from the schema, so that asking loads no Arrow."""

from __future__ import annotations

from typing import Final

SCHEMA_VERSION: Final = 1
SCHEMA_HISTORY: Final = {
    1: "commits, hunks, touched symbols, vectors, words by lane, HEAD symbols and chunks, watermark",
}

EMBEDDING_DIMENSION: Final = 384
