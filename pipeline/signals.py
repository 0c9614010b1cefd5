"""Signals that end a program, and how they wait where a step must not stay half done.

What is committed survives everything, `kill -9` too; this is for what else an interrupted step leaves: a process that
is being started would complain of what it finds gone.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

# What ends a program that does nothing about it.
ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def on_main_thread() -> bool:
    """Whether this is the thread that signals interrupt."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def held_off() -> Iterator[None]:
    """Have a signal that would raise in the body come after it; one that kills or is ignored does as ever."""
    came: list[int] = []
    handlers: dict[signal.Signals, Callable[[int, Any], Any]] = {}

    def note(number: int, _: object) -> None:
        came.append(number)

    try:
        for number in ENDING if on_main_thread() else ():
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
                signal.signal(number, note)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
