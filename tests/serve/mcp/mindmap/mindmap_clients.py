"""Agents of tests: what they ask of a server of maps, in memory or as a program, and what they are told."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

import serve
from mindmap.map_store import Maps
from serve.mcp.mindmap_server import Serving
from tests.serve.mcp.clients import ask, text

ROOT = Path(serve.__file__).parent.parent


def program(maps: Maps) -> tuple[list[str], dict[str, str]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MINDMAP_DATA_DIR": str(maps.path)}
    return [sys.executable, "-m", "serve.cli.mindmap", "mcp"], environment


def over_stdio(maps: Maps) -> Any:
    command, environment = program(maps)
    return stdio_client(StdioServerParameters(command=command[0], args=command[1:], env=environment))


def calls(asked: Any, *wanted: tuple[str, dict[str, Any]], mode: str = "auto") -> list[Any]:
    """The answers to calls of one session, each of which must succeed."""

    async def steps(client: Client) -> list[Any]:
        answers = [await client.call_tool(name, arguments) for name, arguments in wanted]
        assert not [text(answer) for answer in answers if answer.is_error]
        return [answer.structured_content for answer in answers]

    answers: list[Any] = ask(asked, steps, mode)
    return answers


def call(serving: Serving, name: str, **arguments: Any) -> Any:
    return calls(serving.server, (name, arguments))[0]


def refusal(serving: Serving, name: str, **arguments: Any) -> str:
    """What a call that must fail says."""

    async def steps(client: Client) -> str:
        answer = await client.call_tool(name, arguments)
        assert answer.is_error, answer.structured_content
        return text(answer)

    said: str = ask(serving.server, steps)
    return said
