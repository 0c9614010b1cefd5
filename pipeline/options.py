"""How an index makes vectors and keeps them for later: apart from the cache, so that a command's help loads nothing."""

from __future__ import annotations

from enum import StrEnum


class EmbedCache(StrEnum):
    """Which vectors are kept, and by what they are found again.

    `semantic`: by message and diff; what is embedded stays as it is. `diff`: by the diff, which alone is embedded, so
    that the same change under another message shares its vector.
    """

    OFF = "off"
    SEMANTIC = "semantic"
    DIFF = "diff"


class Encoding(StrEnum):
    """Which of the bundled encoders an index is made and asked with; vectors of one mean nothing to another.

    `minilm` reads sentences. `static` adds up words: a small part of the time, and less sense of what is meant.
    """

    MINILM = "minilm"
    STATIC = "static"


class Precision(StrEnum):
    """How the cross-encoder computes with its weights: `int8` takes half the time."""

    FULL = "full"
    INT8 = "int8"
