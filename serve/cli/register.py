"""`register` command of both programs, each for its own MCP server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from serve import config
from serve.cli import terminal

if TYPE_CHECKING:
    from serve.setup.register import RegisterOptions

# Directory for backups of clients' configuration files, below the directory of the indexes.
BACKUP_DIRECTORY: Final = "backups"

ClientOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="MCP client to register with. Without it, show all clients."),
]
ProjectOption = Annotated[
    Path | None, typer.Option(help="Use the client's file in this project, not the one for all projects.")
]
FileOption = Annotated[Path | None, typer.Option(help="Configuration file of another client. Needs --shape.")]
ShapeOption = Annotated[
    str | None,
    typer.Option(
        metavar="SHAPE",
        help="Format of the entries in --file, such as `mcpServers`. Without options, the command shows all formats.",
    ),
]
ServerNameOption = Annotated[str, typer.Option(help="Name of the server in the client.")]
WriteOption = Annotated[bool, typer.Option("--write", help="Add the entry to the file, after a backup.")]
RemoveOption = Annotated[
    bool,
    typer.Option(
        "--remove",
        help="Remove the entry from the file, after a backup. The file is deleted only if `--write` created it.",
    ),
]


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """MCP server program that clients start.

    `name`: executable. `distribution`: Python package that installs it. `environment`: its variables (None: not set).
    `takes_directory`: an argument can name the directory to answer about; the default is the working directory.
    """

    name: str
    distribution: str
    environment: Mapping[str, str | None]
    arguments: tuple[str, ...] = ()
    takes_directory: bool = False


def create_register_command(name: str, build_program: Callable[[], ServerProgram]) -> Callable[..., None]:
    """Return the `register` command of a program; `name` is the default name of the server."""

    def register_command(
        *,
        client: ClientOption = None,
        project: ProjectOption = None,
        file: FileOption = None,
        shape: ShapeOption = None,
        server_name: ServerNameOption = name,
        write: WriteOption = False,
        remove: RemoveOption = False,
    ) -> None:
        from serve.setup.register import RegisterOptions

        _register(RegisterOptions(client, project, file, shape, write, remove), server_name, build_program())

    register_command.__doc__ = f"Show the configuration of MCP clients for {name}, or write it."
    return register_command


def _build_directory_argument(options: RegisterOptions, program: ServerProgram) -> tuple[str, ...]:
    """Return the path of the current work tree as an argument, if the client starts servers outside of projects.

    Return no argument for other clients, and for programs without `takes_directory`. Outside repositories, raise
    NotARepository if the entry is to be written; return no argument if it is only shown or removed.
    """
    from serve.setup.mcp_clients import CLIENTS

    client = CLIENTS.get(options.client or "")
    if not (program.takes_directory and client and client.starts_servers_elsewhere):
        return ()
    from pipeline.git.errors import NotARepository
    from pipeline.git.repository import open_repository

    try:
        return (str(open_repository(Path()).root),)
    except NotARepository as error:
        if not options.write:
            return ()
        hint = f"The entry for {client.title} needs the path of a repository. Run the command in that repository."
        raise NotARepository(error.message, hint=hint) from error


def _register(options: RegisterOptions, server_name: str, program: ServerProgram) -> None:
    from serve.setup.mcp_clients import Server, find_program
    from serve.setup.register import register

    command = find_program(program.name, program.distribution, is_required=not options.remove)
    arguments = (*program.arguments, *_build_directory_argument(options, program))
    server = Server(server_name, command, arguments, program.environment)
    result = register(options, server, config.load_settings().home / BACKUP_DIRECTORY)
    if result.note:
        terminal.print_note(result.note)
    terminal.print_text(result.text.rstrip("\n"))
