"""MCP clients for tests, with both protocol versions: of a server in this process or of a program."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
from mcp.client import Client
from mcp_types import CallToolResult, TextContent

# Client modes and the protocol versions that they negotiate.
PROTOCOLS = {"auto": "2026-07-28", "legacy": "2025-11-25"}
# First message of a client with the legacy protocol, for tests that write JSON-RPC themselves.
INITIALIZE_REQUEST = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": PROTOCOLS["legacy"],
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def run_client(server: Any, use_client: Callable[[Client], Any], mode: str = "auto") -> Any:
    """Connect a client to a server object or a program, and return the result of `use_client`."""

    async def run() -> Any:
        with anyio.fail_after(60):
            async with Client(server, mode=mode) as client:
                return await use_client(client)

    return anyio.run(run)


def extract_text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def call_tool(server: Any, tool: str, mode: str = "auto", **arguments: Any) -> CallToolResult:
    async def call(client: Client) -> Any:
        return await client.call_tool(tool, arguments)

    result: CallToolResult = run_client(server, call, mode)
    return result


def extract_structured_content(result: CallToolResult) -> dict[str, Any]:
    """Return the structured content of a successful result. If its text is JSON, it is the same."""
    assert not result.is_error, extract_text(result)
    if extract_text(result).startswith("{"):
        assert json.loads(extract_text(result)) == result.structured_content
    content: dict[str, Any] | None = result.structured_content
    assert content is not None
    return content
