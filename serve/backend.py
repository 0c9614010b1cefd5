"""Backends that answer requests: the shared daemon, or an engine in this process.

Commands import this module before they know which backend answers, so it imports neither models nor the database.
Creating an engine imports the database; models are imported by the first request that needs one.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from pipeline.options import EncoderName, Precision
from serve.api_types import MAX_HITS, MIN_HITS, clamp_limit
from serve.config import Settings
from serve.errors import NoAnswer
from serve.explain_types import ExplainAnswer, ExplainRequest
from serve.find_types import FindAnswer, FindRequest

if TYPE_CHECKING:
    from pipeline.encoders.base import SearchEncoder
    from pipeline.encoders.cross_encoder import CrossEncoder
    from serve.api_types import LoadedIndex, NamedRepository
    from serve.explain.explain_change import Explainer
    from serve.search.find_pattern import PatternSearcher
    from serve.search.rerank import CrossEncoderReranker

AnswerT = TypeVar("AnswerT", FindAnswer, ExplainAnswer)

logger = logging.getLogger(__name__)


class Backend(Protocol):
    """Interface of a backend. A relative `path` is resolved against the working directory."""

    def find(self, request: FindRequest, path: Path) -> FindAnswer:
        """Return the commits of the repository at `path` whose changes best match the request."""
        ...

    def find_in_repositories(self, request: FindRequest, names: Sequence[str], cwd: Path) -> FindAnswer:
        """Return the commits of several indexed repositories whose changes best match the request.

        `names`: names or paths, which may be relative to `cwd`; `*` stands for all.
        """
        ...

    def explain(self, request: ExplainRequest, path: Path, cwd: Path | None = None) -> ExplainAnswer:
        """Return the commits that last changed lines of a file in the repository at `path`.

        A file name may be relative to the repository or to `cwd`, the user's working directory.
        """
        ...


def select_backend(settings: Settings, *, use_daemon: bool = True) -> Backend:
    """Return the daemon backend, or the in-process backend if the settings or `use_daemon` disable the daemon."""
    backend_class = DaemonBackend if use_daemon and settings.use_daemon else InProcessBackend
    return backend_class(settings.home, settings.reranker_precision)


class InProcessBackend:
    """Backend in this process. The first request that needs a model loads it.

    `precision`: precision of the cross-encoder. `get_engine`: returns a shared engine; if it is None, the backend
    creates an engine of its own.
    """

    def __init__(
        self,
        home: Path,
        precision: Precision = Precision.FULL,
        get_engine: Callable[[], Engine] | None = None,
    ) -> None:
        self._home = home
        self._precision = precision
        self._get_engine = get_engine

    @cached_property
    def _engine(self) -> Engine:
        return self._get_engine() if self._get_engine else Engine(self._home)

    def find(self, request: FindRequest, path: Path) -> FindAnswer:
        """See `Backend.find`."""
        return self._engine.find(request, _make_absolute(path), self._precision)

    def find_in_repositories(self, request: FindRequest, names: Sequence[str], cwd: Path) -> FindAnswer:
        """See `Backend.find_in_repositories`."""
        from serve.repositories import ALL, format_unidentified_indexes, resolve_repositories

        repositories = resolve_repositories(self._home, names, cwd)
        unreadable = format_unidentified_indexes(self._home) if ALL in names else ""
        if not unreadable:
            return self._find_in(request, repositories)
        hint = f"No answer from {unreadable}: `lineage status --all` says why."
        try:
            answer = self._find_in(request, repositories)
        except NoAnswer as error:
            raise NoAnswer(f"{hint} {error.message}") from error
        return replace(answer, meta=replace(answer.meta, hint=f"{hint} {answer.meta.hint or ''}".strip()))

    def explain(self, request: ExplainRequest, path: Path, cwd: Path | None = None) -> ExplainAnswer:
        """See `Backend.explain`."""
        return self._engine.explain(request, _make_absolute(path), cwd)

    def _find_in(self, request: FindRequest, repositories: Sequence[NamedRepository]) -> FindAnswer:
        return self._engine.find_in_repositories(request, repositories, self._precision)


class DaemonBackend(InProcessBackend):
    """Backend that asks the daemon, and answers in this process if the daemon is unavailable."""

    def __init__(self, home: Path, precision: Precision) -> None:
        from serve.daemon.client import DaemonClient
        from serve.daemon.process import DaemonPaths

        super().__init__(home, precision)
        self._client = DaemonClient(DaemonPaths(home), precision)

    def find(self, request: FindRequest, path: Path) -> FindAnswer:
        """See `Backend.find`."""
        ask_daemon = partial(self._client.find, request, _make_absolute(path))
        return _answer_with_fallback(ask_daemon, partial(super().find, request, path))

    def explain(self, request: ExplainRequest, path: Path, cwd: Path | None = None) -> ExplainAnswer:
        """See `Backend.explain`."""
        ask_daemon = partial(self._client.explain, request, _make_absolute(path), cwd)
        return _answer_with_fallback(ask_daemon, partial(super().explain, request, path, cwd))

    def _find_in(self, request: FindRequest, repositories: Sequence[NamedRepository]) -> FindAnswer:
        ask_daemon = partial(self._client.find_in_repositories, request, repositories)
        return _answer_with_fallback(ask_daemon, partial(super()._find_in, request, repositories))


def _answer_with_fallback(
    ask_daemon: Callable[[], AnswerT], answer_in_process: Callable[[], AnswerT]
) -> AnswerT:
    """Return the daemon's answer, or that of this process if the daemon is unavailable."""
    from serve.daemon.process import DaemonUnavailable

    try:
        return ask_daemon()
    except DaemonUnavailable as error:
        logger.warning("The daemon is unavailable, so this process answers. %s", error)
        return answer_in_process()


