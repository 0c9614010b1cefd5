"""What ends a program: told by `kill`, or by a terminal that closes, a command stops as it does on Ctrl-C, in order.

A program's streams: there however it was started, UTF-8 whatever the locale says, and plain about what is lost.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Final, TextIO

from pipeline.signals import ENDING, on_main_thread
from stores.errors import LineageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


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


# What is no text, as a byte of a path, comes out as an escape.
ERRORS: Final = "backslashreplace"


class AnswerLost(LineageError):
    """What a program answers could not be written to where it was to go."""


class _Answer(io.FileIO):
    """Where answers go; whoever reads them may leave, and any other failure is told as what it is."""

    def write(self, data: ReadableBuffer, /) -> int:
        """All of it: the system may take a part, or nothing for now, and nobody above asks how much."""
        rest = memoryview(data).cast("B")
        try:
            while rest:
                taken = super().write(rest)
                if taken is None:
                    select.select([], [self], [])
                rest = rest[taken or 0 :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise lost(error) from error
        return memoryview(data).nbytes


def lost(error: OSError) -> AnswerLost:
    """What is said of an answer that the system did not take."""
    return AnswerLost(f"The answer could not be written: {error.strerror or error}")


def ready() -> None:
    """Make the process's own streams so; one that was closed leads nowhere.

    What stands in the place of one, as a test's, is left alone.
    """
    # In their order: the system gives the lowest number that is free, and a database must not get one of theirs.
    if sys.stdin is None:
        sys.stdin = open(_nowhere(), encoding="utf-8", errors=ERRORS)  # noqa: SIM115 - for as long as the program
    if sys.stdout is None or sys.stdout is sys.__stdout__:
        sys.stdout = _answering(sys.stdout)
    if sys.stderr is None:
        sys.stderr = open(_nowhere(), "w", encoding="utf-8", errors=ERRORS)  # noqa: SIM115
    elif sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(encoding="utf-8", errors=ERRORS)


def let_go() -> None:
    """Forget what cannot be written: the interpreter tries once more at its end, and would complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, AnswerLost):
            os.dup2(_nowhere(), stream.fileno())


@contextmanager
def answering() -> Iterator[None]:
    """What the body answers is written at its end; where it cannot be, the program says so and ends."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except AnswerLost as error:
        let_go()
        sys.exit(f"error: {error}")


def _answering(before: TextIO | None) -> TextIO:
    raw = _Answer(_nowhere() if before is None else before.fileno(), "w", closefd=False)
    at_once = isinstance(before, io.TextIOWrapper) and before.write_through
    return io.TextIOWrapper(
        raw if at_once else io.BufferedWriter(raw),
        encoding="utf-8",
        errors=ERRORS,
        line_buffering=raw.isatty(),
        write_through=at_once,
    )


def _nowhere() -> int:
    descriptor = os.open(os.devnull, os.O_RDWR)
    os.set_inheritable(descriptor, True)  # as streams are: programs that are started have them, too
    return descriptor
