"""Clients of MCP servers, by both protocols: of one in memory, or of a program."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
from mcp.client import Client
from mcp_types import CallToolResult, TextContent

# How a client of the 2026-07-28 protocol begins, and one of 2025-11-25.
PROTOCOLS = {"auto": "2026-07-28", "legacy": "2025-11-25"}


def ask(asked: Any, steps: Callable[[Client], Any], mode: str = "auto") -> Any:
    """What the steps return, taken with a client of a server in memory or of a program."""

    async def run() -> Any:
        with anyio.fail_after(60):
            async with Client(asked, mode=mode) as client:
                return await steps(client)

    return anyio.run(run)


def text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def call(asked: Any, tool: str, mode: str = "auto", **arguments: Any) -> CallToolResult:
    async def steps(client: Client) -> Any:
        return await client.call_tool(tool, arguments)

    result: CallToolResult = ask(asked, steps, mode)
    return result


def said(result: CallToolResult) -> dict[str, Any]:
    """The structured content of a good answer; the text says the same."""
    assert not result.is_error, text(result)
    assert json.loads(text(result)) == result.structured_content
    content: dict[str, Any] | None = result.structured_content
    assert content is not None
    return content
