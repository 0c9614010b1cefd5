"""Options of `lineage index`, without heavy imports, so that its help loads quickly."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pipeline.options import EmbedCacheMode, EncoderName, VectorIndex

# Patterns of `--all-branches`.
ALL_BRANCHES: Final = ("refs/heads", "refs/remotes")


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


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """Options of `lineage index` from the command line or the wizard. None: the index or `resources` decides."""

    incremental: bool = False
    force: bool = False
    rebuild: bool = False
    yes: bool = False
    commit_batch: int | None = None
    embed_batch: int | None = None
    threads: int | None = None
    workers: int | None = None
    resources: Resources = Resources.AUTO
    embed_provider: EmbedProvider = EmbedProvider.AUTO
    embed_cache: EmbedCacheMode | None = None
    encoder: EncoderName | None = None
    skip_vectors: bool = False
    vector_index: VectorIndex | None = None
    scheduler: str | None = None
    branch_patterns: tuple[str, ...] = ()
    head_only: bool = False
    show_progress: bool = True
    profile: bool = False
