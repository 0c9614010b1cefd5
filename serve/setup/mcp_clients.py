"""Known MCP clients: paths and entry shapes of their configuration files, and the server that they start.

- `Server`: command, arguments and environment of an MCP server.
- `Shape`: format of server entries in configuration files.
- `Client`, `CLIENTS`: the known clients. Their paths are taken from each client's documentation and begin with a
  directory in braces: {home}, {config} (XDG), {apps} (application data on macOS) or {codex}.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, Final

from serve.errors import BadRequest
from serve.setup import config_formats
from serve.setup.config_formats import ConfigFormat
from stores.errors import LineageError

# Programs that `register` adds to clients.
PROGRAM_NAMES: Final = frozenset({"lineage-mcp", "mindmap"})
# Field of an entry with which the user turns a server off.
ENABLED_KEY: Final = "enabled"


class ServerNotInstalled(LineageError):
    """Error for an MCP server program that is not installed."""


class NotUtf8(LineageError):
    """Error for a server whose name, path or environment is not valid UTF-8, so that no client's file can have it."""


@dataclass(frozen=True, slots=True)
class Server:
    """MCP server that a client starts and talks to over stdin and stdout.

    `name`: the name in the client. `command`: absolute path of the program; for a removal, its name is enough.
    `environment`: the variables that lineage manages in the entry; None removes a variable.
    """

    name: str
    command: Path
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that have a value."""
        return {name: value for name, value in self.environment.items() if value is not None}

    def check_encoding(self) -> None:
        """Raise NotUtf8 if the name, path or a variable is not valid UTF-8. Paths can have any bytes."""
        texts = {"server name": self.name, "program path": str(self.command)}
        texts |= {f"value of {name}": value for name, value in self.variables.items()}
        for name, text in texts.items():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise NotUtf8(
                    f"The {name} is not UTF-8, so it cannot be written to a client's file: {text!r}.",
                    hint="Use a name or path with UTF-8 characters only.",
                ) from error


def find_program(program: str, distribution: str, *, is_required: bool) -> Path:
    """Return the absolute path of the program, next to the running program or on PATH.

    If it is not required, return only its name. If it is required and missing, raise ServerNotInstalled with a hint to
    install the package `distribution`.
    """
    if not is_required:
        return Path(program)
    siblings = [Path(sys.argv[0]).absolute().with_name(program), Path(sys.executable).with_name(program)]
    path = next((path for path in siblings if shutil.which(path)), None) or shutil.which(program)
    if path is None:
        raise ServerNotInstalled(
            f"`{program}`, the program that clients start, is not installed.",
            hint=f"Install it with `pip install {distribution}`, or add its directory to PATH.",
        )
    return Path(path).absolute()


# Entry of a server in a configuration file.
Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """Format of server entries in a configuration file.

    `name`: value of `--shape`. `key`: top-level key of the object that has the entries. `build_entry`: builds the entry
    of a server. `environment_key`: key of the environment variables in an entry. `config_format`: format of the file.
    """

    name: str
    key: str
    build_entry: Callable[[Server], Entry]
    environment_key: str = "env"
    config_format: ConfigFormat = config_formats.JSON

    def merge_entry(self, server: Server, existing_entry: Entry | None = None) -> Entry:
        """Return the server's entry, with what the user added to `existing_entry`: fields, arguments and variables."""
        existing_entry = existing_entry or {}
        entry = {**existing_entry, **self.build_entry(_keep_arguments(server, existing_entry))}
        if ENABLED_KEY in existing_entry:
            entry[ENABLED_KEY] = existing_entry[ENABLED_KEY]
        existing_variables = existing_entry.get(self.environment_key)
        if not isinstance(existing_variables, dict):
            existing_variables = {}
        user_variables = {
            name: value for name, value in existing_variables.items() if name not in server.environment
        }
        variables = user_variables | server.variables
        if variables or self.environment_key in entry:
            entry[self.environment_key] = variables
        return entry


def _keep_arguments(server: Server, entry: Entry) -> Server:
    """Return the server with the program's arguments in the entry, if those begin with the server's arguments."""
    words = list_command_words(entry)
    position = _find_program_word(words, server.command.name)
    arguments = () if position is None else tuple(words[position + 1 :])
    has_own_arguments = arguments[: len(server.arguments)] == server.arguments
    return replace(server, arguments=arguments) if has_own_arguments else server


