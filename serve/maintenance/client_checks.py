"""Checks of MCP clients: their entries for lineage and mindmap, and the servers that the entries start."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, Final

from serve import config
from serve.maintenance.findings import CheckContext, CheckResult, report_ok, report_warning
from serve.setup import json_config, toml_config
from serve.setup.file_edit import FileAccessError, read_file
from serve.setup.mcp_clients import CLIENTS, Client, Server, list_user_config_paths, list_words, starts_server

# Programs that clients start, with the command that registers each.
REGISTER_COMMANDS: Final = {"lineage-mcp": "lineage register", "mindmap": "mindmap register"}
_PARSERS: Final = {"json": json_config.parse, "toml": toml_config.parse}
# Time for a server to list its tools. On a busy machine its start takes several seconds.
SERVER_TIMEOUT_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class ClientFile:
    """Configuration file of a client. `is_own`: it is the user's, not a project's."""

    client: Client
    path: Path
    is_own: bool


def check_clients(context: CheckContext) -> Iterator[CheckResult]:
    """Check that each client with an entry for lineage or mindmap can start the server and uses the same indexes.

    The user's own configuration files and those in the repository are read. Only servers of the former are started,
    because the author of a repository chose the commands in the latter.
    """
    has_result = False
    for file in _iter_client_files(context):
        for result in _check_client_file(file, context):
            has_result = True
            yield result
    if not has_result:
        yield report_ok(
            "clients", "none has an entry for lineage or mindmap", "`lineage register` shows what to add."
        )


def _iter_client_files(context: CheckContext) -> Iterator[ClientFile]:
    directories, is_mac = config.list_config_directories(), sys.platform == "darwin"
    root = context.repository.root if context.repository and not context.repository.is_bare else None
    for client in CLIENTS.values():
        own_files = [
            ClientFile(client, Path(path.format_map(directories)), is_own=True)
            for path in list_user_config_paths(client, is_mac=is_mac)
        ]
        project_files = [
            ClientFile(client, root / path, is_own=False) for path in client.project_paths if root
        ]
        yield from (file for file in (*own_files, *project_files) if file.path.is_file())


def _check_client_file(file: ClientFile, context: CheckContext) -> Iterator[CheckResult]:
    name, shape = f"client {file.client.name}", file.client.shape
    content = b""
    try:
        content = read_file(file.path) or b""
        servers = _PARSERS[shape.language](content.decode()).get(shape.key)
    except FileAccessError:
        yield report_warning(
            name, f"{file.path} cannot be read", "Check its permissions: the client may need them too."
        )
        return
    except (ValueError, AttributeError, RecursionError):
        if any(program.encode() in content for program in REGISTER_COMMANDS):
            yield report_ok(name, f"{file.path} mentions lineage, but its format could not be checked")
        return
    for server_name, entry in (servers if isinstance(servers, dict) else {}).items():
        for program, register_command in REGISTER_COMMANDS.items():
            if starts_server(entry, Server(server_name, Path(program))):
                result, fault = _check_entry(entry, program, file, context)
                if fault:
                    project = "" if file.is_own else " --project ."
                    name_option = (
                        "" if server_name in register_command else f" --server-name {quote(server_name)}"
                    )
                    options = f"--client {file.client.name}{project}{name_option} --write"
                    remedy = f"Run `{register_command} {options}`."
                    yield report_warning(name, f"{file.path}: {fault}", remedy)
                else:
                    yield report_ok(name, f"{server_name} in {file.path}{result}")


def _check_entry(
    entry: Mapping[str, Any], program: str, file: ClientFile, context: CheckContext
) -> tuple[str, str]:
    """Return a result of the server's start and an empty text, or an empty text and the fault of the entry."""
    words = list_words(entry)
    executable = shutil.which(words[0])
    if executable is None:
        return "", f"{words[0]} does not exist or is not executable"
    variables = entry.get(file.client.shape.environment_key)
    environment = (
        {str(name): str(value) for name, value in variables.items()} if isinstance(variables, dict) else {}
    )
    if program == "lineage-mcp" and (fault := _find_home_fault(environment, context)):
        return "", fault
    if not file.is_own:
        return "", ""
    try:
        tool_count = _count_tools(executable, words[1:], environment)
    except Exception as error:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        reason = str(error) or type(error).__name__
        return "", f"the server does not answer ({reason:.200})"
    return f": {tool_count} tools", ""


def _find_home_fault(environment: Mapping[str, str], context: CheckContext) -> str:
    home = environment.get("LINEAGE_HOME")
    if _is_same_home(home, context.settings.home):
        return ""
    return (
        f"its indexes are in {home or config.DEFAULT_HOME}, those of this program in {context.settings.home}"
    )


def _is_same_home(configured: str | None, home: Path) -> bool:
    return Path(os.path.expanduser(configured or str(config.DEFAULT_HOME))).absolute() == home  # noqa: PTH111 - `Path.expanduser` raises for an unknown user


def _count_tools(executable: str, arguments: list[str], environment: Mapping[str, str]) -> int:
    """Start a server as a client does, without a daemon, and return the number of its tools."""
    import anyio
    from mcp.client import Client as McpClient
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def count_tools() -> int:
        parameters = StdioServerParameters(
            command=executable, args=arguments, env={**environment, "LINEAGE_NO_DAEMON": "1"}
        )
        with anyio.fail_after(SERVER_TIMEOUT_SECONDS), Path(os.devnull).open("w") as no_log:
            async with McpClient(stdio_client(parameters, no_log)) as client:
                return len((await client.list_tools()).tools)

    return anyio.run(count_tools)
