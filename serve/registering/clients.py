"""The clients we know, and where each keeps its configuration; every place stands in the client's documentation.

A place begins with a folder's name in braces, which `folders` says: {home}; {config}, the XDG folder; {apps}, where
a Mac's programs keep their data; {codex}, Codex's own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from serve.errors import BadRequest
from serve.registering.shapes import CONTEXT_SERVERS, MCP, MCP_SERVERS, SERVERS, TOML, Shape
from stores.errors import LineageError


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
