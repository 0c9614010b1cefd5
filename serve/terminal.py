"""What every command does at its ends: run, print, turn an error into text and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from serve import exits
from serve.visible import visible


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
    """Print a text as it is, for programs, and a line break."""
    # UTF-8 whatever the locale says. A byte of a path that is no text comes out as JSON's own escape of it.
    sys.stdout.buffer.write(f"{text}\n".encode("utf-8", "backslashreplace"))


def say(text: str) -> None:
    """Print a text for people, who may be at a terminal, and a line break."""
    write(visible(text))


def warn(text: str) -> None:
    """Say on stderr what a person should know beside the answer."""
    note(f"warning: {text}")


def note(text: str) -> None:
    """Say something on stderr, without a sign of anything being wrong."""
    typer.echo(visible(text), err=True)


def _failed(failure: exits.Failure) -> int:
    if failure.text:
        typer.echo(visible(failure.text), err=True)
    if failure.code == exits.PIPE_CLOSED:
        # The interpreter flushes once more at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return failure.code
