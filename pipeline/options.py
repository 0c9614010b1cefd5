"""Options of indexes, index runs and the cross-encoder. This module has no heavy imports, so that `--help` is fast."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

# Patterns of refs that `--all-branches` stands for.
ALL_BRANCHES: Final = ("refs/heads", "refs/remotes")


class EmbedCacheMode(StrEnum):
    """Mode of the embedding cache, which stores vectors outside of the index.

    `off`: no cache. `semantic`: the key of a vector is made from message and diff. `diff`: only diffs are embedded,
    without messages, and the key is made from the diff. So the same change with another message has the same vector.
    """

    OFF = "off"
    SEMANTIC = "semantic"
    DIFF = "diff"


class EncoderName(StrEnum):
    """Bundled encoder. Queries use the encoder that built the index.

    `minilm`: sentence encoder. `static`: table of word vectors; several times faster, but finds less.
    """

    MINILM = "minilm"
    STATIC = "static"


class Precision(StrEnum):
    """Precision of the cross-encoder's weights: `int8` takes half the time of `full`."""

    FULL = "full"
    INT8 = "int8"


class VectorIndex(StrEnum):
    """Index for searches in the vectors: an HNSW index of DuckDB's extension VSS, or none."""

    HNSW = "hnsw"
    NONE = "none"


class Resources(StrEnum):
    """Share of the machine that an index run may use.

    `auto`: one encoder thread per CPU. `conservative`: half as many threads, and smaller batches of commits.
    `aggressive`: twice as many threads.
    """

    AUTO = "auto"
    CONSERVATIVE = "conservative"
    AGGRESSIVE = "aggressive"


class EmbedProvider(StrEnum):
    """Hardware that runs the encoder. For `auto`, `pipeline.encoders.providers.choose_provider` chooses it."""

    AUTO = "auto"
    CPU = "cpu"
    COREML = "coreml"
    CUDA = "cuda"
