"""`lineage-mcp` as a program on stdio: both protocol versions, daemon, invalid input, exit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.subscriptions import ListenNotSupportedError
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from serve.backend import InProcessBackend
from serve.mcp.lineage_server import create_lineage_server
from serve.mcp.mindmap_server import create_mindmap_server
from serve.mcp.stdio import _find_error
from tests.repos import Repo
from tests.serve.commands import list_loaded_packages
from tests.serve.daemon.daemons import build_environment, create_client
from tests.serve.mcp.clients import PROTOCOLS, call_tool, extract_structured_content, run_client
from tests.serve.sample_index import build_index


def connect_to_program(repo: Repo, home: Path, *arguments: str, **variables: str) -> Any:
    """Return a transport to `lineage-mcp`, which runs in the repository or, with arguments, in its parent directory."""
    return stdio_client(
        StdioServerParameters(
            command=sys.executable,
            args=["-m", "serve.mcp.relay", *arguments],
            cwd=repo.path.parent if arguments else repo.path,
            env=build_environment(home, **variables),
        )
    )


@pytest.mark.parametrize("mode", PROTOCOLS)
def test_answers_through_the_daemon(repo: Repo, home: Path, mode: str) -> None:
    """The daemon answers about the repository in the program's working directory, in both protocols."""
    build_index(repo, home)

    async def call_both_tools(client: Client) -> Any:
        assert client.protocol_version == PROTOCOLS[mode]
        find_result = await client.call_tool("find_pattern", {"query": "timeout", "no_rerank": True})
        explain_result = await client.call_tool("explain_change", {"file": "src/tcp.py"})
        return find_result, explain_result

    find_result, explain_result = run_client(connect_to_program(repo, home), call_both_tools, mode)
    assert {hit["file_path"] for hit in extract_structured_content(find_result)["hits"]} == {
        "src/tcp.py",
        "docs/ü.md",
    }
    assert [hit["blame_lines"] for hit in extract_structured_content(explain_result)["hits"]] == [[1, 2]]
    report = create_client(home).fetch_status()
    assert report is not None
    assert report.answered == 2


@pytest.mark.parametrize("mode", PROTOCOLS)
def test_subscriptions_are_not_advertised(tmp_path: Path, home: Path, mode: str) -> None:
    """Both servers advertise no notifications of changes, which they do not send, and refuse subscriptions."""

    async def subscribe(client: Client) -> Any:
        assert client.protocol_version == PROTOCOLS[mode]
        with pytest.raises((MCPError, ListenNotSupportedError)) as error:
            async with client.listen(tools_list_changed=True, resource_subscriptions=["mindmap://maps"]):
                pass
        code = error.value.code if isinstance(error.value, MCPError) else None
        assert code == (METHOD_NOT_FOUND if mode == "auto" else None)
        return client.server_capabilities.model_dump(exclude_none=True)

    lineage_server = create_lineage_server(InProcessBackend(home), home, tmp_path)
    assert run_client(lineage_server, subscribe, mode) == {"tools": {"list_changed": False}}
    with closing(create_mindmap_server(tmp_path / "maps")) as mindmap_server:
        assert run_client(mindmap_server.server, subscribe, mode) == {
            "prompts": {"list_changed": False},
            "resources": {"subscribe": False, "list_changed": False},
            "tools": {"list_changed": False},
        }


def test_answers_without_the_daemon(repo: Repo, home: Path) -> None:
    """With LINEAGE_NO_DAEMON=1 the server answers itself, with the same content."""
    build_index(repo, home)
    with_daemon = call_tool(connect_to_program(repo, home), "find_pattern", query="timeout")
    create_client(home).stop()
    assert (
        call_tool(connect_to_program(repo, home, LINEAGE_NO_DAEMON="1"), "find_pattern", query="timeout")
        == with_daemon
    )
    assert create_client(home).fetch_status() is None


@pytest.mark.parametrize("variables", [{}, {"LINEAGE_NO_DAEMON": "1"}])
def test_path_argument(repo: Repo, home: Path, variables: dict[str, str]) -> None:
    """With a path, the server answers about the repository there, with and without the daemon."""
    server = connect_to_program(repo, home, repo.path.name, **variables)
    answer = call_tool(server, "explain_change", file="src/tcp.py")
    assert extract_structured_content(answer)["hits"]


