"""Conversion of exceptions to messages and exit codes."""

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
USAGE_ERROR: Final = 2
INTERRUPTED: Final = process.compute_signal_exit_code(signal.SIGINT)
PIPE_CLOSED: Final = process.compute_signal_exit_code(signal.SIGPIPE)
# Class name of typer's error for a command group without a command, whose message is the help. Typer does not export
# the class.
NO_ARGUMENTS_ERROR: Final = "NoArgsIsHelpError"
# Phrases in typer's validation messages, and their replacements.
VALIDATOR_PHRASES: Final = {
    "Value error, ": "",
    "Input should be": "it should be",
    ", unable to parse string as an integer": "",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Exit code of an error, and its message for stderr; empty for a signal and for a closed pipe."""

    message: str
    exit_code: int


def describe_failure(error: BaseException) -> Failure | None:
    """Return the message and exit code of an error; None for an unexpected one, which needs its traceback."""
    error = _translate_system_error(error)
    match error:
        case Cancelled():
            return Failure(error.message, INTERRUPTED)
        case LineageError():
            return Failure(f"error: {error}", USAGE_ERROR if isinstance(error, BadRequest) else FAILED)
        case TyperException():
            return Failure(_format_usage_error(error), error.exit_code)
        case _ if is_interrupt(error):
            return Failure("", INTERRUPTED)
        case BrokenPipeError() | SystemExit(__context__=BrokenPipeError()):  # typer raises SystemExit
            return Failure("", PIPE_CLOSED)
    return None


def is_interrupt(error: BaseException) -> bool:
    """Check whether an error comes from Ctrl-C or a termination signal."""
    match error:
        # DuckDB wraps an interrupt on the main thread in a RuntimeError. On a closed terminal, the progress bar
        # raises EIO while it handles the interrupt.
        case (
            KeyboardInterrupt()
            | Abort()
            | RuntimeError(__cause__=KeyboardInterrupt())
            | OSError(errno=errno.EIO, __context__=KeyboardInterrupt())
        ):
            return True
    return False


def _format_usage_error(error: TyperException) -> str:
    """Return the message of an error on the command line, or the help if a command group got no command."""
    message = error.format_message()
    if type(error).__name__ == NO_ARGUMENTS_ERROR:
        return message
    for phrase, replacement in VALIDATOR_PHRASES.items():
        message = message.replace(phrase, replacement)
    context = getattr(error, "ctx", None)
    command = f"{context.command_path} " if context else ""
    return f"error: {message}\n  `{command}--help` lists the arguments and options."


def _translate_system_error(error: BaseException) -> BaseException:
    """Convert a system error to the LineageError that describes it. Return any other error unchanged."""
    # For a deleted working directory the system names no file.
    if isinstance(error, FileNotFoundError) and error.filename is None and _is_cwd_deleted():
        return NoWorkingDirectory()
    return error if isinstance(error, BrokenPipeError) else errors.to_lineage_error(error) or error


def _is_cwd_deleted() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - only to see whether it fails
    except FileNotFoundError:
        return True
    return False
