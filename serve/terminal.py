"""What every command does at its ends: run, print, turn an error into text and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

import typer

from serve import exits

# Histories are written by strangers: an escape sequence in a message must not reach the terminal.
_CONTROLS: Final = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
_VISIBLE: Final = {**_CONTROLS, **dict.fromkeys(range(0x7F, 0xA0), "\N{REPLACEMENT CHARACTER}")}


def run(app: typer.Typer, name: str, arguments: Sequence[str] | None) -> int:
    """Run a command; errors become text and an exit code here and nowhere else."""
    try:
        code = app(arguments, prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:
        failure = exits.failure(error)
        if failure is None:
            raise
        return _failed(failure)
    return int(code or exits.OK)


def write(text: str) -> None:
    """Print a text and a line break."""
    # UTF-8 whatever the locale says. A byte of a path that is no text comes out as JSON's own escape of it.
    sys.stdout.buffer.write(f"{text}\n".encode("utf-8", "backslashreplace"))


def visible(text: str) -> str:
    """The text with control characters shown instead of obeyed."""
    return text.translate(_VISIBLE)


def warn(text: str) -> None:
    """Say on stderr what a person should know beside the answer."""
    typer.echo(f"warning: {visible(text)}", err=True)


def _failed(failure: exits.Failure) -> int:
    if failure.text:
        typer.echo(visible(failure.text), err=True)  # names and labels stand in it, and whatever is in them
    if failure.code == exits.PIPE_CLOSED:
        # The interpreter flushes once more at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return failure.code
