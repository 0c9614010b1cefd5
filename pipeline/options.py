"""Options of indexes, index runs and the cross-encoder. No heavy imports, so that `--help` is fast."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

# Patterns of `--all-branches`.
ALL_BRANCHES: Final = ("refs/heads", "refs/remotes")


class EmbedCacheMode(StrEnum):
    """Mode of the embedding cache, which holds vectors outside of the index.

    `semantic`: keyed by message and diff. `diff`: keyed by the diff, and only the diff is embedded, so that the same
    change under another message shares its vector.
    """

    OFF = "off"
    SEMANTIC = "semantic"
    DIFF = "diff"


class EncoderName(StrEnum):
    """Bundled encoder. Queries use the encoder that built the index.

    `minilm`: sentence encoder. `static`: word table, several times faster, lower recall.
    """

    MINILM = "minilm"
    STATIC = "static"


class Precision(StrEnum):
    """Precision of the cross-encoder's weights: `int8` takes half the time of `full`."""

    FULL = "full"
    INT8 = "int8"


class VectorIndex(StrEnum):
    """Index of the vectors, for searches: an HNSW index of DuckDB's VSS extension, or none."""

    HNSW = "hnsw"
    NONE = "none"


class Resources(StrEnum):
    """Share of the machine that an index run may use."""

    AUTO = "auto"
    CONSERVATIVE = "conservative"
    AGGRESSIVE = "aggressive"


class EmbedProvider(StrEnum):
    """Hardware that runs the encoder."""

    AUTO = "auto"
    CPU = "cpu"
    COREML = "coreml"
    CUDA = "cuda"
