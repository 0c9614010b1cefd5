"""Termination signals, and their deferral while a step must not be interrupted.

No signal damages committed data. Deferral is for the start of a process: if its parent ends during the start, the
process prints errors.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

# Signals that end a program by default.
TERMINATION_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def is_main_thread() -> bool:
    """Return whether this is the main thread, the only one that Python runs signal handlers in."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def defer_signals() -> Iterator[None]:
    """Call the Python handlers of termination signals only after the body of the `with` statement.

    If several signals arrive, the first is raised again and the others are dropped. Signals without a Python handler
    keep their usual effect, and outside the main thread nothing is deferred.
    """
    received_signals: list[int] = []
    handlers: dict[signal.Signals, Callable[[int, Any], Any]] = {}

    def record_signal(number: int, _: object) -> None:
        received_signals.append(number)

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
        if received_signals:
            signal.raise_signal(received_signals[0])
