"""Cancellation of the work for a request whose client no longer waits for the answer.

The thread that works on a request has a flag. Its stages check the flag, and raise `RequestCancelled` once it is set.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event
from typing import Final

_flag: Final[ContextVar[Event | None]] = ContextVar("cancellation", default=None)


class RequestCancelled(Exception):
    """Raised to end the work for a cancelled request. It is no fault of the index or the request."""


@contextmanager
def use_flag(flag: Event) -> Iterator[None]:
    """Let the stages that run in the context check this flag."""
    token = _flag.set(flag)
    try:
        yield
    finally:
        _flag.reset(token)


def get_flag() -> Event | None:
    """Return the flag of the current request, for other threads that work on it; None if it cannot be cancelled."""
    return _flag.get()


def check_cancelled(flag: Event | None = None) -> None:
    """Raise RequestCancelled if the flag is set; by default that of the current request."""
    flag = flag or _flag.get()
    if flag is not None and flag.is_set():
        raise RequestCancelled
