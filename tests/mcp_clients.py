"""Public MCP clients, run against both servers on stdio.

python -m tests.mcp_clients [CLIENT...]

CLIENT is `official`, `fastmcp` or `inspector`, by default all three. fastmcp has to be installed; the inspector is run
by `npx`. Each client lists the tools of both servers and calls two of each, with a repository and maps made for this.
The exit code is 0 if all of them pass. It is not part of the test suite, which uses the official client.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.repos import Repo

INSPECTOR: Final = ("npx", "--yes", "@modelcontextprotocol/inspector", "--cli")
SECONDS: Final = 60
LINEAGE: Final = (sys.executable, "-m", "serve.cli.app")
LINEAGE_MCP: Final = (sys.executable, "-m", "serve.mcp.relay")
MINDMAP_MCP: Final = (sys.executable, "-m", "serve.cli.mindmap", "mcp")


@dataclass(frozen=True, slots=True)
class StdioServer:
    """Command of a server, with its directory and environment."""

    command: tuple[str, ...]
    directory: Path
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Call of a tool, and the field of its structured content that must not be empty."""

    tool: str
    arguments: Mapping[str, str]
    field: str


LINEAGE_CALLS: Final = (
    ToolCall("find_pattern", {"query": "retry with a delay"}, "hits"),
    ToolCall("explain_change", {"file": "retry.py"}, "hits"),
)
MINDMAP_CALLS: Final = (
    ToolCall("create_mindmap", {"title": "Retries"}, "mindmapId"),
    ToolCall("list_mindmaps", {"query": "retries"}, "maps"),
)

# Returns the names of the tools and the structured content of each call.
UseServer = Callable[[StdioServer, Sequence[ToolCall]], tuple[list[str], list[Any]]]


def use_official_client(server: StdioServer, calls: Sequence[ToolCall]) -> tuple[list[str], list[Any]]:
    async def run() -> tuple[list[str], list[Any]]:
        program, *arguments = server.command
        parameters = StdioServerParameters(
            command=program, args=arguments, cwd=server.directory, env=dict(server.environment)
        )
        with anyio.fail_after(SECONDS):
            async with Client(stdio_client(parameters)) as client:
                names = [tool.name for tool in (await client.list_tools()).tools]
                results = [await client.call_tool(call.tool, dict(call.arguments)) for call in calls]
                return names, [result.structured_content for result in results]

    return anyio.run(run)


def use_fastmcp(server: StdioServer, calls: Sequence[ToolCall]) -> tuple[list[str], list[Any]]:
    # Not a dependency of the tests.
    fastmcp = import_module("fastmcp")
    transports = import_module("fastmcp.client.transports")

    async def run() -> tuple[list[str], list[Any]]:
        program, *arguments = server.command
        transport = transports.StdioTransport(
            program, arguments, cwd=str(server.directory), env=dict(server.environment)
        )
        with anyio.fail_after(SECONDS):
            async with fastmcp.Client(transport) as client:
                names = [tool.name for tool in await client.list_tools()]
                results = [await client.call_tool(call.tool, dict(call.arguments)) for call in calls]
                return names, [result.structured_content for result in results]

    return anyio.run(run)


def use_inspector(server: StdioServer, calls: Sequence[ToolCall]) -> tuple[list[str], list[Any]]:
    def run(*arguments: str) -> Any:
        result = subprocess.run(
            [*INSPECTOR, *server.command, *arguments],
            cwd=server.directory,
            env={**os.environ, **server.environment},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        return json.loads(result.stdout)

    names = [tool["name"] for tool in run("--method", "tools/list")["tools"]]
    results = []
    for call in calls:
        arguments = [f"{name}={value}" for name, value in call.arguments.items()]
        options = [option for argument in arguments for option in ("--tool-arg", argument)]
        results.append(run("--method", "tools/call", "--tool-name", call.tool, *options))
    return names, [result.get("structuredContent") for result in results]


CLIENTS: Final[Mapping[str, UseServer]] = {
    "official": use_official_client,
    "fastmcp": use_fastmcp,
    "inspector": use_inspector,
}


def create_servers(folder: Path) -> dict[str, tuple[StdioServer, Sequence[ToolCall]]]:
    """Create an indexed repository; return both servers, with the calls to make."""
    repo = Repo.create(folder / "repo")
    repo.commit_file(
        "retry.py", "import time\n\n\ndef retry(call):\n    time.sleep(1)\n", "Retry with a delay"
    )
    environment = {"LINEAGE_HOME": str(folder / "home"), "MINDMAP_DATA_DIR": str(folder / "maps")}
    subprocess.run(
        [*LINEAGE, "index", "--no-progress"],
        cwd=repo.path,
        env={**os.environ, **environment},
        capture_output=True,
        check=True,
    )
    programs = {
        "lineage-mcp": (LINEAGE_MCP, LINEAGE_CALLS),
        "mindmap mcp": (MINDMAP_MCP, MINDMAP_CALLS),
    }
    return {
        name: (StdioServer(command, repo.path, environment), calls)
        for name, (command, calls) in programs.items()
    }


def check_client(use_server: UseServer, server: StdioServer, calls: Sequence[ToolCall]) -> str:
    """Return what is wrong with the answers, or an empty string."""
    try:
        names, contents = use_server(server, calls)
    except subprocess.CalledProcessError as error:
        return f"{error}\n{error.stdout}{error.stderr}"
    # Clients raise errors of their own. Each is a failure to report, and the others still run.
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    for call, content in zip(calls, contents, strict=True):
        if call.tool not in names:
            return f"{call.tool} is not among the tools: {', '.join(names)}"
        if not (content and content.get(call.field)):
            return f"{call.tool} has no {call.field}: {content}"
    return ""


def main(names: Sequence[str]) -> int:
    if unknown_names := set(names) - set(CLIENTS):
        raise SystemExit(f"Unknown clients: {', '.join(sorted(unknown_names))}. Known: {', '.join(CLIENTS)}.")
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        servers = create_servers(Path(folder))
        try:
            for client in names:
                for name, (server, calls) in servers.items():
                    failure = check_client(CLIENTS[client], server, calls)
                    failures += bool(failure)
                    print(f"{'FAILED' if failure else 'passed'}  {client}, {name}")  # noqa: T201 - its report
                    if failure:
                        print(failure)  # noqa: T201 - its report
        finally:
            environment = {**os.environ, **servers["lineage-mcp"][0].environment}
            subprocess.run([*LINEAGE, "daemon", "stop"], env=environment, capture_output=True, check=False)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or tuple(CLIENTS)))
