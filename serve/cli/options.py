"""What a person may choose of the machine; apart from the command, so that its help loads nothing.

The flags of `lineage index`, as the command line and the wizard give them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pipeline.options import EmbedCache, Encoding


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


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of `lineage index`; None where a flag was not given."""

    incremental: bool = False
    force: bool = False
    rebuild: bool = False
    yes: bool = False
    commit_batch: int | None = None
    embed_batch: int | None = None
    threads: int | None = None
    workers: int | None = None
    resources: Resources = Resources.AUTO
    provider: EmbedProvider = EmbedProvider.AUTO
    embed_cache: EmbedCache | None = None
    encoder: Encoding | None = None
    progress: bool = True
    profile: bool = False
