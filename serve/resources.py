"""What a person may choose of the machine; apart from the command, so that its help loads nothing."""

from __future__ import annotations

from enum import StrEnum


class Resources(StrEnum):
    """How much of the machine a run may take."""

    AUTO = "auto"
    CONSERVATIVE = "conservative"
    AGGRESSIVE = "aggressive"


class EmbedProvider(StrEnum):
    """What runs the encoder."""

    AUTO = "auto"
    CPU = "cpu"
    COREML = "coreml"
    CUDA = "cuda"
