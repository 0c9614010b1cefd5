"""`mindmap mcp` as agents meet it: in memory and over stdio, by the present and the previous protocol."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND, PARSE_ERROR, TextContent, TextResourceContents

import serve
from mindmap.document import encode
from mindmap.maps import Maps
from mindmap.progress import progress
from serve.maps.server import Serving, mindmap_server
from serve.viewer import announcing
from tests.mindmap.maps import a_map, check, id_of
from tests.repos import Repo
from tests.serve.mcp.test_lineage import PROTOCOLS, ask, text

ROOT = Path(serve.__file__).parent.parent
# An agent reads all schemas before its first call; at four characters a token.
MOST_TOKENS = 4_000
# Of an end of input, until the process is gone.
END_SECONDS = 2.0


@pytest.fixture
def maps(tmp_path: Path) -> Maps:
    return Maps(tmp_path / "maps")


@pytest.fixture
def serving(maps: Maps) -> Iterator[Serving]:
    serving = mindmap_server(maps.path)
    yield serving
    serving.end()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "one\n", "Begin")
    return repo


def program(maps: Maps) -> tuple[list[str], dict[str, str]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MINDMAP_DATA_DIR": str(maps.path)}
    return [sys.executable, "-m", "serve.maps.cli", "mcp"], environment


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


def test_tools_describe_themselves(serving: Serving) -> None:
    """Twelve tools at most, all four hints on each, every schema closed, and few tokens for all of them."""

    async def steps(client: Client) -> Any:
        assert "in_progress" in (client.instructions or "")
        return (await client.list_tools()).tools

    listed = ask(serving.server, steps)
    names = [tool.name for tool in listed]
    assert (
        names[0] == "create_mindmap"
        and {"sync_git_status", "log_file_touch"} < set(names)
        and len(names) <= 12
    )
    for tool in listed:
        hints = tool.annotations.model_dump(exclude={"title"})
        assert len(hints) == 4 and None not in hints.values()
        assert hints["read_only_hint"] == (tool.name in {"list_mindmaps", "get_mindmap"})
        assert hints["destructive_hint"] == (tool.name in {"remove_nodes", "link_nodes", "delete_mindmap"})
        assert tool.description and tool.title and tool.output_schema
        assert tool.input_schema["additionalProperties"] is False
    written = json.dumps([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed])
    assert len(written) / 4 <= MOST_TOKENS


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        (
            "get_mindmap",
            {"id": "mm_1"},
            r"`id`: there is no such argument.*Its arguments are `mindmapId`, `nodeId`",
        ),
        ("get_mindmap", {}, "`mindmapId`: is required"),
        ("get_mindmap", {"mindmapId": "../../etc/passwd"}, "is not a mindmap id"),
        ("get_mindmap", {"mindmapId": "a\0b"}, "is not a mindmap id"),
        ("get_mindmap", {"mindmapId": "mm_gone"}, "There is no mindmap mm_gone.*There are mm_here"),
        ("get_mindmap", {"mindmapId": "mm_here", "nodeId": "Parser"}, "A node labelled so is there: n_"),
        (
            "add_nodes",
            {"mindmapId": "mm_here", "nodes": [{"label": "x", "kind": "task"}]},
            "`nodes.0.kind`: there is no",
        ),
        ("add_nodes", {"mindmapId": "mm_here", "nodes": [{"label": "x", "type": "epic"}]}, "'plan', 'task'"),
        (
            "add_nodes",
            {"mindmapId": "mm_here", "nodes": [{"label": "x", "children": [{"label": ""}]}]},
            "A label is empty",
        ),
        (
            "add_nodes",
            {"mindmapId": "mm_here", "nodes": [{"label": "x" * 50_000_000}]},
            "at most 20,000 characters",
        ),
        (
            "add_nodes",
            {"mindmapId": "mm_here", "nodes": [{"label": "x"}], "parentId": "n_gone"},
            "There is no node 'n_gone'",
        ),
        (
            "update_nodes",
            {"mindmapId": "mm_here", "updates": [{"id": "root", "status": "completed"}]},
            "The root has no",
        ),
        (
            "move_nodes",
            {"mindmapId": "mm_here", "nodeIds": ["root"], "parentId": "root"},
            "The root cannot be moved",
        ),
        ("remove_nodes", {"mindmapId": "mm_here", "nodeIds": []}, "No nodes are given"),
        ("link_nodes", {"mindmapId": "mm_here"}, "No links are given"),
        (
            "link_nodes",
            {"mindmapId": "mm_here", "remove": [{"id": "l_gone"}]},
            "There is no link l_gone.*It has no links",
        ),
        (
            "log_file_touch",
            {"mindmapId": "mm_here", "path": "a.py", "action": "rename"},
            "Give it as previousPath",
        ),
        (
            "log_file_touch",
            {"mindmapId": "mm_here", "path": "a.py", "changes": [{"kind": "x", "symbol": "f"}]},
            "'add', 'modify'",
        ),
        ("note_activity", {"mindmapId": "mm_here", "message": " "}, "A message is empty"),
        ("sync_git_status", {"mindmapId": "mm_here"}, "Give workspacePath"),
        ("sync_git_status", {"mindmapId": "mm_here", "workspacePath": "/nowhere"}, "is no folder"),
        ("create_mindmap", {"title": "x", "workspacePath": "relative"}, "is no absolute path"),
        ("create_mindmap", {"title": "", "nodes": []}, "A title is empty"),
        ("delete_mindmap", {"mindmapId": "mm_here"}, "pass confirm: true"),
        (
            "delete_mindmap",
            {"mindmapId": "mm_here", "confirm": "yes"},
            "should be a valid boolean, not 'yes'",
        ),
        ("list_mindmaps", {"limit": 0}, "greater than or equal to 1"),
    ],
)
def test_refusals(serving: Serving, maps: Maps, name: str, arguments: dict[str, Any], says: str) -> None:
    """What cannot be done is refused with what can, and nothing is changed."""
    maps.folder.create("mm_here", encode(a_map({"label": "Parser"})))
    before = maps.folder.read("mm_here")
    said = refusal(serving, name, **arguments)
    assert re.search(says, said, re.DOTALL), said[:2_000]
    assert maps.folder.read("mm_here") == before
    assert maps.folder.ids() == ["mm_here"]


def test_deep_nesting(serving: Serving, maps: Maps) -> None:
    """Nesting without end is refused in words that name the limit."""
    document = a_map()
    maps.create(document)
    node: dict[str, Any] = {"label": "bottom"}
    for _ in range(80):
        node = {"label": "level", "children": [node]}
    assert "at most 64 levels" in refusal(serving, "add_nodes", mindmapId=document.id, nodes=[node])
    node = {"label": "bottom"}
    for _ in range(40):
        node = {"label": "level", "children": [node]}
    assert len(call(serving, "add_nodes", mindmapId=document.id, nodes=[node])["ids"]) == 41


def test_workspace_is_settled(serving: Serving, maps: Maps, repo: Repo, tmp_path: Path) -> None:
    """A map without a workspace takes the one of its first sync, and keeps it; one that is gone may be replaced."""
    document = a_map()
    maps.create(document)
    answer = call(serving, "sync_git_status", mindmapId=document.id, workspacePath=str(repo.path))
    assert (answer["synced"], answer["message"]) == (0, "Nothing differs from HEAD")
    assert maps.read(document.id).workspace_path == str(repo.path)
    other = Repo.create(tmp_path / "other")
    other.write("b.py", "x\n")
    said = refusal(serving, "sync_git_status", mindmapId=document.id, workspacePath=str(other.path))
    assert "The map belongs to the workspace" in said
    repo.path.rename(tmp_path / "moved")
    answer = call(
        serving,
        "sync_git_status",
        mindmapId=document.id,
        workspacePath=str(other.path),
        targetNodeId="n_gone",
    )
    assert (answer["synced"], answer["node"]) == (1, "Touched Files")
    assert "n_gone is not there" in answer["message"]
    assert maps.read(document.id).workspace_path == str(other.path)


def test_a_failed_sync_ties_nothing(serving: Serving, maps: Maps, repo: Repo, tmp_path: Path) -> None:
    """A folder that is no repository is refused, and the map is still free for the right one."""
    (tmp_path / "plain").mkdir()
    made = call(serving, "create_mindmap", title="A map")["mindmapId"]
    refusal(serving, "sync_git_status", mindmapId=made, workspacePath=str(tmp_path / "plain"))
    assert maps.read(made).workspace_path is None
    call(serving, "sync_git_status", mindmapId=made, workspacePath=str(repo.path))
    assert maps.read(made).workspace_path == str(repo.path)


def test_many_mistakes_are_few_words(serving: Serving) -> None:
    """Thousands of wrong values are told by the first few; a path that no system takes is a sentence."""
    made = call(serving, "create_mindmap", title="A map")["mindmapId"]
    said = refusal(serving, "add_nodes", mindmapId=made, nodes=[{"label": 1}] * 3000)
    assert len(said) < 2_000
    assert "others" in said
    assert "no folder" in refusal(serving, "create_mindmap", title="x", workspacePath="/" + "a" * 300)


def test_one_odd_file(serving: Serving, maps: Maps) -> None:
    """What is no file at all keeps nobody from listing the others."""
    call(serving, "create_mindmap", title="A map")
    with socket.socket(socket.AF_UNIX) as odd:
        odd.bind(str(maps.path / "mm_odd.json"))
        listed = call(serving, "list_mindmaps")
    assert len(listed["maps"]) == 1
    assert any("mm_odd" in problem for problem in listed["problems"])


def test_outside_a_repository(serving: Serving, tmp_path: Path) -> None:
    """A folder outside git is watched, and git sync says why it cannot be done."""
    (tmp_path / "plain").mkdir()
    made = call(serving, "create_mindmap", title="Work", workspacePath=str(tmp_path / "plain"))
    assert made["watching"] and "not in a git repository" in made["hint"]
    assert "is not in a git repository" in refusal(serving, "sync_git_status", mindmapId=made["mindmapId"])


def test_unwatched_workspace(serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A map may have the home folder for its workspace; why that is not watched is said with it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    made = call(serving, "create_mindmap", title="Work", workspacePath=str(tmp_path))
    assert not made["watching"]
    assert "sync_git_status will fail" in made["hint"] and "it is your home folder" in made["hint"]
    Repo.create(tmp_path)
    synced = call(serving, "sync_git_status", mindmapId=made["mindmapId"])
    assert not synced["watching"] and "it is your home folder" in synced["hint"]


def test_maps_of_a_workspace_that_is_gone(serving: Serving, maps: Maps, repo: Repo, tmp_path: Path) -> None:
    """Maps are found by their workspace when that is there no longer, whatever another map calls its own."""
    made = call(serving, "create_mindmap", title="Work", workspacePath=str(repo.path))
    repo.path.rename(tmp_path / "away")
    maps.create(a_map(workspace="/a\0b"))
    (line,) = call(serving, "list_mindmaps", workspacePath=str(repo.path))["maps"]
    assert line["id"] == made["mindmapId"]


def test_running_viewer_is_named(serving: Serving, maps: Maps) -> None:
    """The address of a viewer that runs comes with a new map."""
    with announcing.announced(maps.path, 4321):
        made = call(serving, "create_mindmap", title="Work")
    assert made["viewer"] == f"http://127.0.0.1:4321/#/map/{made['mindmapId']}"


def test_reading_large_maps(serving: Serving, maps: Maps) -> None:
    """A large map is answered by its upper levels, found by words, and never whole in one answer."""
    document = a_map(
        *(
            {"label": f"Part {n}", "children": [{"label": f"Step {n}.{m} " + "x" * 300} for m in range(20)]}
            for n in range(40)
        )
    )
    maps.create(document)
    read = call(serving, "get_mindmap", mindmapId=document.id)
    assert read["outline"].count("\n") == 40
    assert read["outline"].count("20 below") == 40
    assert "nodeId" in refusal(serving, "get_mindmap", mindmapId=document.id, full=True)
    found = call(serving, "get_mindmap", mindmapId=document.id, query="step 39.3")
    assert found["outline"].splitlines() == [
        f"- [ ] Step 39.3 {'x' * 149}… {{{id_of(document, 'Step 39.3 ' + 'x' * 300)}}}"
    ]
    many = call(serving, "get_mindmap", mindmapId=document.id, query="step")
    assert many["outline"].splitlines()[50:] == ["… 750 more: search with query"]
    part = call(serving, "get_mindmap", mindmapId=document.id, nodeId=id_of(document, "Part 7"), full=True)
    assert len(part["document"]["nodes"]) == 21


def test_reading_wide_maps(serving: Serving, maps: Maps) -> None:
    """What an answer has no room for is counted in it."""
    document = a_map(*({"label": f"Part {n}"} for n in range(300)))
    maps.create(document)
    shown = call(serving, "get_mindmap", mindmapId=document.id)["outline"].splitlines()
    assert (len(shown), shown[-1]) == (201, "… 101 more: search with query")


def test_resources_and_prompt(serving: Serving, maps: Maps) -> None:
    """Maps are resources, and a prompt says how to work with one."""
    document = a_map({"label": "Parser"})
    maps.create(document)

    async def steps(client: Client) -> None:
        assert [str(one.uri) for one in (await client.list_resources()).resources] == ["mindmap://maps"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [one.uri_template for one in templates] == ["mindmap://maps/{mindmap_id}"]
        (listed,) = (await client.read_resource("mindmap://maps")).contents
        (whole,) = (await client.read_resource(f"mindmap://maps/{document.id}")).contents
        assert isinstance(listed, TextResourceContents) and isinstance(whole, TextResourceContents)
        assert [line["id"] for line in json.loads(listed.text)] == [document.id]
        assert whole.text.encode() == maps.folder.read(document.id)
        with pytest.raises(MCPError, match="There is no mindmap mm_gone") as caught:
            await client.read_resource("mindmap://maps/mm_gone")
        assert caught.value.error.code == INVALID_PARAMS
        (prompt,) = (await client.list_prompts()).prompts
        said = (await client.get_prompt(prompt.name, {"task": "Write {a} parser"})).messages[0].content
        assert isinstance(said, TextContent) and "Write {a} parser" in said.text
        for name, says in (
            (prompt.name, "Missing required arguments: .*task"),
            ("no_such", "Unknown prompt"),
        ):
            with pytest.raises(MCPError, match=says) as caught:
                await client.get_prompt(name, {})
            assert caught.value.error.code == INVALID_PARAMS

    ask(serving.server, steps)


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


@contextmanager
def heard(number: signal.Signals) -> Iterator[None]:
    """Programs that are started meanwhile hear this signal, also where the tests run without a terminal and do not."""
    before = signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, before)


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
