"""The map tools, called by a client in memory."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, TextContent, TextResourceContents

from mindmap.map_store import MapStore
from serve.mcp.mindmap_server import MindmapServer, create_mindmap_server
from serve.viewer import discovery
from tests.mindmap.sample_maps import create_map, id_by_label
from tests.repos import Repo
from tests.serve.mcp.clients import result_text, run_client
from tests.serve.mcp.mindmap.mindmap_clients import call_tool, tool_error

# An agent reads all schemas before its first call; at four characters a token.
MAX_TOKENS = 4_000


def test_tool_descriptions(mindmap_server: MindmapServer) -> None:
    """At most twelve tools, with all four hints, closed input schemas and few tokens in total."""

    async def steps(client: Client) -> Any:
        assert "in_progress" in (client.instructions or "")
        return (await client.list_tools()).tools

    listed = run_client(mindmap_server.server, steps)
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
    assert len(written) / 4 <= MAX_TOKENS


def test_workspace_of_the_first_sync_is_kept(
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
    error = tool_error(
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
    assert store.read(document.id).workspace_path == str(other.path)


def test_failed_sync_sets_no_workspace(
    mindmap_server: MindmapServer, store: MapStore, repo: Repo, tmp_path: Path
) -> None:
    """A directory outside git and a bare repository are errors, and the map keeps no workspace."""
    (tmp_path / "plain").mkdir()
    Repo.create(tmp_path / "bare", bare=True)
    created = call_tool(mindmap_server, "create_mindmap", title="A map")["mindmapId"]
    for folder in ("plain", "bare"):
        tool_error(mindmap_server, "sync_git_status", mindmapId=created, workspacePath=str(tmp_path / folder))
        assert store.read(created).workspace_path is None
    call_tool(mindmap_server, "sync_git_status", mindmapId=created, workspacePath=str(repo.path))
    assert store.read(created).workspace_path == str(repo.path)


def test_unreadable_file_in_a_list(mindmap_server: MindmapServer, store: MapStore) -> None:
    """A file that is not a regular file does not prevent the list of the others."""
    call_tool(mindmap_server, "create_mindmap", title="A map")
    with socket.socket(socket.AF_UNIX) as odd:
        odd.bind(str(store.path / "mm_odd.json"))
        listed = call_tool(mindmap_server, "list_mindmaps")
    assert len(listed["maps"]) == 1
    assert any("mm_odd" in problem for problem in listed["problems"])


def test_path_is_normalized_in_answer_and_log(
    mindmap_server: MindmapServer, store: MapStore, repo: Repo
) -> None:
    """The answer and the log show a path as the map stores it, however the agent writes it."""
    created = call_tool(mindmap_server, "create_mindmap", title="Work", workspacePath=str(repo.path))[
        "mindmapId"
    ]
    for written in (str(repo.path / "src/b.py"), "./src/../src/b.py"):
        result = call_tool(
            mindmap_server, "log_file_touch", mindmapId=created, path=written, summary=" Split "
        )
        assert result["message"] == "Modify src/b.py: Split"
        assert store.read(created).activity_log[0].message == "Modify src/b.py: Split"


def test_text_content_is_compact_json(mindmap_server: MindmapServer) -> None:
    """The text content is the structured content as JSON without spaces and line breaks."""

    async def steps(client: Client) -> Any:
        return await client.call_tool("create_mindmap", {"title": "Work", "nodes": [{"label": "ü"}]})

    result = run_client(mindmap_server.server, steps)
    assert result_text(result) == json.dumps(
        result.structured_content, ensure_ascii=False, separators=(",", ":")
    )


def test_touch_reports_watching(mindmap_server: MindmapServer, store: MapStore, repo: Repo) -> None:
    """The answer to a touch tells whether the workspace is watched; after a restart it is not yet."""
    created = call_tool(mindmap_server, "create_mindmap", title="Work", workspacePath=str(repo.path))[
        "mindmapId"
    ]
    assert call_tool(mindmap_server, "log_file_touch", mindmapId=created, path="a.py")["watching"]
    another = create_mindmap_server(store.path)
    try:
        assert not call_tool(another, "log_file_touch", mindmapId=created, path="a.py")["watching"]
        assert call_tool(another, "sync_git_status", mindmapId=created)["watching"]
        assert call_tool(another, "log_file_touch", mindmapId=created, path="a.py")["watching"]
    finally:
        another.close()


def test_outside_a_repository(mindmap_server: MindmapServer, tmp_path: Path) -> None:
    """A directory outside git is watched, and the hint and git sync tell that there is no repository."""
    (tmp_path / "plain").mkdir()
    created = call_tool(mindmap_server, "create_mindmap", title="Work", workspacePath=str(tmp_path / "plain"))
    assert created["watching"] and "not in a git repository" in created["hint"]
    assert "is not in a git repository" in tool_error(
        mindmap_server, "sync_git_status", mindmapId=created["mindmapId"]
    )


def test_unwatched_workspace(
    mindmap_server: MindmapServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The home directory can be a workspace; the answer tells why it is not watched."""
    monkeypatch.setenv("HOME", str(tmp_path))
    created = call_tool(mindmap_server, "create_mindmap", title="Work", workspacePath=str(tmp_path))
    assert not created["watching"]
    assert "sync_git_status will fail" in created["hint"] and "it is your home directory" in created["hint"]
    Repo.create(tmp_path)
    synced = call_tool(mindmap_server, "sync_git_status", mindmapId=created["mindmapId"])
    assert not synced["watching"] and "it is your home directory" in synced["hint"]


