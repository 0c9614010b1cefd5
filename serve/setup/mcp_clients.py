"""The server that clients are told of: its command, its arguments, its environment.

The forms that clients give an entry, and what an entry says in each.

The clients we know, and where each keeps its configuration; every place stands in the client's documentation.

A place begins with a folder's name in braces, which `folders` says: {home}; {config}, the XDG folder; {apps}, where
a Mac's programs keep their data; {codex}, Codex's own.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Final

from serve.errors import BadRequest
from stores.errors import LineageError


class ServerMissing(LineageError):
    """The program that clients are to start is not installed."""


class NotText(LineageError):
    """What a client is to be told has bytes that are no UTF-8, in which all clients' files are written."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server as a client starts it, over stdin and stdout.

    `name` is what the client calls it, `command` an absolute path. `environment` has the variables that are ours
    to set: None for one that is not to be set.
    """

    name: str
    command: Path
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        """The variables that are set."""
        return {name: value for name, value in self.environment.items() if value is not None}

    def check(self) -> None:
        """Refuse what no client's file can say: a path may be any bytes."""
        said = {"server's name": self.name, "program's path": str(self.command)} | self.variables
        for what, text in said.items():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise NotText(
                    f"The {what} is not UTF-8, so no client's file can say it: {text!r}.",
                    hint="Give it another name, with UTF-8 characters only.",
                ) from error


def installed(program: str, distribution: str, *, needed: bool) -> Path:
    """The program's absolute path: beside the one that runs, or else the one on PATH.

    Where it is not `needed`, because it is not to be started, its name will do.
    """
    if not needed:
        return Path(program)
    beside = [Path(sys.argv[0]).absolute().with_name(program), Path(sys.executable).with_name(program)]
    found = next((path for path in beside if shutil.which(path)), None) or shutil.which(program)
    if found is None:
        raise ServerMissing(
            f"`{program}`, the program that clients are to start, is not installed.",
            hint=f"Install it with `pip install {distribution}`, or put the folder it is in on PATH.",
        )
    return Path(found).absolute()


Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """One form: the key of the map that entries are in, the file's language, and what an entry says.

    `variables` is the entry's key for environment variables.
    """

    name: str
    key: str
    says: Callable[[Server], Entry]
    variables: str = "env"
    language: str = "json"

    def entry(self, server: Server, there: Entry | None = None) -> Entry:
        """What the file is to say of the server; what a person added to an entry that is there stays."""
        there = there or {}
        said = {**there, **self.says(server)}
        theirs = there.get(self.variables)
        kept = {
            name: value
            for name, value in (theirs.items() if isinstance(theirs, dict) else ())
            if name not in server.environment
        }
        variables = kept | server.variables
        if variables or self.variables in said:
            said[self.variables] = variables
        return said


def _program_and_arguments(server: Server) -> Entry:
    return {"command": str(server.command), "args": list(server.arguments), "env": {}}


def _stdio(server: Server) -> Entry:
    return {"type": "stdio", **_program_and_arguments(server)}


def _local(server: Server) -> Entry:
    return {"type": "local", "command": [str(server.command), *server.arguments], "enabled": True}


def _table(server: Server) -> Entry:
    return {"command": str(server.command), "args": list(server.arguments)}


MCP_SERVERS: Final = Shape("mcpServers", "mcpServers", _program_and_arguments)
MCP: Final = Shape("mcp", "mcp", _local, variables="environment")
TOML: Final = Shape("toml", "mcp_servers", _table, language="toml")
SERVERS: Final = Shape("servers", "servers", _stdio)
CONTEXT_SERVERS: Final = Shape("context_servers", "context_servers", _program_and_arguments)
SHAPES: Final = {shape.name: shape for shape in (MCP_SERVERS, MCP, TOML, SERVERS, CONTEXT_SERVERS)}


def starts(entry: Any, server: Server) -> bool:
    """Whether an entry starts this server's program, from whatever folder or through another program."""
    if not isinstance(entry, dict):
        return False
    command, arguments = entry.get("command"), entry.get("args")
    words = [
        *(command if isinstance(command, list) else [command]),
        *(arguments if isinstance(arguments, list) else []),
    ]
    return server.command.name in {PurePath(word).name for word in words if isinstance(word, str)}


