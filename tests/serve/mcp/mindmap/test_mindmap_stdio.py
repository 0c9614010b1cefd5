"""`mindmap mcp` as a process: both protocols, several servers, disconnecting clients, invalid input."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from typing import Any

import pytest
from mcp.client import Client
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR

from mindmap.map_store import MapStore
from mindmap.tree import compute_progress
from tests.mindmap.sample_maps import assert_consistent, create_map, find_id
from tests.repos import Repo
from tests.serve.commands import list_loaded_packages
from tests.serve.mcp.clients import INITIALIZE_REQUEST, PROTOCOLS, extract_text, run_client
from tests.serve.mcp.mindmap.mindmap_clients import build_server_command, open_stdio_transport
from tests.serve.processes import use_default_signal_handler

# Longest time from the end of input to the exit of the process.
EXIT_SECONDS = 2.0


@pytest.mark.parametrize("mode", PROTOCOLS)
def test_life_of_a_map(store: MapStore, repo: Repo, mode: str) -> None:
    """With both protocols over stdio, a map is created, edited, read, and deleted after confirmation."""

    async def edit_and_delete_map(client: Client) -> None:
        async def call(name: str, **arguments: Any) -> Any:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, extract_text(result)
            assert json.loads(extract_text(result)) == result.structured_content
            return result.structured_content

        assert client.protocol_version == PROTOCOLS[mode]
        plan = {"label": "Parser", "type": "plan", "children": [{"label": "Lexer"}, {"label": "Grammar"}]}
        create_result = await call("create_mindmap", title="Work", workspacePath=str(repo.path), nodes=[plan])
        mindmap_id, (parser, lexer, grammar) = create_result["mindmapId"], create_result["ids"]
        assert (
            create_result["watching"]
            and create_result["hint"] == ""
            and "mindmap viewer" in create_result["viewer"]
        )
        update_result = await call(
            "update_nodes", mindmapId=mindmap_id, updates=[{"id": lexer, "status": "in_progress"}]
        )
        assert (update_result["activeTask"], update_result["progress"]) == (
            f"Lexer {{{lexer}}}",
            "0 of 3 done (0 %)",
        )
        (why,) = (
            await call("add_nodes", mindmapId=mindmap_id, nodes=[{"label": "By hand", "type": "decision"}])
        )["ids"]
        links = [
            {"from": why, "to": parser, "label": "shapes"},
            {"from": lexer, "to": grammar, "style": "animated"},
        ]
        await call("link_nodes", mindmapId=mindmap_id, add=links)
        await call("link_nodes", mindmapId=mindmap_id, remove=[{"from": lexer, "to": grammar}])
        await call("move_nodes", mindmapId=mindmap_id, nodeIds=[why], parentId=parser, position=0)
        change = {"kind": "rename", "symbol": "lex", "previousSymbol": "scan"}
        touch_result = await call(
            "log_file_touch", mindmapId=mindmap_id, path="src/lexer.py", changes=[change], summary="Named"
        )
        assert (touch_result["nodeId"], touch_result["synced"]) == (lexer, 1)
        repo.write("a.py", "two\n")
        sync_result = await call("sync_git_status", mindmapId=mindmap_id)
        assert (sync_result["synced"], sync_result["node"], sync_result["watching"]) == (1, "Lexer", True)
        await call("note_activity", mindmapId=mindmap_id, message="Tests pass", nodeId=lexer)
        await call("remove_nodes", mindmapId=mindmap_id, nodeIds=[grammar])
        map_view = await call("get_mindmap", mindmapId=mindmap_id)
        assert map_view["outline"].splitlines() == [
            "- Work {root}",
            f"  - [ ] Parser {{{parser}}} - plan",
            f"    - (decision) By hand {{{why}}}",
            f"    - [~] Lexer {{{lexer}}} - 2 files",
        ]
        assert len(map_view["links"]) == 1
        assert map_view["activity"][0].endswith("Removed 'Grammar'")
        lexer_document = (await call("get_mindmap", mindmapId=mindmap_id, nodeId=lexer, full=True))[
            "document"
        ]
        assert [touch["path"] for touch in lexer_document["nodes"][0]["files"]] == ["src/lexer.py", "a.py"]
        map_list = await call("list_mindmaps", query="lexer", workspacePath=str(repo.path))
        assert [entry["id"] for entry in map_list["maps"]] == [mindmap_id]
        assert (await client.call_tool("delete_mindmap", {"mindmapId": mindmap_id})).is_error
        assert_consistent(store.read(mindmap_id))
        await call("delete_mindmap", mindmapId=mindmap_id, confirm=True)
        assert (await call("list_mindmaps"))["maps"] == []

    run_client(open_stdio_transport(store), edit_and_delete_map, mode)


def exchange(process: subprocess.Popen[bytes], *messages: Any) -> list[Any]:
    """Send raw lines, and return the answer to each."""
    assert process.stdin is not None and process.stdout is not None
    answers = []
    for message in messages:
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        process.stdin.write(line + b"\n")
        process.stdin.flush()
        answers.append(json.loads(process.stdout.readline()))
    return answers


def start_server(store: MapStore) -> subprocess.Popen[bytes]:
    """Start and initialize a server process."""
    command, environment = build_server_command(store)
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    exchange(process, INITIALIZE_REQUEST)
    assert process.stdin is not None
    process.stdin.write(
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode() + b"\n"
    )
    return process


def create_request(request_id: int, method: str, **parameters: Any) -> dict[str, Any]:
    """Return a JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": parameters}


