"""Typer app factory, common options, command runner, exit codes of errors, and printing, for all programs."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer import Abort, TyperException

from serve import config, process, text
from serve.errors import BadRequest, Cancelled, NoWorkingDirectory
from serve.text import add_path_to_commands, escape_controls, escape_json_controls
from stores import errors
from stores.errors import LineageError

if TYPE_CHECKING:
    from rich.console import Console

OK: Final = 0
FAILED: Final = 1
USAGE_ERROR: Final = 2
INTERRUPTED: Final = process.compute_signal_exit_code(signal.SIGINT)
PIPE_CLOSED: Final = process.compute_signal_exit_code(signal.SIGPIPE)
# Width of the console if stdout is no terminal, so that no line is broken or cut.
PIPE_COLUMNS: Final = 1_000_000
# Height of this console. Without it, rich assumes 80 columns if TERM is `dumb`.
PIPE_ROWS: Final = 25
# Class name of typer's error for a command group without a command, whose message is the help. Typer does not export
# the class.
NO_ARGUMENTS_ERROR: Final = "NoArgsIsHelpError"
# Phrases in typer's validation messages, and their replacements.
VALIDATOR_PHRASES: Final = {
    "Value error, ": "",
    "Input should be": "it should be",
    ", unable to parse string as an integer": "",
}


def remember_path(path: Path) -> Path:
    """Remember the PATH argument for commands that messages suggest, and return it.

    Raise FileNotFoundError if the working directory was deleted, because git would report it as "no repository".
    """
    path.absolute()  # raises the error
    text.set_path_argument(path)
    return path


# For answers about the history, which are JSON in a pipe; see `print_answer`.
FormatOption = Annotated[
    bool | None,
    typer.Option(
        "--json/--text",
        help="Print JSON, or text for reading. [default: text on a terminal, else JSON]",
        show_default=False,
    ),
]
# For reports, which are text in a pipe too.
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RepositoryPath = Annotated[
    Path,
    typer.Argument(metavar="PATH", help="The repository, or any path inside it.", callback=remember_path),
]


def _remember_single_path(paths: list[Path] | None) -> list[Path]:
    """Remember the PATH argument if there is only one. With several, the command remembers each in turn."""
    remember_path(paths[0] if paths and len(paths) == 1 else Path())
    return paths or []


RepositoryPaths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="PATH",
        help="The repositories, or any paths inside them.  [default: .]",
        callback=_remember_single_path,
        show_default=False,
    ),
]


def create_app(description: str) -> typer.Typer:
    """Create a typer app without commands. Its help is plain text, because rich would be imported at every start."""
    return typer.Typer(
        help=description,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def create_version_option(name: str) -> Any:
    """Return the `--version` option of a program."""

    def print_version(is_requested: bool) -> None:
        if is_requested:
            typer.echo(f"{name} {config.read_version()}")
            raise typer.Exit

    return typer.Option(
        "--version", callback=print_version, is_eager=True, help="Print the version and exit."
    )


def run_app(app: typer.Typer, name: str, arguments: Sequence[str] | None) -> int:
    """Run a command and return its exit code. All errors become messages and exit codes here."""
    process.configure_streams()
    code = INTERRUPTED
    # Suppressed here, because a signal may also arrive just before or after the `try` statement in `_run_app`.
    with suppress(KeyboardInterrupt), process.handle_termination_signals() as received_signal:
        # The command has its own context, so that its PATH argument does not affect later commands of this process.
        code = copy_context().run(_run_app, app, name, arguments)
        if code == INTERRUPTED:
            code = process.compute_signal_exit_code(received_signal.number)
    process.detach_streams()
    return code


def _run_app(app: typer.Typer, name: str, arguments: Sequence[str] | None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        code = _select_command(app, arguments)(arguments, prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:
        failure = describe_failure(error)
        if failure is None:
            raise
        if failure.message:
            print_note(failure.message)
        return failure.exit_code
    return int(code or OK)


def _select_command(app: typer.Typer, arguments: Sequence[str]) -> typer.Typer:
    """Return an app with only the command that the arguments name; the whole app if they name none.

    Typer builds the parsers of all commands of an app, which would take 27 ms at each start.
    """
    reduced_app = copy(app)
    name = arguments[0] if arguments else None
    reduced_app.registered_commands = [command for command in app.registered_commands if command.name == name]
    reduced_app.registered_groups = [group for group in app.registered_groups if group.name == name]
    return reduced_app if reduced_app.registered_commands or reduced_app.registered_groups else app


@dataclass(frozen=True, slots=True)
class Failure:
    """Exit code of an error, and its message for stderr. The message is empty for a signal and for a closed pipe."""

    message: str
    exit_code: int


def describe_failure(error: BaseException) -> Failure | None:
    """Return the message and exit code of an error; None for an unexpected one, which needs its traceback."""
    error = translate_system_error(error)
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
    """Return the message of a usage error, or the help if the user gave a command group without a command."""
    message = error.format_message()
    if type(error).__name__ == NO_ARGUMENTS_ERROR:
        return message
    for phrase, replacement in VALIDATOR_PHRASES.items():
        message = message.replace(phrase, replacement)
    context = getattr(error, "ctx", None)
    command = f"{context.command_path} " if context else ""
    return f"error: {message}\n  `{command}--help` lists the arguments and options."


def translate_system_error(error: BaseException) -> BaseException:
    """Convert a system error to the LineageError that describes it. Return any other error unchanged."""
    # The error for a deleted working directory has no file name.
    if isinstance(error, FileNotFoundError) and error.filename is None and _is_cwd_deleted():
        return NoWorkingDirectory()
    return error if isinstance(error, BrokenPipeError) else errors.to_lineage_error(error) or error


def _is_cwd_deleted() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - only to see whether it fails
    except FileNotFoundError:
        return True
    return False


def print_raw(text: str) -> None:
    """Print a text unchanged, then a line break."""
    # The output is UTF-8 in every locale. A byte of a path that is not UTF-8 is printed as an escape.
    sys.stdout.buffer.write(f"{text}\n".encode("utf-8", "backslashreplace"))


def format_json(document: Any, indent: int | None = None) -> str:
    """Return a document as JSON, on one line if `indent` is None. Control characters are JSON escapes."""
    separators = (",", ":") if indent is None else None
    return escape_json_controls(
        json.dumps(document, ensure_ascii=False, indent=indent, separators=separators)
    )


def parse_fields(fields: str | None, as_json: bool | None) -> tuple[tuple[str, ...], bool | None]:
    """Return the names in `--fields`, and `as_json` for `print_answer`: True with `--fields`, else unchanged.

    Raise BadRequest for `--fields` with `--text`.
    """
    if fields is not None and as_json is False:
        raise BadRequest(
            "--fields chooses fields of the JSON, and --text prints no JSON.", hint="Use one of them."
        )
    return ((), as_json) if fields is None else (tuple(fields.split(",")), True)


def print_answer(
    to_json: Callable[[int | None], str], print_formatted: Callable[[Console], None], *, as_json: bool | None
) -> None:
    """Print an answer as JSON or as text. If `as_json` is None, print text on a terminal and JSON elsewhere.

    `to_json` receives the indentation of the JSON, which is None unless stdout is a terminal.
    """
    is_terminal = sys.stdout.isatty()
    if as_json or (as_json is None and not is_terminal):
        print_raw(to_json(2 if is_terminal else None))
        return
    print_formatted(create_console())


def create_console() -> Console:
    """Return a console on stdout. If stdout is no terminal, its lines are neither broken nor cut."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=PIPE_COLUMNS, height=PIPE_ROWS)


def print_text(text: str) -> None:
    """Print a text for users. Control characters are escaped, and suggested commands get the PATH argument."""
    print_raw(escape_controls(add_path_to_commands(text)))


def print_warning(text: str) -> None:
    """Print a warning on stderr."""
    print_note(f"warning: {text}")


def print_note(text: str) -> None:
    """Print a note on stderr, without a prefix."""
    with suppress(OSError):  # stderr may be on a full disk; the command continues
        typer.echo(escape_controls(add_path_to_commands(text)), err=True)
