"""Clients of the mindmap MCP server, in memory or as a process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

import serve
from mindmap.map_store import MapStore
from serve.mcp.mindmap_server import MindmapServer
from tests.serve.mcp.clients import extract_text, run_client

ROOT = Path(serve.__file__).parent.parent


def build_server_command(store: MapStore) -> tuple[list[str], dict[str, str]]:
    """Return the command line and the environment of a server process without the daemon."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MINDMAP_DATA_DIR": str(store.path),
        "LINEAGE_NO_DAEMON": "1",
    }
    return [sys.executable, "-m", "serve.cli.mindmap", "mcp"], environment


def open_stdio_transport(store: MapStore) -> Any:
    """Return a transport to a new server process."""
    command, environment = build_server_command(store)
    return stdio_client(StdioServerParameters(command=command[0], args=command[1:], env=environment))


def call_tools(server: Any, *tool_calls: tuple[str, dict[str, Any]], mode: str = "auto") -> list[Any]:
    """Return the results of successful calls in one session."""

    async def call_all(client: Client) -> list[Any]:
        results = [await client.call_tool(name, arguments) for name, arguments in tool_calls]
        assert not [extract_text(result) for result in results if result.is_error]
        return [result.structured_content for result in results]

    results: list[Any] = run_client(server, call_all, mode)
    return results


def call_tool(mindmap_server: MindmapServer, name: str, **arguments: Any) -> Any:
    """Return the result of a successful call."""
    return call_tools(mindmap_server.server, (name, arguments))[0]


def expect_tool_error(mindmap_server: MindmapServer, name: str, **arguments: Any) -> str:
    """Return the error text of a call, after a check that it fails."""

    async def call_tool_with_error(client: Client) -> str:
        result = await client.call_tool(name, arguments)
        assert result.is_error, result.structured_content
        return extract_text(result)

    error: str = run_client(mindmap_server.server, call_tool_with_error)
    return error
