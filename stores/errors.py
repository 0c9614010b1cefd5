"""The root of the error tree: every error a person may see says what happened and what to do next.

What the system refuses a file - room, leave to write, a folder that is none - as an error that a person can act on.

Every program says it in the same words, whether a file of ours met it or the database engine did, which speaks of it
only in its text.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final


class LineageError(Exception):
    """Something a person can act on; its text becomes one line on stderr.

    Subclasses live beside the code that knows the cause. `serve.cli.exit_codes` turns them into exit codes.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


_ROOM: Final = "Make room there, then give the same command again: what was committed is kept."
_LENGTH: Final = (
    "Allow longer files (`ulimit -f`), then give the same command again: what was committed is kept."
)
_LEAVE: Final = "See who may read and write there; LINEAGE_HOME names another folder for indexes."
_MANY: Final = "Close other programs, or allow this one more open files (`ulimit -n`), and try again."
_HINTS: Final = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: _LENGTH,
    errno.EACCES: _LEAVE,
    errno.EPERM: _LEAVE,
    errno.EROFS: _LEAVE,
    errno.EMFILE: _MANY,
    errno.ENFILE: _MANY,
}
# The engine's words where it leaves out the system's: part of what it wrote was taken, and no more.
_UNWRITTEN: Final = ("Could not write", "Failed to commit")


class Refused(LineageError):
    """The system would not have a file read or written."""


def of(error: OSError) -> Refused | None:
    """What the system said, and of which file; None for an error that is not the system's."""
    if error.errno is None and error.filename is None:
        return None
    file = error.filename
    where = os.fsdecode(file) if isinstance(file, (str, bytes, os.PathLike)) else ""
    said = error.strerror or str(error)
    return Refused(f"{said}: {where}" if where else said, hint=_HINTS.get(error.errno or 0, ""))


def told_by_engine(text: str, file: Path) -> Refused | None:
    """What the system said according to the engine's words of this file; None where they tell of something else."""
    number = next((number for number in _HINTS if os.strerror(number).lower() in text.lower()), None)
    if number is not None:
        return Refused(f"{os.strerror(number)}: {file}", hint=_HINTS[number])
    if any(words in text for words in _UNWRITTEN):
        return Refused(f"{file} could not be written: {text.splitlines()[0]}", hint=_ROOM)
    return None


@contextmanager
def named(file: Path) -> Iterator[None]:
    """Errors of this file say so: of a descriptor that is written to the system says no name."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(file)
        raise
