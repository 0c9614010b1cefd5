"""Who answers: the shared daemon, or this process where there is to be none or can be none."""

from __future__ import annotations

import logging
import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pipeline.options import Precision
from serve.api_types import ExplainAnswer, ExplainRequest, FindAnswer, FindRequest
from serve.config import Settings

if TYPE_CHECKING:
    from serve.daemon.process import NoDaemon
    from serve.engine import Engine

logger = logging.getLogger(__name__)


class Answering(Protocol):
    """Answers both questions; relative paths count from the working directory."""

    def find(self, request: FindRequest, path: Path) -> FindAnswer:
        """Commits of the repository at `path` whose changes resemble the request."""
        ...

    def explain(self, request: ExplainRequest, path: Path, here: Path | None = None) -> ExplainAnswer:
        """The commits behind lines of a file in the repository at `path`; `here` is where the person stands."""
        ...


def answering(said: Settings, *, daemon: bool = True) -> Answering:
    """Whoever answers for the indexes of these settings; no daemon where they, or the caller, want none."""
    own = Own(said.home, said.reranker)
    return Shared(said.home, said.reranker, own) if daemon and said.daemon else own


class Own:
    """Answers in this process; models are loaded at the first question that needs them."""

    def __init__(self, home: Path, precision: Precision = Precision.FULL) -> None:
        self._home = home
        self._precision = precision

    @cached_property
    def _engine(self) -> Engine:
        from serve.engine import Engine

        return Engine(self._home)

    def find(self, request: FindRequest, path: Path) -> FindAnswer:
        """As `Answering.find`."""
        return self._engine.find(request, _absolute(path), self._precision)

    def explain(self, request: ExplainRequest, path: Path, here: Path | None = None) -> ExplainAnswer:
        """As `Answering.explain`."""
        return self._engine.explain(request, _absolute(path), here)


class Shared:
    """Has the daemon answer, and answers in this process where no daemon can be had."""

    def __init__(self, home: Path, precision: Precision, own: Own) -> None:
        from serve.daemon.client import Remote
        from serve.daemon.process import Address

        self._remote = Remote(Address(home), precision)
        self._own = own

    def find(self, request: FindRequest, path: Path) -> FindAnswer:
        """As `Answering.find`."""
        from serve.daemon.process import NoDaemon

        try:
            return self._remote.find(request, _absolute(path))
        except NoDaemon as error:
            return _told(error, self._own).find(request, path)

    def explain(self, request: ExplainRequest, path: Path, here: Path | None = None) -> ExplainAnswer:
        """As `Answering.explain`."""
        from serve.daemon.process import NoDaemon

        try:
            return self._remote.explain(request, _absolute(path), here)
        except NoDaemon as error:
            return _told(error, self._own).explain(request, path, here)


def _told(error: NoDaemon, own: Own) -> Own:
    logger.warning("Answered without the daemon. %s", error)
    return own


def _absolute(path: Path) -> Path:
    # Not `resolve`: the person's own words stay in what is said of the path.
    return Path(os.path.abspath(path))  # noqa: PTH100 - `Path.absolute` keeps `..`
