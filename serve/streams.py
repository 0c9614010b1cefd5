"""A program's streams: there however it was started, UTF-8 whatever the locale says, and plain about what is lost."""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

from stores.errors import LineageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

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
