"""What every program does at its ends: say what it is, run, print, turn an error into text and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from typing import Annotated, Any

import typer

from serve import config, process, text
from serve.cli import exit_codes
from serve.text import pasted, visible


def _given(path: Path) -> Path:
    """The path, once it is sure that there is a folder it counts from: git would call a deleted one no repository."""
    path.absolute()
    text.given(path)
    return path


RepositoryPath = Annotated[
    Path,
    typer.Argument(metavar="PATH", help="The repository, or any path inside it.", callback=_given),
]


def application(description: str) -> typer.Typer:
    """A program without commands yet. Its help is plain: drawing boxes would load a library at every start."""
    return typer.Typer(
        help=description,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def version_option(name: str) -> Any:
    """The option by which a program of this name says its version."""

    def say_it(asked: bool) -> None:
        if asked:
            typer.echo(f"{name} {config.version()}")
            raise typer.Exit

    return typer.Option("--version", callback=say_it, is_eager=True, help="Print the version and exit.")


def run(app: typer.Typer, name: str, arguments: Sequence[str] | None) -> int:
    """Run a command; errors become text and an exit code here and nowhere else."""
    process.ready()
    with process.in_order() as told:
        code = copy_context().run(_run, app, name, arguments)  # what it is given is no other command's
    process.let_go()
    return process.code(told.number) if code == exit_codes.INTERRUPTED else code


def _run(app: typer.Typer, name: str, arguments: Sequence[str] | None) -> int:
    try:
        code = app(arguments, prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:
        failure = exit_codes.failure(error)
        if failure is None:
            raise
        if failure.text:
            note(failure.text)
        return failure.code
    return int(code or exit_codes.OK)


def write(text: str) -> None:
    """Print a text as it is, for programs, and a line break."""
    # UTF-8 whatever the locale says. A byte of a path that is no text comes out as JSON's own escape of it.
    sys.stdout.buffer.write(f"{text}\n".encode("utf-8", "backslashreplace"))


def say(text: str) -> None:
    """Print a text for people, who may be at a terminal and paste from it, and a line break."""
    write(visible(pasted(text)))


def warn(text: str) -> None:
    """Say on stderr what a person should know beside the answer."""
    note(f"warning: {text}")


def note(text: str) -> None:
    """Say something on stderr, without a sign of anything being wrong."""
    with suppress(OSError):  # a full disk takes nothing from the answer
        typer.echo(visible(pasted(text)), err=True)