@pytest.mark.parametrize("signal_number", [None, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_server_exits_with_its_client(
    store: MapStore, repo: Repo, signal_number: signal.Signals | None
) -> None:
    """At the end of input or on a signal the process records the last changes and exits soon."""
    with use_default_signal_handler(signal.SIGHUP):
        process = start_server(store)
    arguments = {
        "title": "Work",
        "workspacePath": str(repo.path),
        "nodes": [{"label": "Task", "status": "in_progress"}],
    }
    (create_result,) = exchange(
        process, create_request(2, "tools/call", name="create_mindmap", arguments=arguments)
    )
    repo.write("a.py", "last\n")
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    stopped_at = time.monotonic()
    process.stdin.close() if signal_number is None else process.send_signal(signal_number)
    assert process.wait(timeout=20) == (0 if signal_number is None else 128 + signal_number)
    assert time.monotonic() - stopped_at <= EXIT_SECONDS
    assert process.stdout.read() == b""
    document = store.read(create_result["result"]["structuredContent"]["mindmapId"])
    assert [touch.path for touch in document.nodes[find_id(document, "Task")].files] == ["a.py"]
    for pipe in (process.stdin, process.stdout, process.stderr):
        pipe.close()


@pytest.mark.parametrize("message_id", ["1.5", "true", "{}", "null"])
def test_invalid_id_is_an_error(store: MapStore, message_id: str) -> None:
    """A request whose id the protocol does not allow gets an error instead of no answer."""
    process = start_server(store)
    request = f'{{"jsonrpc":"2.0","id":{message_id},"method":"ping"}}'
    unknown_notification = b'{"jsonrpc":"2.0","method":"exit"}'  # has no answer
    next_request = json.dumps(create_request(5, "ping")).encode()
    error, ping = exchange(process, request.encode(), unknown_notification + b"\n" + next_request)
    assert (error["id"], error["error"]["code"], ping["id"]) == (None, INVALID_REQUEST, 5)
    process.communicate(timeout=20)


def test_protocol_errors(store: MapStore) -> None:
    """Invalid requests get the protocol's errors, and the next request is answered normally."""
    process = start_server(store)
    deep = (
        b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"add_nodes","arguments":{"nodes":'
        + b"[" * 10_000
    )
    too_deep, invalid, parameters, quoted, nested, version, no_version, unknown, tool, ping = exchange(
        process,
        deep + b"]" * 10_000 + b"}}}",
        b"nonsense",
        b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": []}',
        b'{"jsonrpc": "2.0", "id": 13, "method": "tools/call", "params": "{\\"id\\": 14, "}',
        b'{"jsonrpc": "2.0", "method": {"id": 16}, "error": {"id": 17}, "id": 18}',
        b'{"jsonrpc": "1.0", "id": "eight", "method": "ping"}',
        b'{"jsonrpc": "", "id": 15, "method": "ping"}',
        create_request(3, "no/such"),
        create_request(4, "tools/call", name="no_such", arguments={}),
        b"\n \r\n" + json.dumps(create_request(5, "ping")).encode(),
    )
    assert [answer["id"] for answer in (too_deep, invalid, parameters)] == [9, None, 7]
    assert [answer["id"] for answer in (quoted, nested, version, no_version)] == [13, 18, "eight", 15]
    assert "nest it less deeply" in too_deep["error"]["message"]
    assert too_deep["error"]["code"] == invalid["error"]["code"] == PARSE_ERROR
    assert unknown["error"]["code"] == METHOD_NOT_FOUND
    assert tool["result"]["isError"] or tool["error"]["code"] == INVALID_PARAMS
    assert ping["id"] == 5
    process.communicate(timeout=20)


def test_several_servers_write_one_map(store: MapStore) -> None:
    """Several servers write one map at the same time, and no edit is lost."""
    document = create_map()
    store.create(document)
    processes = [start_server(store) for _ in range(3)]
    ids = []
    for number in range(10):
        for process in processes:
            arguments = {"mindmapId": document.id, "nodes": [{"label": f"Step {number}"}]}
            (answer,) = exchange(
                process, create_request(10 + number, "tools/call", name="add_nodes", arguments=arguments)
            )
            ids += answer["result"]["structuredContent"]["ids"]
    for process in processes:
        process.communicate(timeout=20)
    assert len(set(ids)) == 30
    assert set(ids) < set(store.read(document.id).nodes)
    assert compute_progress(store.read(document.id)).total == 30


def test_server_imports_no_heavy_package() -> None:
    """The server imports no database, model, parser or web server, and no texts of answers about history."""
    heavy = "duckdb numpy pyarrow onnxruntime tokenizers pygit2 tree_sitter tornado polars"
    check = "assert 'serve.mcp.answer_text' not in sys.modules"
    loaded = list_loaded_packages(f"import sys, serve.mcp.mindmap_server\n{check}")
    assert not loaded & set(heavy.split())