@pytest.mark.parametrize(("way", "mode"), [("stopped", "auto"), ("killed", "legacy")])
def test_session_outlives_the_daemon(repo: Repo, home: Path, way: str, mode: str) -> None:
    """After the daemon was stopped or killed, the client's next calls are answered by another one."""

    async def call_before_and_after(client: Client) -> Any:
        before = await client.list_tools()
        daemon_client = create_client(home)
        report = daemon_client.fetch_status()
        assert report is not None and report.sessions == 1
        if way == "killed":
            os.kill(report.pid, signal.SIGKILL)
        else:
            daemon_client.stop()
        after = await client.list_tools()
        next_report = daemon_client.fetch_status()
        assert next_report is not None and next_report.pid != report.pid
        return before == after

    assert run_client(connect_to_program(repo, home), call_before_and_after, mode)


def test_answers_if_the_daemon_cannot_be_started(repo: Repo, home: Path) -> None:
    """If a file is in the place of the daemon's directory, the server answers itself."""
    build_index(repo, home)
    (home / "daemon").write_text("")
    answer = call_tool(connect_to_program(repo, home), "explain_change", file="src/tcp.py")
    assert extract_structured_content(answer)["hits"]
    (home / "daemon").unlink()


def test_answers_while_the_daemon_is_suspended(repo: Repo, home: Path) -> None:
    """A session whose daemon is suspended is continued by a server without it."""
    with start_server(repo, home) as server:
        initialize_session(server)
        report = create_client(home).fetch_status()
        assert report is not None
        os.kill(report.pid, signal.SIGSTOP)
        send_message(server, "tools/list", 2)
        assert server.stdin is not None and server.stdout is not None
        assert len(json.loads(server.stdout.readline())["result"]["tools"]) == 4
        server.stdin.close()
    os.kill(report.pid, signal.SIGKILL)


def start_server(
    repo: Repo, home: Path, stderr: Any = subprocess.DEVNULL, **variables: str
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "serve.mcp.relay"],
        env=build_environment(home, **variables),
        cwd=repo.path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )


def send_message(
    server: subprocess.Popen[bytes], method: str, number: int | None = None, **parameters: Any
) -> None:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": parameters}
    if number is not None:
        message["id"] = number
    assert server.stdin is not None
    server.stdin.write(json.dumps(message).encode() + b"\n")
    server.stdin.flush()


