"""`mindmap mcp` as a process: by either protocol, beside its like, when its client leaves or talks nonsense."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from typing import Any

import pytest
from mcp.client import Client
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND, PARSE_ERROR

from mindmap.map_store import Maps
from mindmap.tree import progress
from tests.mindmap.sample_maps import a_map, check, id_of
from tests.repos import Repo
from tests.serve.mcp.clients import PROTOCOLS, ask, text
from tests.serve.mcp.mindmap.mindmap_clients import over_stdio, program
from tests.serve.processes import heard

# Of an end of input, until the process is gone.
END_SECONDS = 2.0


@pytest.mark.parametrize("mode", PROTOCOLS)
def test_a_map_from_beginning_to_end(maps: Maps, repo: Repo, mode: str) -> None:
    """Over stdio, by either protocol: a map is made, worked on, read, and deleted when that is confirmed."""

    async def steps(client: Client) -> None:
        async def done(name: str, **arguments: Any) -> Any:
            answer = await client.call_tool(name, arguments)
            assert not answer.is_error, text(answer)
            assert json.loads(text(answer)) == answer.structured_content
            return answer.structured_content

        assert client.protocol_version == PROTOCOLS[mode]
        plan = {"label": "Parser", "type": "plan", "children": [{"label": "Lexer"}, {"label": "Grammar"}]}
        made = await done("create_mindmap", title="Work", workspacePath=str(repo.path), nodes=[plan])
        key, (parser, lexer, grammar) = made["mindmapId"], made["ids"]
        assert made["watching"] and made["hint"] == "" and "mindmap viewer" in made["viewer"]
        began = await done("update_nodes", mindmapId=key, updates=[{"id": lexer, "status": "in_progress"}])
        assert (began["activeTask"], began["progress"]) == (f"Lexer {{{lexer}}}", "0 of 3 done (0 %)")
        (why,) = (await done("add_nodes", mindmapId=key, nodes=[{"label": "By hand", "type": "decision"}]))[
            "ids"
        ]
        links = [
            {"from": why, "to": parser, "label": "shapes"},
            {"from": lexer, "to": grammar, "style": "animated"},
        ]
        await done("link_nodes", mindmapId=key, add=links)
        await done("link_nodes", mindmapId=key, remove=[{"from": lexer, "to": grammar}])
        await done("move_nodes", mindmapId=key, nodeIds=[why], parentId=parser, position=0)
        change = {"kind": "rename", "symbol": "lex", "previousSymbol": "scan"}
        touched = await done(
            "log_file_touch", mindmapId=key, path="src/lexer.py", changes=[change], summary="Named"
        )
        assert (touched["nodeId"], touched["synced"]) == (lexer, 1)
        repo.write("a.py", "two\n")
        synced = await done("sync_git_status", mindmapId=key)
        assert (synced["synced"], synced["node"], synced["watching"]) == (1, "Lexer", True)
        await done("note_activity", mindmapId=key, message="Tests pass", nodeId=lexer)
        await done("remove_nodes", mindmapId=key, nodeIds=[grammar])
        read = await done("get_mindmap", mindmapId=key)
        assert read["outline"].splitlines() == [
            "- Work {root}",
            f"  - [ ] Parser {{{parser}}} - plan",
            f"    - (decision) By hand {{{why}}}",
            f"    - [~] Lexer {{{lexer}}} - 2 files",
        ]
        assert len(read["links"]) == 1
        assert read["activity"][0].endswith("Removed 'Grammar': 1 node, 0 links")
        whole = (await done("get_mindmap", mindmapId=key, nodeId=lexer, full=True))["document"]
        assert [touch["path"] for touch in whole["nodes"][0]["files"]] == ["src/lexer.py", "a.py"]
        listed = await done("list_mindmaps", query="lexer", workspacePath=str(repo.path))
        assert [line["id"] for line in listed["maps"]] == [key]
        assert (await client.call_tool("delete_mindmap", {"mindmapId": key})).is_error
        check(maps.read(key))
        await done("delete_mindmap", mindmapId=key, confirm=True)
        assert (await done("list_mindmaps"))["maps"] == []

    ask(over_stdio(maps), steps, mode)


def exchange(process: subprocess.Popen[bytes], *messages: Any) -> list[Any]:
    """The answers to raw lines, one for each."""
    assert process.stdin is not None and process.stdout is not None
    answers = []
    for message in messages:
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        process.stdin.write(line + b"\n")
        process.stdin.flush()
        answers.append(json.loads(process.stdout.readline()))
    return answers


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}


def started(maps: Maps) -> subprocess.Popen[bytes]:
    command, environment = program(maps)
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    exchange(process, HELLO)
    assert process.stdin is not None
    process.stdin.write(
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode() + b"\n"
    )
    return process


def asking(number: int, method: str, **parameters: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ends_with_its_client(maps: Maps, repo: Repo, number: signal.Signals | None) -> None:
    """At the end of input or on a signal the process is gone soon, though it watches folders; the last is recorded."""
    with heard(signal.SIGHUP):
        process = started(maps)
    arguments = {
        "title": "Work",
        "workspacePath": str(repo.path),
        "nodes": [{"label": "Task", "status": "in_progress"}],
    }
    (made,) = exchange(process, asking(2, "tools/call", name="create_mindmap", arguments=arguments))
    repo.write("a.py", "last\n")
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    began = time.monotonic()
    process.stdin.close() if number is None else process.send_signal(number)
    assert process.wait(timeout=20) == (0 if number is None else 128 + number)
    assert time.monotonic() - began <= END_SECONDS
    assert process.stdout.read() == b""
    document = maps.read(made["result"]["structuredContent"]["mindmapId"])
    assert [touch.path for touch in document.nodes[id_of(document, "Task")].files] == ["a.py"]
    for pipe in (process.stdin, process.stdout, process.stderr):
        pipe.close()


def test_protocol_errors(maps: Maps) -> None:
    """What is no request is answered by the protocol's errors, and the next request as if nothing had been."""
    process = started(maps)
    deep = (
        b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"add_nodes","arguments":{"nodes":'
        + b"[" * 10_000
    )
    refused, broken, unknown, tool, ping = exchange(
        process,
        deep + b"]" * 10_000 + b"}}}",
        b"nonsense",
        asking(3, "no/such"),
        asking(4, "tools/call", name="no_such", arguments={}),
        asking(5, "ping"),
    )
    assert (refused["id"], broken["id"]) == (9, None)
    assert "Nest it less deeply" in refused["error"]["message"]
    assert refused["error"]["code"] == broken["error"]["code"] == PARSE_ERROR
    assert unknown["error"]["code"] == METHOD_NOT_FOUND
    assert tool["result"]["isError"] or tool["error"]["code"] == INVALID_PARAMS
    assert ping["id"] == 5
    process.communicate(timeout=20)


def test_two_servers_one_map(maps: Maps) -> None:
    """Several sessions write one map at once, and every answer was true."""
    document = a_map()
    maps.create(document)
    processes = [started(maps) for _ in range(3)]
    told = []
    for number in range(10):
        for process in processes:
            arguments = {"mindmapId": document.id, "nodes": [{"label": f"Step {number}"}]}
            (answer,) = exchange(
                process, asking(10 + number, "tools/call", name="add_nodes", arguments=arguments)
            )
            told += answer["result"]["structuredContent"]["ids"]
    for process in processes:
        process.communicate(timeout=20)
    assert len(set(told)) == 30
    assert set(told) < set(maps.read(document.id).nodes)
    assert progress(maps.read(document.id)).total == 30
