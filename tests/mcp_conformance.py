"""Public MCP conformance scenarios, run against our servers over HTTP.

python -m tests.mcp_conformance [PROGRAM...]

PROGRAM is the command of the conformance program, by default `npx --yes @modelcontextprotocol/conformance`. It needs
Node 22, and is not part of the test suite. The exit code is 0 if all scenarios pass. HTTP is served only here; the
servers themselves use stdio.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import uvicorn
from mcp.server import MCPServer

from serve import config
from serve.backend import select_backend
from serve.mcp.lineage_server import create_lineage_server
from serve.mcp.mindmap_server import create_mindmap_server

PROGRAM: Final = ("npx", "--yes", "@modelcontextprotocol/conformance")
# The other scenarios need the tools, resources and prompts of a test server.
SCENARIOS: Final = (
    "server-initialize",
    "ping",
    "tools-list",
    "dns-rebinding-protection",
    "server-sse-multiple-streams",
)
# For a server with resources and a prompt.
EXTRA_SCENARIOS: Final = {"mindmap mcp": ("resources-list", "prompts-list")}


@contextmanager
def serve_http(server: MCPServer[Any]) -> Iterator[str]:
    """Serve the MCP server over HTTP; yields its URL."""
    web = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), port=0, log_level="error"))
    thread = threading.Thread(target=web.run, daemon=True)
    thread.start()
    while not web.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{web.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        web.should_exit = True
        thread.join()


def run_scenario(program: tuple[str, ...], url: str, scenario: str) -> bool:
    """Run and print one scenario; return whether it passed."""
    result = subprocess.run(
        [*program, "server", "--url", url, "--scenario", scenario],
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"{'passed' if result.returncode == 0 else 'FAILED'}  {scenario}")  # noqa: T201 - its report
    if result.returncode:
        print(result.stdout + result.stderr)  # noqa: T201 - its report
    return result.returncode == 0


def main(program: tuple[str, ...]) -> int:
    settings = config.load_settings()
    servers = {
        "lineage-mcp": create_lineage_server(select_backend(settings), settings.home, Path.cwd()),
        "mindmap mcp": create_mindmap_server(settings.maps_dir).server,
    }
    results = []
    for name, server in servers.items():
        print(name)  # noqa: T201 - its report
        with serve_http(server) as url:
            results += [
                run_scenario(program, url, scenario)
                for scenario in (*SCENARIOS, *EXTRA_SCENARIOS.get(name, ()))
            ]
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:]) or PROGRAM))