def _find_program_word(words: Sequence[str], program: str) -> int | None:
    """Return the position of a program: the first word, or the last word that is its name without a directory.

    A path among the arguments does not count, since it may be of any file or directory.
    """
    if words and PurePath(words[0]).name == program:
        return 0
    return max((position for position, word in enumerate(words) if word == program), default=None)


def _build_command_entry(server: Server) -> Entry:
    return {"command": str(server.command), "args": list(server.arguments), "env": {}}


def _build_stdio_entry(server: Server) -> Entry:
    return {"type": "stdio", **_build_command_entry(server)}


def _build_local_entry(server: Server) -> Entry:
    return {"type": "local", "command": [str(server.command), *server.arguments], ENABLED_KEY: True}


def _build_toml_entry(server: Server) -> Entry:
    return {"command": str(server.command), "args": list(server.arguments)}


MCP_SERVERS: Final = Shape("mcpServers", "mcpServers", _build_command_entry)
MCP: Final = Shape("mcp", "mcp", _build_local_entry, environment_key="environment")
TOML: Final = Shape("toml", "mcp_servers", _build_toml_entry, config_format=config_formats.TOML)
SERVERS: Final = Shape("servers", "servers", _build_stdio_entry)
CONTEXT_SERVERS: Final = Shape("context_servers", "context_servers", _build_command_entry)
SHAPES: Final = {shape.name: shape for shape in (MCP_SERVERS, MCP, TOML, SERVERS, CONTEXT_SERVERS)}


def starts_server(entry: Any, server: Server) -> bool:
    """Return whether an entry starts this server's program: as its command, or by its name in the arguments."""
    return _find_program_word(list_command_words(entry), server.command.name) is not None


def starts_own_program(entry: Any) -> bool:
    """Return whether an entry starts one of this project's programs."""
    words = list_command_words(entry)
    return any(_find_program_word(words, program) is not None for program in PROGRAM_NAMES)


def list_command_words(entry: Any) -> list[str]:
    """Return the command of an entry and its arguments, without values of unexpected types."""
    if not isinstance(entry, dict):
        return []
    command, arguments = entry.get("command"), entry.get("args")
    words = [
        *(command if isinstance(command, list) else [command]),
        *(arguments if isinstance(arguments, list) else []),
    ]
    return [word for word in words if isinstance(word, str)]


class OutsideProject(LineageError):
    """Error for a project's configuration file that is a link to a file outside the project."""


@dataclass(frozen=True, slots=True)
class Client:
    """MCP client and its configuration files.

    `name`: value of `--client`. `user_paths`: possible paths of the user's own configuration file; the first that
    exists is used. `mac_user_paths`: these paths on macOS, if they differ. `project_paths`: possible paths of a
    configuration file in a project, relative to its root. Without paths, the client has no such file. `user_step`,
    `project_step`: what the user has to do after a change, if it is more than a restart. `starts_servers_elsewhere`:
    True if the client starts servers in a directory that is no project, so a server that answers about its working
    directory needs a path as argument.
    """

    name: str
    title: str
    shape: Shape
    user_paths: tuple[str, ...] = ()
    mac_user_paths: tuple[str, ...] = ()
    project_paths: tuple[str, ...] = ()
    user_step: str = ""
    project_step: str = ""
    starts_servers_elsewhere: bool = False


