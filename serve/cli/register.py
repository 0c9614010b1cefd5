"""The `register` command: the same for both programs, each of which tells of its own server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serve.cli import terminal

if TYPE_CHECKING:
    from serve.setup.register import Wishes

Client = Annotated[
    str | None, typer.Option(metavar="NAME", help="The client to tell; without one, all are shown.")
]
Project = Annotated[Path | None, typer.Option(help="The client's file in this project, not your own.")]
File = Annotated[Path | None, typer.Option(help="The file of any other client; needs --shape.")]
ShapeName = Annotated[
    str | None, typer.Option(metavar="SHAPE", help="The form of its entries; all are shown without options.")
]
ServerName = Annotated[str, typer.Option(help="What the client is to call the server.")]
Write = Annotated[bool, typer.Option("--write", help="Merge it into the file, after a backup.")]
Remove = Annotated[bool, typer.Option("--remove", help="Take it out of the file, after a backup.")]


@dataclass(frozen=True, slots=True)
class Program:
    """A program of ours that clients start; `environment` is what it has to be told, None for what it need not."""

    name: str
    distribution: str
    environment: Mapping[str, str | None]
    arguments: tuple[str, ...] = ()


def command(name: str, program: Callable[[], Program]) -> Callable[..., None]:
    """The command that shows what clients are to be told of the program, or tells them; `name` is the server's."""

    def register_command(
        *,
        client: Client = None,
        project: Project = None,
        file: File = None,
        shape: ShapeName = None,
        server_name: ServerName = name,
        write: Write = False,
        remove: Remove = False,
    ) -> None:
        from serve.setup.register import Wishes

        _tell(Wishes(client, project, file, shape, write, remove), server_name, program())

    register_command.__doc__ = f"Show MCP clients' configuration for {name}, or write it."
    return register_command


def _tell(wishes: Wishes, server_name: str, program: Program) -> None:
    from serve.setup.mcp_clients import Server, installed
    from serve.setup.register import register

    command = installed(program.name, program.distribution, needed=not wishes.remove)
    server = Server(server_name, command, program.arguments, program.environment)
    said = register(wishes, server, datetime.now().astimezone())
    if said.note:
        terminal.note(said.note)
    terminal.say(said.text.rstrip("\n"))