def _make_absolute(path: Path) -> Path:
    # Not `resolve`, so that messages show the path as the user typed it.
    return Path(os.path.abspath(path))  # noqa: PTH100 - `Path.absolute` keeps `..`


class ModelCache:
    """Encoders and cross-encoders, each created at its first request and then shared. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._encoders: dict[EncoderName, SearchEncoder] = {}
        self._cross_encoders: dict[Precision, CrossEncoder] = {}

    def get_encoder(self, name: EncoderName) -> SearchEncoder:
        """Return the encoder, which loads its model at the first text."""
        with self._lock:
            if name not in self._encoders:
                from pipeline.encoders.base import create_bundled_encoder

                self._encoders[name] = create_bundled_encoder(name)
            return self._encoders[name]

    def get_cross_encoder(self, precision: Precision) -> CrossEncoder:
        """Return the cross-encoder, which loads its model at the first query."""
        with self._lock:
            if precision not in self._cross_encoders:
                from pipeline.encoders.cross_encoder import CrossEncoder

                self._cross_encoders[precision] = CrossEncoder(precision)
            return self._cross_encoders[precision]

    def unload(self) -> None:
        """Remove the models from the cache. A running request keeps the models that it uses until it ends."""
        with self._lock:
            self._encoders.clear()
            self._cross_encoders.clear()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the models that were requested since the last `unload`."""
        with self._lock:
            models: list[SearchEncoder | CrossEncoder] = [
                *self._encoders.values(),
                *self._cross_encoders.values(),
            ]
            return tuple(model.name for model in models)


class Engine:
    """Search and explanation in this process, with models, indexes and answers cached in memory. Thread-safe."""

    def __init__(self, home: Path) -> None:
        from stores.connections import ReaderPools

        self.home = home
        self.models = ModelCache()
        self._reader_pools = ReaderPools()
        self._explainer = self._create_explainer()
        self._lock = threading.Lock()
        self._searcher: PatternSearcher | None = None

    def find(self, request: FindRequest, path: Path, precision: Precision = Precision.FULL) -> FindAnswer:
        """Search the repository at `path`; see `PatternSearcher.find`. `precision`: precision of the cross-encoder."""
        answer = self._get_searcher().find(request, path, reranker=self._create_reranker(precision))
        return _note_clamped_limit(answer, request.k)

    def find_in_repositories(
        self,
        request: FindRequest,
        repositories: Sequence[NamedRepository],
        precision: Precision = Precision.FULL,
    ) -> FindAnswer:
        """Search several repositories; see `merged_search.find_in_repositories`."""
        from serve.search.merged_search import find_in_repositories

        reranker = self._create_reranker(precision)
        answer = find_in_repositories(self._get_searcher(), request, repositories, reranker=reranker)
        return _note_clamped_limit(answer, request.k)

    def explain(self, request: ExplainRequest, path: Path, cwd: Path | None = None) -> ExplainAnswer:
        """Explain lines of a file in the repository at `path`; see `Explainer.explain`."""
        return _note_clamped_limit(self._explainer.explain(request, path, cwd), request.k)

    def list_loaded_indexes(self) -> tuple[LoadedIndex, ...]:
        """Return every index in memory."""
        return self._searcher.list_loaded_indexes() if self._searcher else ()

    def unload(self) -> None:
        """Remove models, indexes and answers from the caches. The next request loads what it needs."""
        self.models.unload()
        self._explainer = self._create_explainer()
        self.close()

    def close(self) -> None:
        """Close all indexes. A later request opens them again."""
        if self._searcher:
            self._searcher.close()
        self._reader_pools.close_all()

    def _create_explainer(self) -> Explainer:
        from serve.explain.explain_change import Explainer

        return Explainer(self.home, self._reader_pools)

    def _create_reranker(self, precision: Precision) -> CrossEncoderReranker:
        # Imported here rather than in __init__, because explain requests need neither Arrow nor NumPy.
        from serve.search.rerank import CrossEncoderReranker

        return CrossEncoderReranker(partial(self.models.get_cross_encoder, precision))

    def _get_searcher(self) -> PatternSearcher:
        from serve.search.find_pattern import PatternSearcher

        with self._lock:
            self._searcher = self._searcher or PatternSearcher(
                self.home, load_encoder=self.models.get_encoder, reader_pools=self._reader_pools
            )
            return self._searcher


def _note_clamped_limit(answer: AnswerT, k: int) -> AnswerT:
    """Add a hint if `k` was clamped to a limit, and the answer has as many hits as this limit."""
    limit = clamp_limit(k)
    if k == limit or len(answer.hits) < limit:
        return answer
    note = f"`k` is from {MIN_HITS} to {MAX_HITS}: {k} counts as {limit}."
    hint = f"{answer.meta.hint or ''} {note}".lstrip()
    return replace(answer, meta=replace(answer.meta, hint=hint))
