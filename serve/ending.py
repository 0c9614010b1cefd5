"""What ends a program: told by `kill`, or by a terminal that closes, a command stops as it does on Ctrl-C, in order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final

from pipeline.interrupts import ENDING, on_main_thread

# When a signal in the middle of an import is looked at again, and how often: a library that hangs must not keep it.
AGAIN_SECONDS: Final = 0.02
MOST_TIMES: Final = 250
IMPORTER: Final = "<frozen importlib._bootstrap>"


@dataclass(slots=True)
class Told:
    """Which signal told this program to end, SIGINT until one did; and how often that was put off."""

    number: int = signal.SIGINT
    put_off: int = 0


def code(number: int) -> int:
    """What a shell reports for a program that this signal ended."""
    return 128 + number


def at_once() -> None:
    """Have Ctrl-C end this process at once, for as long as it does nothing but load what it needs."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def in_order() -> Iterator[Told]:
    """Have every signal that ends a program raise KeyboardInterrupt, but for those that are ignored, as under nohup.

    Not in the middle of an import: there libraries written in C lose it, or crash.
    """
    told = Told()

    def interrupt(number: int, frame: FrameType | None) -> None:
        told.number = number
        if told.put_off < MOST_TIMES and _imports(frame):
            told.put_off += 1
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
            return
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in ENDING}
    usual = {signal.SIG_DFL, signal.default_int_handler}
    mine = {number: handler for number, handler in before.items() if on_main_thread() and handler in usual}
    if mine:
        # Sent again, and not raised from here: somebody may hold it off by then.
        mine[signal.SIGALRM] = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(told.number))
    for number in mine.keys() & ENDING:
        signal.signal(number, interrupt)
    try:
        yield told
    finally:
        if mine:
            signal.setitimer(signal.ITIMER_REAL, 0)  # the command is done; nobody would take its signal
        for number, handler in mine.items():
            signal.signal(number, handler)


def _imports(frame: FrameType | None) -> bool:
    while frame and frame.f_code.co_filename != IMPORTER:
        frame = frame.f_back
    return frame is not None
