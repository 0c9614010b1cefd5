"""Both questions, answered in this process."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.encoders.base import Encoder
from pipeline.encoders.cross_encoder import CrossEncoder
from pipeline.encoders.registry import bundled_encoder
from pipeline.options import Encoding, Precision
from serve.api_types import ExplainAnswer, ExplainRequest, FindAnswer, FindRequest
from serve.explain.explain_change import Explainer

if TYPE_CHECKING:
    from serve.search.cache import Holding
    from serve.search.find_pattern import Finder


class Resident:
    """The models, each loaded when it is first needed and let go when it is not needed for a while."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._encoders: dict[Encoding, Encoder] = {}
        self._crosses: dict[Precision, CrossEncoder] = {}

    def get(self, encoding: Encoding) -> Encoder:
        """The encoder of that name; it loads its model at the first text."""
        with self._turn:
            if encoding not in self._encoders:
                self._encoders[encoding] = bundled_encoder(encoding)
            return self._encoders[encoding]

    def cross(self, precision: Precision) -> CrossEncoder:
        """The cross-encoder in that precision; it loads its model at the first question."""
        with self._turn:
            if precision not in self._crosses:
                self._crosses[precision] = CrossEncoder(precision)
            return self._crosses[precision]

    def let_go(self) -> None:
        """Forget the models; who has one in hand keeps it."""
        with self._turn:
            self._encoders.clear()
            self._crosses.clear()

    @property
    def loaded(self) -> tuple[str, ...]:
        """Names of what is loaded."""
        with self._turn:
            models: list[Encoder | CrossEncoder] = [*self._encoders.values(), *self._crosses.values()]
            return tuple(model.name for model in models)


class Engine:
    """Answers both questions, and keeps what makes the next answer fast; for use by several threads."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.models = Resident()
        self._explainer = Explainer(home)
        self._turn = threading.Lock()
        self._finder: Finder | None = None

    def find(self, request: FindRequest, path: Path, precision: Precision = Precision.FULL) -> FindAnswer:
        """Commits of the repository at `path` whose changes resemble the request, read in that precision."""
        # Here, because an explanation needs neither Arrow nor numpy.
        from serve.search.rerank import ReadingRanker

        return self._finding().find(
            request, path, reranker=ReadingRanker(partial(self.models.cross, precision))
        )

    def explain(self, request: ExplainRequest, path: Path, here: Path | None = None) -> ExplainAnswer:
        """The commits behind lines of a file in the repository at `path`; `here` is where the person stands."""
        return self._explainer.explain(request, path, here)

    def holdings(self) -> tuple[Holding, ...]:
        """What is kept of which index."""
        return self._finder.holdings() if self._finder else ()

    def let_go(self) -> None:
        """Forget the models, and what is kept of indexes; the next question brings back what it needs."""
        self.models.let_go()
        self._explainer = Explainer(self.home)
        self.close()

    def close(self) -> None:
        """Close what is open."""
        if self._finder:
            self._finder.close()

    def _finding(self) -> Finder:
        from serve.search.find_pattern import Finder

        with self._turn:
            self._finder = self._finder or Finder(self.home, encoder=self.models.get)
            return self._finder