def initialize_session(server: subprocess.Popen[bytes]) -> None:
    client = {"name": "test", "version": "1"}
    send_message(server, "initialize", 1, protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
    assert server.stdout is not None
    assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"] == "lineage"
    send_message(server, "notifications/initialized")


def test_server_exits_when_the_client_disconnects(repo: Repo, home: Path) -> None:
    """The server exits as soon as stdin is closed, also while it waits for the daemon."""
    build_index(repo, home)
    call_tool(connect_to_program(repo, home), "find_pattern", query="timeout")
    report = create_client(home).fetch_status()
    assert report is not None
    with start_server(repo, home) as server:
        initialize_session(server)
        os.kill(report.pid, signal.SIGSTOP)
        send_message(server, "tools/call", 2, name="find_pattern", arguments={"query": "timeout"})
        time.sleep(0.3)
        assert server.poll() is None
        assert server.stdin is not None
        server.stdin.close()
        closed_at = time.monotonic()
        assert server.wait(timeout=10) == 0
        assert time.monotonic() - closed_at < 2
    os.kill(report.pid, signal.SIGKILL)


def test_server_survives_a_killed_daemon(repo: Repo, home: Path) -> None:
    """If the daemon is killed during a request, the server gets the answer from another one."""
    build_index(repo, home)
    with start_server(repo, home) as server:
        initialize_session(server)
        send_message(server, "tools/call", 2, name="find_pattern", arguments={"query": "timeout"})
        assert server.stdin is not None and server.stdout is not None
        first_answer = json.loads(server.stdout.readline())["result"]["structuredContent"]
        report = create_client(home).fetch_status()
        assert report is not None
        os.kill(report.pid, signal.SIGSTOP)
        send_message(server, "tools/call", 3, name="find_pattern", arguments={"query": "timeout"})
        time.sleep(0.3)
        os.kill(report.pid, signal.SIGKILL)
        assert json.loads(server.stdout.readline())["result"]["structuredContent"] == first_answer
        server.stdin.close()


def test_server_exits_on_a_signal(repo: Repo, home: Path) -> None:
    """A signal ends the server at once, with the exit code that a shell reports for it."""
    with start_server(repo, home) as server:
        initialize_session(server)
        server.terminate()
        assert server.wait(timeout=10) == 143
        assert server.stdin is not None
        server.stdin.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_server_works_with_unwritable_stderr(repo: Repo, home: Path) -> None:
    """The server returns errors to the client if stderr cannot be written."""
    with Path("/dev/full").open("w") as full, start_server(repo, home, stderr=full) as server:
        initialize_session(server)
        assert server.stdin is not None and server.stdout is not None
        for number in (2, 3):
            send_message(server, "tools/call", number, name="find_pattern", arguments={"wrong": 1})
            assert json.loads(server.stdout.readline())["result"]["isError"]
        server.stdin.close()


def test_invalid_input_lines_do_not_stop_the_server(repo: Repo, home: Path) -> None:
    """Lines that are no messages do not stop the server, and stdout has only protocol messages."""
    with start_server(repo, home) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        initialize_session(server)
        server.stdin.write(b'nonsense\n{}\n[1]\n\xff\xfe\n{"jsonrpc":"2.0","id":90}\n')
        send_message(server, "tools/list", 2)
        server.stdin.close()
        messages = [json.loads(line) for line in server.stdout.read().splitlines()]
        assert all(message["jsonrpc"] == "2.0" for message in messages)
        assert any(message["id"] == 90 and "error" in message for message in messages)


@pytest.mark.parametrize("variables", [{}, {"LINEAGE_NO_DAEMON": "1"}])
def test_carriage_return_in_a_message(repo: Repo, home: Path, variables: dict[str, str]) -> None:
    """A carriage return is white space in JSON and ends no message, also at the end of a line."""
    with start_server(repo, home, **variables) as server:
        initialize_session(server)
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(b'{"jsonrpc": "2.0",\r"id": 2, "method": "tools/list"}\r\n')
        server.stdin.flush()
        assert len(json.loads(server.stdout.readline())["result"]["tools"]) == 4
        server.stdin.close()
        assert server.stdout.read() == b""


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ('{"id":57,"method":"ping"}', (57, INVALID_REQUEST, "request: `jsonrpc`: Field required.")),
        (
            '{"jsonrpc":"1.0","id":"a","method":"ping"}',
            ("a", INVALID_REQUEST, "request: `jsonrpc`: Input should be"),
        ),
        ('{"jsonrpc":"2.0","id":58,"method":5}', (58, INVALID_REQUEST, "request: `method`: Input should be")),
        (
            '{"jsonrpc":"2.0","id":59,"method":"ping","params":[1]}',
            (59, INVALID_REQUEST, "request: `params`: "),
        ),
        ("[]", (None, INVALID_REQUEST, "request: Input should be an object.")),
        ("null", (None, INVALID_REQUEST, "request: Input should be an object.")),
        ('{"jsonrpc":"2.0","id":60,', (60, PARSE_ERROR, "Correct its JSON")),
        ('\ufeff{"jsonrpc":"2.0","id":61,"method":"ping"}', (61, PARSE_ERROR, "Correct its JSON")),
    ],
)
def test_invalid_message_is_described(line: str, answer: tuple[object, int, str]) -> None:
    """The error for an invalid message has its id, and says whether its JSON or which field is invalid."""
    try:
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        response = _find_error(error)
    assert response is not None
    assert (response.id, response.error.code) == answer[:2] and answer[2] in response.error.message


def test_invalid_parameters_are_described(tmp_path: Path, home: Path) -> None:
    """The error for parameters that do not fit the protocol names the first wrong one."""

    async def call(client: Client) -> Any:
        with pytest.raises(MCPError) as error:
            await client.session._dispatcher.send_raw_request(  # noqa: SLF001
                "tools/call", {"name": "find_pattern", "arguments": [1]}
            )
        return error.value.error

    error = run_client(create_lineage_server(InProcessBackend(home), home, tmp_path), call, "legacy")
    assert (error.code, error.message) == (
        INVALID_PARAMS,
        "Invalid parameters of tools/call: `params.arguments`: Input should be a valid dictionary.",
    )


def test_server_imports_no_heavy_package() -> None:
    """The server in its own process imports no database, model or parser before the first call."""
    heavy = "duckdb numpy pyarrow onnxruntime tokenizers pygit2 tree_sitter tornado polars"
    assert not list_loaded_packages("import serve.mcp.lineage_server") & set(heavy.split())