def test_maps_of_a_missing_workspace(
    mindmap_server: MindmapServer, store: MapStore, repo: Repo, tmp_path: Path
) -> None:
    """Maps of a workspace that no longer exists are found by its path."""
    created = call_tool(mindmap_server, "create_mindmap", title="Work", workspacePath=str(repo.path))
    repo.path.rename(tmp_path / "away")
    store.create(create_map(workspace="/a\0b"))
    (line,) = call_tool(mindmap_server, "list_mindmaps", workspacePath=str(repo.path))["maps"]
    assert line["id"] == created["mindmapId"]


def test_maps_are_found_from_inside_their_workspace(
    mindmap_server: MindmapServer, repo: Repo, tmp_path: Path
) -> None:
    """Maps are found from any directory in their workspace, also through links, but not from outside."""
    created = call_tool(mindmap_server, "create_mindmap", title="Work", workspacePath=str(repo.path))[
        "mindmapId"
    ]
    (tmp_path / "link").symlink_to(repo.path)
    inside = (repo.path / "src" / "deep", tmp_path / "link" / "src")
    outside = (repo.path.parent, repo.path.with_name(f"{repo.path.name}s"))
    found = {
        folder: [
            line["id"]
            for line in call_tool(mindmap_server, "list_mindmaps", workspacePath=str(folder))["maps"]
        ]
        for folder in (*inside, *outside)
    }
    assert found == {folder: [created] if folder in inside else [] for folder in found}


def test_address_of_a_running_viewer(mindmap_server: MindmapServer, store: MapStore) -> None:
    """A new map comes with the address of the running viewer."""
    with discovery.publish_address(store.path, 4321):
        created = call_tool(mindmap_server, "create_mindmap", title="Work")
    assert created["viewer"] == f"http://127.0.0.1:4321/#/map/{created['mindmapId']}"


def test_reading_large_maps(mindmap_server: MindmapServer, store: MapStore) -> None:
    """Large maps are shown by their upper levels, can be searched, and are never returned completely."""
    document = create_map(
        *(
            {"label": f"Part {n}", "children": [{"label": f"Step {n}.{m} " + "x" * 300} for m in range(20)]}
            for n in range(40)
        )
    )
    store.create(document)
    read = call_tool(mindmap_server, "get_mindmap", mindmapId=document.id)
    assert read["outline"].count("\n") == 40
    assert read["outline"].count("20 below") == 40
    assert "nodeId" in tool_error(mindmap_server, "get_mindmap", mindmapId=document.id, full=True)
    found = call_tool(mindmap_server, "get_mindmap", mindmapId=document.id, query="step 39.3")
    assert found["outline"].splitlines() == [
        f"- [ ] Step 39.3 {'x' * 149}… {{{id_by_label(document, 'Step 39.3 ' + 'x' * 300)}}}"
    ]
    many = call_tool(mindmap_server, "get_mindmap", mindmapId=document.id, query="step")
    assert many["outline"].splitlines()[50:] == ["… 750 more: search with query"]
    part = call_tool(
        mindmap_server,
        "get_mindmap",
        mindmapId=document.id,
        nodeId=id_by_label(document, "Part 7"),
        full=True,
    )
    assert len(part["document"]["nodes"]) == 21


def test_reading_wide_maps(mindmap_server: MindmapServer, store: MapStore) -> None:
    """Nodes that do not fit into an answer are counted in it."""
    document = create_map(*({"label": f"Part {n}"} for n in range(300)))
    store.create(document)
    shown = call_tool(mindmap_server, "get_mindmap", mindmapId=document.id)["outline"].splitlines()
    assert (len(shown), shown[-1]) == (201, "… 101 more: search with query")


def test_resources_and_prompt(mindmap_server: MindmapServer, store: MapStore) -> None:
    """Maps are resources, and a prompt tells how to work with a map."""
    document = create_map({"label": "Parser"})
    store.create(document)

    async def steps(client: Client) -> None:
        assert [str(one.uri) for one in (await client.list_resources()).resources] == ["mindmap://maps"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [one.uri_template for one in templates] == ["mindmap://maps/{mindmap_id}"]
        (listed,) = (await client.read_resource("mindmap://maps")).contents
        (map_content,) = (await client.read_resource(f"mindmap://maps/{document.id}")).contents
        assert isinstance(listed, TextResourceContents) and isinstance(map_content, TextResourceContents)
        assert [line["id"] for line in json.loads(listed.text)] == [document.id]
        assert map_content.text.encode() == store.directory.read(document.id)
        with pytest.raises(MCPError, match="There is no mindmap mm_gone") as caught:
            await client.read_resource("mindmap://maps/mm_gone")
        assert caught.value.error.code == INVALID_PARAMS
        (prompt,) = (await client.list_prompts()).prompts
        error = (await client.get_prompt(prompt.name, {"task": "Write {a} parser"})).messages[0].content
        assert isinstance(error, TextContent) and "Write {a} parser" in error.text
        for name, pattern in (
            (prompt.name, "Missing required arguments: .*task"),
            ("no_such", "Unknown prompt"),
        ):
            with pytest.raises(MCPError, match=pattern) as caught:
                await client.get_prompt(name, {})
            assert caught.value.error.code == INVALID_PARAMS

    run_client(mindmap_server.server, steps)
