"""The one place where errors become text and exit codes."""

from __future__ import annotations

import errno
import os
import signal
from dataclasses import dataclass
from typing import Final

from typer import Abort, TyperException

from serve import process
from serve.errors import BadRequest, Cancelled, NoWorkingDirectory
from stores import errors
from stores.errors import LineageError

OK: Final = 0
FAILED: Final = 1
MISUSED: Final = 2
INTERRUPTED: Final = process.code(signal.SIGINT)
PIPE_CLOSED: Final = process.code(signal.SIGPIPE)
# Typer's, for a command that needs a word and was given none: its text is the help. It has no public name.
NO_ARGUMENTS: Final = "NoArgsIsHelpError"
# How the validator behind typer speaks of itself, and what a person needs of that.
VALIDATORS_WORDS: Final = {
    "Value error, ": "",
    "Input should be": "it should be",
    ", unable to parse string as an integer": "",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as a person meets it: lines for stderr, none where the person knows, and the exit code."""

    text: str
    code: int


def failure(error: BaseException) -> Failure | None:
    """How an error ends the program; None for one that nobody foresaw, whose traceback is the report."""
    error = _ours(error)
    match error:
        case Cancelled():
            return Failure(error.message, INTERRUPTED)
        case LineageError():
            return Failure(f"error: {error}", MISUSED if isinstance(error, BadRequest) else FAILED)
        case TyperException():
            return Failure(_usage(error), error.exit_code)
        case _ if is_interrupt(error):
            return Failure("", INTERRUPTED)
        case BrokenPipeError() | SystemExit(__context__=BrokenPipeError()):  # the latter is typer's way
            return Failure("", PIPE_CLOSED)
    return None


def is_interrupt(error: BaseException) -> bool:
    """Whether it is Ctrl-C, or a signal that ends a program as that does."""
    match error:
        # The third is DuckDB's way, of a statement that runs on the main thread; the last that of a progress bar
        # whose terminal was closed.
        case (
            KeyboardInterrupt()
            | Abort()
            | RuntimeError(__cause__=KeyboardInterrupt())
            | OSError(errno=errno.EIO, __context__=KeyboardInterrupt())
        ):
            return True
    return False


def _usage(error: TyperException) -> str:
    """What is wrong with a command line; of one without any word the help alone."""
    said = error.format_message()
    if type(error).__name__ == NO_ARGUMENTS:
        return said
    for words, plain in VALIDATORS_WORDS.items():
        said = said.replace(words, plain)
    context = getattr(error, "ctx", None)
    command = f"{context.command_path} " if context else ""
    return f"error: {said}\n  `{command}--help` lists what is accepted."


def _ours(error: BaseException) -> BaseException:
    """The error, or what it means: asked for a deleted working directory, the system names no file."""
    if isinstance(error, FileNotFoundError) and error.filename is None and _is_nowhere():
        return NoWorkingDirectory()
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
        return errors.of(error) or error
    return error


def _is_nowhere() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - asked, not used
    except FileNotFoundError:
        return True
    return False
