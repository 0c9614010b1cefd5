"""The place of the cross-encoder: candidates in fusion's order -> candidates in the order they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from serve.find.fuse import Candidate


class Reranker(Protocol):
    """Puts candidates into the order of their worth for a query."""

    def order(self, query: str, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """The same candidates, best first."""
        ...


class FusionOrder:
    """No reranker: what fusion says stands, for `no_rerank` and until a cross-encoder is bundled."""

    def order(self, query: str, candidates: Sequence[Candidate]) -> Sequence[Candidate]:  # noqa: ARG002
        """The candidates as they came."""
        return candidates
