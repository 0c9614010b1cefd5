"""The forms that clients give an entry, and what an entry says in each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from serve.registering.server import Server

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
