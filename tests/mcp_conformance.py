"""The public MCP conformance scenarios that fit our servers, run against each over HTTP, which only this file serves.

python -m tests.mcp_conformance [PROGRAM...]

PROGRAM is how the conformance program is started; without it, `npx --yes @modelcontextprotocol/conformance`. It needs
Node 22 or newer, which the tests do not have: so this is a step of its own. The exit code is 0 when all pass.
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
from serve.backend import answering
from serve.mcp.lineage_server import lineage_server
from serve.mcp.mindmap_server import mindmap_server

PROGRAM: Final = ("npx", "--yes", "@modelcontextprotocol/conformance")
# The others want tools, resources and prompts of their own that a server for testing would have.
SCENARIOS: Final = (
    "server-initialize",
    "ping",
    "tools-list",
    "dns-rebinding-protection",
    "server-sse-multiple-streams",
)
# Of a server that has resources and a prompt.
ITS_OWN: Final = {"mindmap mcp": ("resources-list", "prompts-list")}


@contextmanager
def served(server: MCPServer[Any]) -> Iterator[str]:
    """The server's address while it is served over HTTP."""
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


def passes(program: tuple[str, ...], url: str, scenario: str) -> bool:
    done = subprocess.run(
        [*program, "server", "--url", url, "--scenario", scenario],
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"{'passed' if done.returncode == 0 else 'FAILED'}  {scenario}")  # noqa: T201 - its report
    if done.returncode:
        print(done.stdout + done.stderr)  # noqa: T201 - its report
    return done.returncode == 0


def main(program: tuple[str, ...]) -> int:
    said = config.read()
    servers = {
        "lineage-mcp": lineage_server(answering(said), Path.cwd()),
        "mindmap mcp": mindmap_server(said.maps).server,
    }
    results = []
    for name, server in servers.items():
        print(name)  # noqa: T201 - its report
        with served(server) as url:
            results += [passes(program, url, scenario) for scenario in (*SCENARIOS, *ITS_OWN.get(name, ()))]
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:]) or PROGRAM))
