"""Termination signals, and their deferral while a step must not be interrupted.

Committed data survives any signal. Deferral is for steps whose interruption causes other trouble: a process that is
being started prints errors when its parent has gone.
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
    """Defer signals with a Python handler until the body has ended. Others kill or are ignored as usual."""
    received: list[int] = []
    handlers: dict[signal.Signals, Callable[[int, Any], Any]] = {}

    def record_signal(number: int, _: object) -> None:
        received.append(number)

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
        if received:
            signal.raise_signal(received[0])
