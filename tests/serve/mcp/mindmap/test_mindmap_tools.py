"""The map tools, called by a client in memory."""

from __future__ import annotations

import json
import re
import shutil
import socket
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, Implementation, TextContent, TextResourceContents
from pydantic import BaseModel

from mindmap.map_store import MapStore
from mindmap.nodes import add_note
from serve.mcp import mindmap_types
from serve.mcp.mindmap_server import MindmapServer, create_mindmap_server
from serve.mcp.mindmap_tools import MAX_LISTED
from serve.viewer import discovery
from tests.mindmap.sample_maps import NOON, create_map, find_id
from tests.repos import Repo
from tests.serve.mcp.clients import PROTOCOLS, extract_text, run_client
from tests.serve.mcp.mindmap.mindmap_clients import call_tool, expect_tool_error

# An agent reads all schemas before its first call; at four characters a token.
MAX_TOKENS = 1_650


def test_tool_descriptions(mindmap_server: MindmapServer) -> None:
    """At most fourteen tools, with hints that differ from the protocol's defaults, and few tokens in total."""

    async def read_tools(client: Client) -> Any:
        assert "in_progress" in (client.instructions or "")
        return (await client.list_tools()).tools

    tools = run_client(mindmap_server.server, read_tools)
    names = [tool.name for tool in tools]
    assert (
        names[0] == "create_mindmap"
        and {"sync_git_status", "log_file_touch"} < set(names)
        and len(names) <= 14
    )
    for tool in tools:
        hints = tool.annotations
        is_read_only = tool.name in {"list_mindmaps", "get_mindmap"}
        is_destructive = tool.name in {"remove_nodes", "link_nodes", "delete_mindmap"}
        assert hints.read_only_hint is (True if is_read_only else None)
        assert hints.destructive_hint is (None if is_read_only or is_destructive else False)
        assert hints.open_world_hint is False
        # The text is the structured content as JSON, so that an output schema would add nothing.
        assert tool.description and tool.output_schema is None
    tools_json = json.dumps(
        [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    )
    assert len(tools_json) / 4 <= MAX_TOKENS


@pytest.mark.parametrize(
    ("tool", "argument", "model", "values"),
    [
        ("add_nodes", "nodes", mindmap_types.NodeInput, mindmap_types.NodeType),
        ("update_nodes", "updates", mindmap_types.NodeUpdateInput, mindmap_types.Status),
        ("link_nodes", "add", mindmap_types.LinkInput, mindmap_types.LinkStyle),
        ("link_nodes", "remove", mindmap_types.LinkRemovalInput, None),
        ("log_file_touch", "changes", mindmap_types.CodeChangeInput, mindmap_types.CodeChangeKind),
    ],
)
def test_descriptions_of_objects(
    mindmap_server: MindmapServer, tool: str, argument: str, model: type[BaseModel], values: object
) -> None:
    """The description of a list of objects names all their fields and values, as the schema does not."""
    tools = {each.name: each for each in anyio.run(mindmap_server.server.list_tools)}
    schema = tools[tool].input_schema["properties"][argument]
    assert (schema["type"], schema["items"]) == ("array", {"type": "object"})
    words = set(re.findall(r"\w+", schema["description"]))
    assert words >= {*model.model_json_schema()["properties"], *get_args(values)}


def test_workspace_of_the_first_sync_stays(
    mindmap_server: MindmapServer, store: MapStore, repo: Repo, tmp_path: Path
) -> None:
    """The workspace of the first sync becomes the map's; only a missing one can be replaced."""
    document = create_map()
    store.create(document)
    result = call_tool(mindmap_server, "sync_git_status", mindmapId=document.id, workspacePath=str(repo.path))
    assert (result["synced"], result["message"]) == (0, "Nothing differs from HEAD")
    assert store.read(document.id).workspace_path == str(repo.path)
    other = Repo.create(tmp_path / "other")
    other.write("b.py", "x\n")
    error = expect_tool_error(
        mindmap_server, "sync_git_status", mindmapId=document.id, workspacePath=str(other.path)
    )
    assert "The map belongs to the workspace" in error
    repo.path.rename(tmp_path / "moved")
    result = call_tool(
        mindmap_server,
        "sync_git_status",
        mindmapId=document.id,
        workspacePath=str(other.path),
        targetNodeId="n_gone",
    )
    assert (result["synced"], result["node"]) == (1, "Touched Files")
    assert "n_gone does not exist" in result["message"]
    touch = {"mindmapId": document.id, "path": "a.py"}
    result = call_tool(mindmap_server, "log_file_touch", **touch, nodeId="\udcff" + "x" * 100_000)
    assert r"(\udcffx" in result["message"] and len(result["message"]) < 200
    assert store.read(document.id).workspace_path == str(other.path)


def test_failed_sync_sets_no_workspace(
    mindmap_server: MindmapServer, store: MapStore, repo: Repo, tmp_path: Path
) -> None:
    """A directory outside git and a bare repository are errors, and the map keeps no workspace."""
    (tmp_path / "plain").mkdir()
    Repo.create(tmp_path / "bare", bare=True)
    mindmap_id = call_tool(mindmap_server, "create_mindmap", title="A map")["mindmapId"]
    for name in ("plain", "bare"):
        expect_tool_error(
            mindmap_server, "sync_git_status", mindmapId=mindmap_id, workspacePath=str(tmp_path / name)
        )
        assert store.read(mindmap_id).workspace_path is None
    call_tool(mindmap_server, "sync_git_status", mindmapId=mindmap_id, workspacePath=str(repo.path))
    assert store.read(mindmap_id).workspace_path == str(repo.path)


def test_unreadable_file_in_a_list(mindmap_server: MindmapServer, store: MapStore) -> None:
    """A map file that is not a regular file is a problem in the list, and the other maps are listed."""
    call_tool(mindmap_server, "create_mindmap", title="A map")
    with socket.socket(socket.AF_UNIX) as unix_socket:
        unix_socket.bind(str(store.path / "mm_odd.json"))
        result = call_tool(mindmap_server, "list_mindmaps")
    assert len(result["maps"]) == 1
    assert any("mm_odd" in problem for problem in result["problems"])


def test_path_is_normalized_in_answer_and_log(
    mindmap_server: MindmapServer, store: MapStore, repo: Repo
) -> None:
    """The answer and the log show a path as the map stores it, however the agent writes it."""
    mindmap_id = call_tool(mindmap_server, "create_mindmap", title="Work", workspacePath=str(repo.path))[
        "mindmapId"
    ]
    for path in (str(repo.path / "src/b.py"), "./src/../src/b.py"):
        result = call_tool(
            mindmap_server, "log_file_touch", mindmapId=mindmap_id, path=path, summary=" Split "
        )
        assert result["message"] == "Modify src/b.py: Split"
        assert store.read(mindmap_id).activity_log[0].message == "Modify src/b.py: Split"


def test_file_outside_the_workspace_has_a_hint(mindmap_server: MindmapServer, repo: Repo) -> None:
    """A file outside the workspace, as by `../x`, is logged by its absolute path, and the answer says so."""
    mindmap_id = call_tool(mindmap_server, "create_mindmap", title="Work", workspacePath=str(repo.path))[
        "mindmapId"
    ]
    hint = f"Outside the workspace, stored with absolute paths: {repo.path.parent}/x."
    touch = call_tool(mindmap_server, "log_file_touch", mindmapId=mindmap_id, path="../x")
    assert (touch["message"], touch["hint"]) == (f"Modify {repo.path.parent}/x", hint)
    note = call_tool(mindmap_server, "note_activity", mindmapId=mindmap_id, message="Read it", file="../x")
    assert note["message"] == f"Read it ({hint})"
    assert call_tool(mindmap_server, "log_file_touch", mindmapId=mindmap_id, path="a.py")["hint"] == ""
    view = call_tool(mindmap_server, "get_mindmap", mindmapId=mindmap_id, query=f"{repo.path.parent}/x")
    assert "Touched Files" in view["outline"]


def test_text_content_is_compact_json(mindmap_server: MindmapServer) -> None:
    """The text content is the structured content as JSON without spaces and line breaks."""

    async def call_create_mindmap(client: Client) -> Any:
        return await client.call_tool("create_mindmap", {"title": "Work", "nodes": [{"label": "ü"}]})

    result = run_client(mindmap_server.server, call_create_mindmap)
    assert extract_text(result) == json.dumps(
        result.structured_content, ensure_ascii=False, separators=(",", ":")
    )


def test_touch_reports_watching(mindmap_server: MindmapServer, store: MapStore, repo: Repo) -> None:
    """The answer to a touch says if the workspace is watched; after a restart, a sync watches it again."""
    mindmap_id = call_tool(mindmap_server, "create_mindmap", title="Work", workspacePath=str(repo.path))[
        "mindmapId"
    ]
    assert call_tool(mindmap_server, "log_file_touch", mindmapId=mindmap_id, path="a.py")["watching"]
    restarted_server = create_mindmap_server(store.path)
    try:
        assert not call_tool(restarted_server, "log_file_touch", mindmapId=mindmap_id, path="a.py")[
            "watching"
        ]
        assert call_tool(restarted_server, "sync_git_status", mindmapId=mindmap_id)["watching"]
        assert call_tool(restarted_server, "log_file_touch", mindmapId=mindmap_id, path="a.py")["watching"]
    finally:
        restarted_server.close()


def test_outside_a_repository(mindmap_server: MindmapServer, tmp_path: Path) -> None:
    """A directory outside git is watched, and the hint and the error of git sync say that there is no repository."""
    (tmp_path / "plain").mkdir()
    result = call_tool(mindmap_server, "create_mindmap", title="Work", workspacePath=str(tmp_path / "plain"))
    assert result["watching"] and "not in a git repository" in result["hint"]
    assert "is not in a git repository" in expect_tool_error(
        mindmap_server, "sync_git_status", mindmapId=result["mindmapId"]
    )


def test_unwatched_workspace(
    mindmap_server: MindmapServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The home directory can be a workspace; the answer gives the reason why it is not watched."""
    monkeypatch.setenv("HOME", str(tmp_path))
    result = call_tool(mindmap_server, "create_mindmap", title="Work", workspacePath=str(tmp_path))
    assert not result["watching"]
    assert "sync_git_status will fail" in result["hint"] and "it is your home directory" in result["hint"]
    Repo.create(tmp_path)
    sync_result = call_tool(mindmap_server, "sync_git_status", mindmapId=result["mindmapId"])
    assert not sync_result["watching"] and "it is your home directory" in sync_result["hint"]


def test_maps_of_a_missing_workspace(
    mindmap_server: MindmapServer, store: MapStore, repo: Repo, tmp_path: Path
) -> None:
    """Maps of a workspace that no longer exists are found by its path."""
    result = call_tool(mindmap_server, "create_mindmap", title="Work", workspacePath=str(repo.path))
    repo.path.rename(tmp_path / "away")
    store.create(create_map(workspace="/a\0b"))
    (map_entry,) = call_tool(mindmap_server, "list_mindmaps", workspacePath=str(repo.path))["maps"]
    assert map_entry["id"] == result["mindmapId"]


def test_maps_are_found_from_inside_their_workspace(
    mindmap_server: MindmapServer, repo: Repo, tmp_path: Path
) -> None:
    """Maps are found from any directory in their workspace, also through links, but not from outside."""
    mindmap_id = call_tool(mindmap_server, "create_mindmap", title="Work", workspacePath=str(repo.path))[
        "mindmapId"
    ]
    (tmp_path / "link").symlink_to(repo.path)
    inside = (repo.path / "src" / "deep", tmp_path / "link" / "src")
    outside = (repo.path.parent, repo.path.with_name(f"{repo.path.name}s"))
    ids_by_directory = {
        directory: [
            entry["id"]
            for entry in call_tool(mindmap_server, "list_mindmaps", workspacePath=str(directory))["maps"]
        ]
        for directory in (*inside, *outside)
    }
    assert ids_by_directory == {
        directory: [mindmap_id] if directory in inside else [] for directory in ids_by_directory
    }


def test_address_of_a_running_viewer(mindmap_server: MindmapServer, store: MapStore) -> None:
    """A new map comes with the address of the running viewer."""
    with discovery.publish_address(store.path, 4321):
        result = call_tool(mindmap_server, "create_mindmap", title="Work")
    assert result["viewer"] == f"http://127.0.0.1:4321/#/map/{result['mindmapId']}"


def test_reading_large_maps(mindmap_server: MindmapServer, store: MapStore) -> None:
    """Large maps are shown by their upper levels, can be searched, and are never returned completely."""
    document = create_map(
        *(
            {"label": f"Part {n}", "children": [{"label": f"Step {n}.{m} " + "x" * 300} for m in range(20)]}
            for n in range(40)
        )
    )
    store.create(document)
    top_levels = call_tool(mindmap_server, "get_mindmap", mindmapId=document.id)
    assert top_levels["outline"].count("\n") == 40
    assert top_levels["outline"].count("20 below") == 40
    assert "nodeId" in expect_tool_error(mindmap_server, "get_mindmap", mindmapId=document.id, full=True)
    search_result = call_tool(mindmap_server, "get_mindmap", mindmapId=document.id, query="step 39.3")
    assert search_result["outline"].splitlines() == [
        f"- [ ] Step 39.3 {'x' * 149}… {{{find_id(document, 'Step 39.3 ' + 'x' * 300)}}}"
    ]
    long_result = call_tool(mindmap_server, "get_mindmap", mindmapId=document.id, query="step")
    assert long_result["outline"].splitlines()[50:] == ["… 750 more: search with query"]
    subtree = call_tool(
        mindmap_server,
        "get_mindmap",
        mindmapId=document.id,
        nodeId=find_id(document, "Part 7"),
        full=True,
    )
    assert len(subtree["document"]["nodes"]) == 21


def test_reading_wide_maps(mindmap_server: MindmapServer, store: MapStore) -> None:
    """Nodes that do not fit into an answer are counted in it."""
    document = create_map(*({"label": f"Part {n}"} for n in range(300)))
    store.create(document)
    outline = call_tool(mindmap_server, "get_mindmap", mindmapId=document.id)["outline"].splitlines()
    assert (len(outline), outline[-1]) == (201, "… 101 more: search with query")


def test_resources_and_prompt(mindmap_server: MindmapServer, store: MapStore) -> None:
    """Maps are resources, and a prompt describes how to work with a map."""
    document = create_map({"label": "Parser"})
    store.create(document)

    async def check_resources_and_prompt(client: Client) -> None:
        assert [str(resource.uri) for resource in (await client.list_resources()).resources] == [
            "mindmap://maps"
        ]
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == ["mindmap://maps/{mindmap_id}"]
        (map_list,) = (await client.read_resource("mindmap://maps")).contents
        (map_content,) = (await client.read_resource(f"mindmap://maps/{document.id}")).contents
        assert isinstance(map_list, TextResourceContents) and isinstance(map_content, TextResourceContents)
        assert [entry["id"] for entry in json.loads(map_list.text)] == [document.id]
        assert map_content.text.encode() == store.directory.read(document.id)
        with pytest.raises(MCPError, match="There is no mindmap mm_gone") as caught:
            await client.read_resource("mindmap://maps/mm_gone")
        assert caught.value.error.code == INVALID_PARAMS
        shutil.rmtree(store.path)
        store.path.symlink_to(store.path)  # cannot be read, even by root
        with pytest.raises(MCPError, match="Too many levels of symbolic links"):
            await client.read_resource("mindmap://maps")
        (prompt,) = (await client.list_prompts()).prompts
        content = (await client.get_prompt(prompt.name, {"task": "Write {a} parser"})).messages[0].content
        assert isinstance(content, TextContent) and "Write {a} parser" in content.text
        for name, pattern in (
            (prompt.name, "Missing required arguments: .*task"),
            ("no_such", "Unknown prompt"),
        ):
            with pytest.raises(MCPError, match=pattern) as caught:
                await client.get_prompt(name, {})
            assert caught.value.error.code == INVALID_PARAMS

    run_client(mindmap_server.server, check_resources_and_prompt)


@pytest.mark.parametrize("mode", PROTOCOLS)
def test_log_entries_name_the_client(mindmap_server: MindmapServer, store: MapStore, mode: str) -> None:
    """Each entry of the activity log has the name of the MCP client whose call made it, in both protocols."""

    async def edit_map() -> str:
        information = Implementation(name="claude-code\0", version="2")
        async with Client(mindmap_server.server, mode=mode, client_info=information) as client:
            result = await client.call_tool("create_mindmap", {"title": "Work", "nodes": [{"label": "Step"}]})
            mindmap_id: str = result.structured_content["mindmapId"]
            await client.call_tool("note_activity", {"mindmapId": mindmap_id, "message": "Noted"})
            return mindmap_id

    document = store.read(anyio.run(edit_map))
    assert [entry.client for entry in document.activity_log] == ["claude-code"] * 3
    store.change(document.id, lambda document: add_note(document, "Edited without a client", NOON))
    assert store.read(document.id).activity_log[0].client is None


def test_limit_above_the_maximum(mindmap_server: MindmapServer) -> None:
    """A larger limit than the maximum returns as many maps as are allowed, and the number of all."""
    for number in range(MAX_LISTED + 1):
        call_tool(mindmap_server, "create_mindmap", title=f"Map {number}")
    result = call_tool(mindmap_server, "list_mindmaps", limit=1_000)
    assert (len(result["maps"]), result["total"]) == (MAX_LISTED, MAX_LISTED + 1)
