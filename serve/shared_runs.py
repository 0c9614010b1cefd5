"""Runs that threads share: a thread that needs what another is computing waits for it and gets the same outcome.

Some ignore patterns keep git busy for MINDMAP_GIT_SECONDS. Without this, each request would start a git of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar

from pipeline.git.git_cli import CANCEL_POLL_SECONDS, GitOutput, GitProgram
from pipeline.interrupts import RequestCancelled, check_cancelled

Result = TypeVar("Result")

_lock: Final = Lock()
_running: Final[dict[Hashable, Future[Any]]] = {}


def run_shared(key: Hashable, function: Callable[[], Result]) -> Result:
    """Return the result of a function, or raise its error; if a thread runs one with this key, wait for that run.

    If the request of that thread is cancelled, the function runs again for the others.
    """
    while True:
        own_future: Future[Result] = Future()
        with _lock:
            future: Future[Result] = _running.setdefault(key, own_future)
        if future is own_future:
            return _run(key, future, function)
        while not wait([future], CANCEL_POLL_SECONDS).done:
            check_cancelled()
        if not isinstance(future.exception(), RequestCancelled):
            return future.result()


def _run(key: Hashable, future: Future[Result], function: Callable[[], Result]) -> Result:
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)
    with _lock:
        del _running[key]
    return future.result()


@dataclass(frozen=True, slots=True)
class SharedGitRunner:
    """Git program whose runs threads share: the same command in the same work tree runs once at a time."""

    program: GitProgram

    @property
    def root(self) -> Path | None:
        """The root of the work tree; None for a bare repository."""
        return self.program.root

    def run(self, *arguments: str | bytes, stdin: bytes | None = None) -> GitOutput:
        """Run a git command, with `stdin` as its input, until it exits."""
        return run_shared((self.program, arguments, stdin), lambda: self.program.run(*arguments, stdin=stdin))