CLIENTS: Final = {
    client.name: client
    for client in (
        Client(
            "claude-code",
            "Claude Code",
            MCP_SERVERS,
            user_paths=("{home}/.claude.json",),
            project_paths=(".mcp.json",),
            project_step="Start `claude` in the project and approve the server; `claude mcp list` shows its state.",
        ),
        Client(
            "claude-desktop",
            "Claude Desktop (macOS)",
            MCP_SERVERS,
            mac_user_paths=("{apps}/Claude/claude_desktop_config.json",),
            user_step="Quit Claude Desktop completely and start it again.",
            starts_servers_elsewhere=True,
        ),
        Client(
            "cursor",
            "Cursor",
            MCP_SERVERS,
            user_paths=("{home}/.cursor/mcp.json",),
            project_paths=(".cursor/mcp.json",),
            project_step="Open the project in Cursor and enable the server under Settings > MCP.",
        ),
        Client(
            "windsurf",
            "Windsurf",
            MCP_SERVERS,
            user_paths=("{home}/.codeium/windsurf/mcp_config.json",),
            user_step="Refresh the servers under Windsurf Settings > Cascade, or restart Windsurf.",
            starts_servers_elsewhere=True,
        ),
        Client(
            "gemini",
            "Gemini CLI",
            MCP_SERVERS,
            user_paths=("{home}/.gemini/settings.json",),
            project_paths=(".gemini/settings.json",),
            user_step="Start `gemini` anew. It starts servers only in folders that you trust (`/permissions`).",
            project_step="Start `gemini` in the project and trust the folder; `gemini mcp list` shows the server.",
        ),
        Client(
            "opencode",
            "opencode",
            MCP,
            user_paths=("{config}/opencode/opencode.json", "{config}/opencode/opencode.jsonc"),
            project_paths=("opencode.json", "opencode.jsonc"),
        ),
        Client(
            "codex",
            "Codex CLI",
            TOML,
            user_paths=("{codex}/config.toml",),
            project_paths=(".codex/config.toml",),
            project_step="Start `codex` in the project and trust the folder, because it ignores this file elsewhere.",
        ),
        Client(
            "vscode",
            "VS Code",
            SERVERS,
            user_paths=("{config}/Code/User/mcp.json",),
            mac_user_paths=("{apps}/Code/User/mcp.json",),
            project_paths=(".vscode/mcp.json",),
            user_step="Run `MCP: List Servers` in VS Code, start the server and confirm that you trust it.",
            project_step="Run `MCP: List Servers` in VS Code, start the server and confirm that you trust it.",
        ),
        Client("zed", "Zed", CONTEXT_SERVERS, user_paths=("{config}/zed/settings.json",)),
    )
}


def get_client(name: str) -> Client:
    """Return the client of that name. Raise BadRequest if it is unknown."""
    if name not in CLIENTS:
        raise BadRequest(
            f"'{name}' is not a known client.",
            hint=f"Known clients: {', '.join(CLIENTS)}. For another client use --file PATH --shape SHAPE.",
        )
    return CLIENTS[name]


def list_user_config_paths(client: Client, *, is_mac: bool) -> tuple[str, ...]:
    """Return the possible paths of the user's own configuration file. They begin with a directory in braces."""
    return client.mac_user_paths if is_mac and client.mac_user_paths else client.user_paths


def find_user_config_file(client: Client, directories: Mapping[str, str], *, is_mac: bool) -> Path:
    """Return the user's own configuration file: the first that exists, or the one to create."""
    paths = [Path(path.format_map(directories)) for path in list_user_config_paths(client, is_mac=is_mac)]
    if not paths:
        raise BadRequest(
            f"{client.title} has no known user configuration file on this system.",
            hint=f"Name the file with --file PATH --shape {client.shape.name}.",
        )
    return next((path for path in paths if path.exists()), paths[0])


def find_project_config_file(client: Client, project: Path) -> Path:
    """Return the project's configuration file: the first that exists, or the one to create."""
    if not client.project_paths:
        raise BadRequest(
            f"{client.title} has no known configuration file in projects.",
            hint="Omit --project to use your own configuration.",
        )
    if not project.is_dir():
        raise BadRequest(f"{project} is not a directory.", hint="Give --project the root of a project.")
    paths = [project.absolute() / path for path in client.project_paths]
    return next((path for path in paths if path.exists()), paths[0])


def check_inside_project(file: Path, project: Path) -> None:
    """Raise OutsideProject if the file, with links resolved, is outside the project.

    The author of the project chose the target of the link, which may be one of the user's own files.
    """
    target = Path(os.path.realpath(file))
    if not target.is_relative_to(os.path.realpath(project)):
        raise OutsideProject(
            f"{file} leads to {target}, outside the project. It was not changed.",
            hint="Replace the link with a file inside the project, or name the target with --file and --shape.",
        )
