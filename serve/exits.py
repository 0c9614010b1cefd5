"""The one place where errors become text and exit codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from typer import Abort, TyperException

from serve.errors import BadRequest
from stores.errors import LineageError

OK: Final = 0
FAILED: Final = 1
MISUSED: Final = 2
# What a shell reports for a program that SIGINT or SIGPIPE ended.
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as a person meets it: lines for stderr, none where the person knows, and the exit code."""

    text: str
    code: int


def failure(error: BaseException) -> Failure | None:
    """How an error ends the program; None for one that nobody foresaw, whose traceback is the report."""
    match error:
        case BadRequest():
            return Failure(f"error: {error}", MISUSED)
        case LineageError():
            return Failure(f"error: {error}", FAILED)
        case TyperException():
            return Failure(
                f"error: {error.format_message()}\n  `--help` lists what is accepted.", error.exit_code
            )
        case KeyboardInterrupt() | Abort():
            return Failure("", INTERRUPTED)
        case BrokenPipeError() | SystemExit(__context__=BrokenPipeError()):  # the latter is typer's way
            return Failure("", PIPE_CLOSED)
    return None
