"""Interruption of work: cancelled requests, deadlines, and termination signals.

The thread that works on a request has a cancellation flag. The flag is set when the client no longer waits for the
answer. Functions that take long check the flag, and raise RequestCancelled if it is set.

A signal never damages committed data. But a child process prints errors if a signal interrupts its start, or if its
parent ends during the start. So signals are deferred while child processes start.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Event
from typing import Any, Final

# Signals that end a program by default.
TERMINATION_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Shortest time limit for git, because 0 would mean the default limit.
MIN_GIT_SECONDS: Final = 0.01

_cancellation_flag: Final[ContextVar[Event | None]] = ContextVar("cancellation_flag", default=None)


class RequestCancelled(Exception):
    """Raised to end the work for a cancelled request. It is no fault of the index or the request."""


@contextmanager
def use_cancellation_flag(flag: Event) -> Iterator[None]:
    """Make this the cancellation flag of the current request during the body of the `with` statement."""
    token = _cancellation_flag.set(flag)
    try:
        yield
    finally:
        _cancellation_flag.reset(token)


def get_cancellation_flag() -> Event | None:
    """Return the flag of the current request, to pass to other threads; None if the request cannot be cancelled."""
    return _cancellation_flag.get()


def check_cancelled(flag: Event | None = None) -> None:
    """Raise RequestCancelled if the flag is set. `flag`: None for the flag of the current request."""
    flag = flag or _cancellation_flag.get()
    if flag is not None and flag.is_set():
        raise RequestCancelled


class DeadlineExceeded(Exception):
    """Raised to end a part of the work at a deadline."""


@dataclass(slots=True)
class Deadline:
    """Time limit of a part of a request.

    `end`: end of the time, by `time.monotonic`. `is_exceeded`: set when `has_time` or `check` finds that the time has
    run out. The result may then be incomplete.
    """

    end: float
    is_exceeded: bool = False

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return a deadline this many seconds from now."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining_seconds(self) -> float:
        """Seconds until the deadline, but at least `MIN_GIT_SECONDS`."""
        return max(MIN_GIT_SECONDS, self.end - time.monotonic())

    def has_time(self) -> bool:
        """Return whether time is left; if not, set `is_exceeded`. Raises RequestCancelled."""
        check_cancelled()
        if time.monotonic() > self.end:
            self.is_exceeded = True
        return not self.is_exceeded

    def check(self) -> None:
        """Raise DeadlineExceeded if no time is left, and RequestCancelled if the request was cancelled."""
        if not self.has_time():
            raise DeadlineExceeded


def is_main_thread() -> bool:
    """Return whether this is the main thread, the only one in which Python runs signal handlers."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defer termination signals until the end of the body, and block them in processes that the body starts.

    Ctrl-C and a closed terminal send a signal to this process and to those that it started. Only this process handles
    the signal, and ends the others. Signals that arrive during the body are delivered at its end. Of those that other
    threads received, only the first is raised. Outside of the main thread, signals are blocked in the started
    processes, but not deferred.
    """
    received_signals: list[int] = []
    handlers: dict[signal.Signals, Callable[[int, Any], Any]] = {}

    def record_signal(number: int, _: object) -> None:
        received_signals.append(number)

    # A started process inherits the mask of this thread. The handlers are replaced too, because another thread of this
    # process may receive a signal.
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, TERMINATION_SIGNALS)
    try:
        for number in TERMINATION_SIGNALS if is_main_thread() else ():
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
                signal.signal(number, record_signal)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        if received_signals:
            signal.raise_signal(received_signals[0])


def start_resource_tracker() -> None:
    """Start multiprocessing's resource tracker, which must outlive all other processes.

    Do not call this in the body of a `defer_signals`, because in Python 3.11 the start unblocks signals.
    """
    from multiprocessing import resource_tracker  # here, because few commands need it

    with defer_signals():
        resource_tracker.ensure_running()
