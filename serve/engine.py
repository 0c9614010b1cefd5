"""Engine that answers search and explanation requests in this process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.encoders.base import Encoder, create_bundled_encoder
from pipeline.encoders.cross_encoder import CrossEncoder
from pipeline.options import EncoderName, Precision
from serve.api_types import NamedRepository
from serve.explain.explain_change import Explainer
from serve.explain_types import ExplainAnswer, ExplainRequest
from serve.find_types import FindAnswer, FindRequest
from stores.connections import ReaderPools

if TYPE_CHECKING:
    from serve.search.cache import CachedIndexStats
    from serve.search.find_pattern import PatternSearcher
    from serve.search.rerank import CrossEncoderReranker


class LoadedModels:
    """Models that are loaded when first needed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._encoders: dict[EncoderName, Encoder] = {}
        self._cross_encoders: dict[Precision, CrossEncoder] = {}

    def get_encoder(self, name: EncoderName) -> Encoder:
        """Return the encoder, which loads its model at the first text."""
        with self._lock:
            if name not in self._encoders:
                self._encoders[name] = create_bundled_encoder(name)
            return self._encoders[name]

    def get_cross_encoder(self, precision: Precision) -> CrossEncoder:
        """Return the cross-encoder, which loads its model at the first question."""
        with self._lock:
            if precision not in self._cross_encoders:
                self._cross_encoders[precision] = CrossEncoder(precision)
            return self._cross_encoders[precision]

    def unload(self) -> None:
        """Drop the models. Running requests still finish with theirs."""
        with self._lock:
            self._encoders.clear()
            self._cross_encoders.clear()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the models that were requested since the last `unload`."""
        with self._lock:
            models: list[Encoder | CrossEncoder] = [*self._encoders.values(), *self._cross_encoders.values()]
            return tuple(model.name for model in models)


class Engine:
    """Engine that keeps models, indexes and answers in memory to speed up later requests. Thread-safe."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.models = LoadedModels()
        self._reader_pools = ReaderPools()
        self._explainer = Explainer(home, self._reader_pools)
        self._lock = threading.Lock()
        self._searcher: PatternSearcher | None = None

    def find(self, request: FindRequest, path: Path, precision: Precision = Precision.FULL) -> FindAnswer:
        """Search the repository at `path`; `precision` is that of the cross-encoder. See `PatternSearcher.find`."""
        return self._get_searcher().find(request, path, reranker=self._create_reranker(precision))

    def find_in_repositories(
        self,
        request: FindRequest,
        repositories: Sequence[NamedRepository],
        precision: Precision = Precision.FULL,
    ) -> FindAnswer:
        """Search several repositories; see `merged_search.find_in_repositories`."""
        from serve.search.merged_search import find_in_repositories

        reranker = self._create_reranker(precision)
        return find_in_repositories(self._get_searcher(), request, repositories, reranker=reranker)

    def explain(self, request: ExplainRequest, path: Path, cwd: Path | None = None) -> ExplainAnswer:
        """Explain lines of a file in the repository at `path`; see `Explainer.explain`."""
        return self._explainer.explain(request, path, cwd)

    def collect_cache_stats(self) -> tuple[CachedIndexStats, ...]:
        """Return statistics of every cached index."""
        return self._searcher.collect_cache_stats() if self._searcher else ()

    def unload(self) -> None:
        """Drop models, indexes and answers from memory. The next request loads what it needs."""
        self.models.unload()
        self._explainer = Explainer(self.home, self._reader_pools)
        self.close()

    def close(self) -> None:
        """Close all indexes."""
        if self._searcher:
            self._searcher.close()
        self._reader_pools.close_all()

    def _create_reranker(self, precision: Precision) -> CrossEncoderReranker:
        # Imported here, because `explain` needs neither Arrow nor numpy.
        from serve.search.rerank import CrossEncoderReranker

        return CrossEncoderReranker(partial(self.models.get_cross_encoder, precision))

    def _get_searcher(self) -> PatternSearcher:
        from serve.search.find_pattern import PatternSearcher

        with self._lock:
            self._searcher = self._searcher or PatternSearcher(
                self.home, load_encoder=self.models.get_encoder, reader_pools=self._reader_pools
            )
            return self._searcher
