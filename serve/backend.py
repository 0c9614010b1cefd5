"""Backends that answer requests: the shared daemon, or an engine in this process."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pipeline.options import Precision
from serve.config import Settings
from serve.explain_types import ExplainAnswer, ExplainRequest
from serve.find_types import FindAnswer, FindRequest

if TYPE_CHECKING:
    from serve.daemon.process import DaemonUnavailable
    from serve.engine import Engine

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
        """Return the commits behind lines of a file in the repository at `path`.

        A file name may be relative to the repository or to `cwd`, the user's working directory.
        """
        ...


def select_backend(settings: Settings, *, use_daemon: bool = True) -> Backend:
    """Return the daemon backend, or the in-process backend if the settings or `use_daemon` turn the daemon off."""
    in_process = InProcessBackend(settings.home, settings.reranker_precision)
    if use_daemon and settings.use_daemon:
        return DaemonBackend(settings.home, settings.reranker_precision, in_process)
    return in_process


class InProcessBackend:
    """Backend in this process. The first request that needs a model loads it.

    `get_engine`: returns the engine to use, which others may share. By default the backend creates its own.
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
        from serve.engine import Engine

        return self._get_engine() if self._get_engine else Engine(self._home)

    def find(self, request: FindRequest, path: Path) -> FindAnswer:
        """See `Backend.find`."""
        return self._engine.find(request, _make_absolute(path), self._precision)

    def find_in_repositories(self, request: FindRequest, names: Sequence[str], cwd: Path) -> FindAnswer:
        """See `Backend.find_in_repositories`."""
        from serve.repositories import resolve_repositories

        repositories = resolve_repositories(self._home, names, cwd)
        return self._engine.find_in_repositories(request, repositories, self._precision)

    def explain(self, request: ExplainRequest, path: Path, cwd: Path | None = None) -> ExplainAnswer:
        """See `Backend.explain`."""
        return self._engine.explain(request, _make_absolute(path), cwd)


class DaemonBackend:
    """Backend that asks the daemon, and answers in this process if no daemon can be started."""

    def __init__(self, home: Path, precision: Precision, fallback: InProcessBackend) -> None:
        from serve.daemon.client import DaemonClient
        from serve.daemon.process import DaemonPaths

        self._home = home
        self._client = DaemonClient(DaemonPaths(home), precision)
        self._fallback = fallback

    def find(self, request: FindRequest, path: Path) -> FindAnswer:
        """See `Backend.find`."""
        from serve.daemon.process import DaemonUnavailable

        try:
            return self._client.find(request, _make_absolute(path))
        except DaemonUnavailable as error:
            return _fall_back(error, self._fallback).find(request, path)

    def find_in_repositories(self, request: FindRequest, names: Sequence[str], cwd: Path) -> FindAnswer:
        """See `Backend.find_in_repositories`."""
        from serve.daemon.process import DaemonUnavailable
        from serve.repositories import resolve_repositories

        try:
            return self._client.find_in_repositories(request, resolve_repositories(self._home, names, cwd))
        except DaemonUnavailable as error:
            return _fall_back(error, self._fallback).find_in_repositories(request, names, cwd)

    def explain(self, request: ExplainRequest, path: Path, cwd: Path | None = None) -> ExplainAnswer:
        """See `Backend.explain`."""
        from serve.daemon.process import DaemonUnavailable

        try:
            return self._client.explain(request, _make_absolute(path), cwd)
        except DaemonUnavailable as error:
            return _fall_back(error, self._fallback).explain(request, path, cwd)


def _fall_back(error: DaemonUnavailable, fallback: InProcessBackend) -> InProcessBackend:
    logger.warning("The daemon is unavailable, so this process answers. %s", error)
    return fallback


def _make_absolute(path: Path) -> Path:
    # Not `resolve`, so that messages show the path as the user typed it.
    return Path(os.path.abspath(path))  # noqa: PTH100 - `Path.absolute` keeps `..`