class OutsideProject(LineageError):
    """A project's file is a link to one that is not the project's."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client: `user` is the person's own file, `project` one in a project; of several the first that is there.

    `user_on_mac` is where a Mac has the person's file, when it is another place. No place: it has no such file.
    """

    name: str
    title: str
    shape: Shape
    user: tuple[str, ...] = ()
    user_on_mac: tuple[str, ...] = ()
    project: tuple[str, ...] = ()


CLIENTS: Final = {
    client.name: client
    for client in (
        Client(
            "claude-code",
            "Claude Code",
            MCP_SERVERS,
            user=("{home}/.claude.json",),
            project=(".mcp.json",),
        ),
        Client(
            "claude-desktop",
            "Claude Desktop (macOS)",
            MCP_SERVERS,
            user_on_mac=("{apps}/Claude/claude_desktop_config.json",),
        ),
        Client(
            "cursor", "Cursor", MCP_SERVERS, user=("{home}/.cursor/mcp.json",), project=(".cursor/mcp.json",)
        ),
        Client("windsurf", "Windsurf", MCP_SERVERS, user=("{home}/.codeium/windsurf/mcp_config.json",)),
        Client(
            "gemini",
            "Gemini CLI",
            MCP_SERVERS,
            user=("{home}/.gemini/settings.json",),
            project=(".gemini/settings.json",),
        ),
        Client(
            "opencode",
            "opencode",
            MCP,
            user=("{config}/opencode/opencode.json", "{config}/opencode/opencode.jsonc"),
            project=("opencode.json", "opencode.jsonc"),
        ),
        Client("codex", "Codex CLI", TOML, user=("{codex}/config.toml",), project=(".codex/config.toml",)),
        Client(
            "vscode",
            "VS Code",
            SERVERS,
            user=("{config}/Code/User/mcp.json",),
            user_on_mac=("{apps}/Code/User/mcp.json",),
            project=(".vscode/mcp.json",),
        ),
        Client("zed", "Zed", CONTEXT_SERVERS, user=("{config}/zed/settings.json",)),
    )
}


def client(name: str) -> Client:
    """The client of that name; BadRequest, with those there are, when we know none."""
    if name not in CLIENTS:
        raise BadRequest(
            f"'{name}' is not a client we know.",
            hint=f"Known: {', '.join(CLIENTS)}. For any other: --file PATH --shape SHAPE.",
        )
    return CLIENTS[name]


def user_places(client: Client, *, mac: bool) -> tuple[str, ...]:
    """Where the person's own file may be, on this system."""
    return client.user_on_mac if mac and client.user_on_mac else client.user


def user_file(client: Client, folders: Mapping[str, str], *, mac: bool) -> Path:
    """The person's own file: the first that is there, or the one to make."""
    places = [Path(place.format_map(folders)) for place in user_places(client, mac=mac)]
    if not places:
        raise BadRequest(
            f"{client.title} has no file of your own that we know on this system.",
            hint="Name its file with --file PATH --shape " + client.shape.name + ".",
        )
    return next((place for place in places if place.exists()), places[0])


def project_file(client: Client, project: Path) -> Path:
    """The project's file: the first that is there, or the one to make."""
    if not client.project:
        raise BadRequest(
            f"{client.title} has no configuration in projects that we know.",
            hint="Leave --project out, to use your own configuration.",
        )
    places = [project.absolute() / place for place in client.project]
    return next((place for place in places if place.exists()), places[0])


def refuse_outside(file: Path, project: Path) -> None:
    """OutsideProject when a link leads out: whoever made the project chose where, and it may be a file of your own."""
    real = Path(os.path.realpath(file))
    if not real.is_relative_to(os.path.realpath(project)):
        raise OutsideProject(
            f"{file} leads to {real}, outside the project, and stays as it is.",
            hint="Put a file of the project's own in the link's place, or name the other one with --file and --shape.",
        )
