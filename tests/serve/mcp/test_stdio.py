"""`lineage-mcp` as a program: over stdio by the present and the previous protocol, through the daemon, to its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.repos import Repo
from tests.serve.commands import loaded_by
from tests.serve.daemon.daemons import environment, remote
from tests.serve.mcp.clients import PROTOCOLS, ask, call, said
from tests.serve.sample_index import index


def program(repo: Repo, home: Path, **more: str) -> Any:
    command = [sys.executable, "-m", "serve.mcp.lineage_server"]
    return stdio_client(
        StdioServerParameters(
            command=command[0], args=command[1:], cwd=repo.path, env=environment(home, **more)
        )
    )


@pytest.mark.parametrize("mode", PROTOCOLS)
def test_over_stdio(repo: Repo, place: Path, mode: str) -> None:
    """Started by a client in a repository, it answers about that repository, through the daemon, by either protocol."""
    index(repo, place)

    async def steps(client: Client) -> Any:
        assert client.protocol_version == PROTOCOLS[mode]
        found = await client.call_tool("find_pattern", {"query": "timeout", "no_rerank": True})
        explained = await client.call_tool("explain_change", {"file": "src/tcp.py"})
        return found, explained

    found, explained = ask(program(repo, place), steps, mode)
    assert {hit["file_path"] for hit in said(found)["hits"]} == {"src/tcp.py", "docs/ü.md"}
    assert [hit["blame_lines"] for hit in said(explained)["hits"]] == [[1, 2]]
    report = remote(place).report()
    assert report is not None
    assert report.answered == 2


def test_without_the_daemon(repo: Repo, place: Path) -> None:
    """LINEAGE_NO_DAEMON=1 answers in the server's own process, with the same content."""
    index(repo, place)
    shared = call(program(repo, place), "find_pattern", query="timeout")
    remote(place).stop()
    assert call(program(repo, place, LINEAGE_NO_DAEMON="1"), "find_pattern", query="timeout") == shared
    assert remote(place).report() is None


def started(repo: Repo, home: Path, stderr: Any = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "serve.mcp.lineage_server"],
        env=environment(home),
        cwd=repo.path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )


def send(server: subprocess.Popen[bytes], method: str, number: int | None = None, **parameters: Any) -> None:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": parameters}
    if number is not None:
        message["id"] = number
    assert server.stdin is not None
    server.stdin.write(json.dumps(message).encode() + b"\n")
    server.stdin.flush()


def begin(server: subprocess.Popen[bytes]) -> None:
    client = {"name": "test", "version": "1"}
    send(server, "initialize", 1, protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
    assert server.stdout is not None
    assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"] == "lineage"
    send(server, "notifications/initialized")


def test_ends_with_its_client(repo: Repo, place: Path) -> None:
    """Its input closed, it ends at once: also while it waits for an answer that does not come."""
    index(repo, place)
    call(program(repo, place), "find_pattern", query="timeout")
    report = remote(place).report()
    assert report is not None
    with started(repo, place) as server:
        begin(server)
        os.kill(report.pid, signal.SIGSTOP)
        send(server, "tools/call", 2, name="find_pattern", arguments={"query": "timeout"})
        time.sleep(0.3)
        assert server.poll() is None
        assert server.stdin is not None
        server.stdin.close()
        closed = time.monotonic()
        assert server.wait(timeout=10) == 0
        assert time.monotonic() - closed < 2
    os.kill(report.pid, signal.SIGKILL)


def test_outlives_the_daemon(repo: Repo, place: Path) -> None:
    """The daemon killed in the middle of a question, the server has another answer it."""
    index(repo, place)
    with started(repo, place) as server:
        begin(server)
        send(server, "tools/call", 2, name="find_pattern", arguments={"query": "timeout"})
        assert server.stdin is not None and server.stdout is not None
        first = json.loads(server.stdout.readline())["result"]["structuredContent"]
        report = remote(place).report()
        assert report is not None
        os.kill(report.pid, signal.SIGSTOP)
        send(server, "tools/call", 3, name="find_pattern", arguments={"query": "timeout"})
        time.sleep(0.3)
        os.kill(report.pid, signal.SIGKILL)
        assert json.loads(server.stdout.readline())["result"]["structuredContent"] == first
        server.stdin.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_log_that_cannot_be_written(repo: Repo, place: Path) -> None:
    """Errors are answered though stderr takes nothing."""
    with Path("/dev/full").open("w") as full, started(repo, place, stderr=full) as server:
        begin(server)
        assert server.stdin is not None and server.stdout is not None
        for number in (2, 3):
            send(server, "tools/call", number, name="find_pattern", arguments={"wrong": 1})
            assert json.loads(server.stdout.readline())["result"]["isError"]
        server.stdin.close()


def test_nonsense_on_its_input(repo: Repo, place: Path) -> None:
    """Lines that are no messages are survived, and standard output carries the protocol only."""
    with started(repo, place) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        begin(server)
        server.stdin.write(b"nonsense\n{}\n[1]\n\xff\xfe\n")
        send(server, "tools/list", 2)
        server.stdin.close()
        messages = [json.loads(line) for line in server.stdout.read().splitlines()]
        assert all(message["jsonrpc"] == "2.0" for message in messages)


def test_light_server() -> None:
    """The server itself loads no database, model or parser: those are the daemon's."""
    heavy = "duckdb numpy pyarrow onnxruntime tokenizers pygit2 tree_sitter tornado polars"
    assert not loaded_by("import serve.mcp.lineage_server") & set(heavy.split())
