"""The tools of maps as agents meet them, by a client in memory."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, TextContent, TextResourceContents

from mindmap.map_store import Maps
from serve.mcp.mindmap_server import Serving, mindmap_server
from serve.viewer import discovery
from tests.mindmap.sample_maps import a_map, id_of
from tests.repos import Repo
from tests.serve.mcp.clients import ask, text
from tests.serve.mcp.mindmap.mindmap_clients import call, refusal

# An agent reads all schemas before its first call; at four characters a token.
MOST_TOKENS = 4_000


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
    """What is no repository, or a bare one, is refused, and the map is still free for the right one."""
    (tmp_path / "plain").mkdir()
    Repo.create(tmp_path / "bare", bare=True)
    made = call(serving, "create_mindmap", title="A map")["mindmapId"]
    for folder in ("plain", "bare"):
        refusal(serving, "sync_git_status", mindmapId=made, workspacePath=str(tmp_path / folder))
        assert maps.read(made).workspace_path is None
    call(serving, "sync_git_status", mindmapId=made, workspacePath=str(repo.path))
    assert maps.read(made).workspace_path == str(repo.path)


def test_one_odd_file(serving: Serving, maps: Maps) -> None:
    """What is no file at all keeps nobody from listing the others."""
    call(serving, "create_mindmap", title="A map")
    with socket.socket(socket.AF_UNIX) as odd:
        odd.bind(str(maps.path / "mm_odd.json"))
        listed = call(serving, "list_mindmaps")
    assert len(listed["maps"]) == 1
    assert any("mm_odd" in problem for problem in listed["problems"])


def test_one_path_in_answer_and_log(serving: Serving, maps: Maps, repo: Repo) -> None:
    """However an agent writes a path, it is told, and reads in the log, the one that the map keeps."""
    made = call(serving, "create_mindmap", title="Work", workspacePath=str(repo.path))["mindmapId"]
    for written in (str(repo.path / "src/b.py"), "./src/../src/b.py"):
        told = call(serving, "log_file_touch", mindmapId=made, path=written, summary=" Split ")
        assert told["message"] == "Modify src/b.py: Split"
        assert maps.read(made).activity_log[0].message == "Modify src/b.py: Split"


def test_answers_are_on_one_line(serving: Serving) -> None:
    """What clients show that show text only is the structured content without a space or a line too many."""

    async def steps(client: Client) -> Any:
        return await client.call_tool("create_mindmap", {"title": "Work", "nodes": [{"label": "ü"}]})

    answer = ask(serving.server, steps)
    assert text(answer) == json.dumps(answer.structured_content, ensure_ascii=False, separators=(",", ":"))


def test_a_touch_says_whether_it_is_watched(serving: Serving, maps: Maps, repo: Repo) -> None:
    """Who attaches a file learns whether other files attach themselves; after a restart they do not yet."""
    made = call(serving, "create_mindmap", title="Work", workspacePath=str(repo.path))["mindmapId"]
    assert call(serving, "log_file_touch", mindmapId=made, path="a.py")["watching"]
    another = mindmap_server(maps.path)
    try:
        assert not call(another, "log_file_touch", mindmapId=made, path="a.py")["watching"]
        assert call(another, "sync_git_status", mindmapId=made)["watching"]
        assert call(another, "log_file_touch", mindmapId=made, path="a.py")["watching"]
    finally:
        another.end()


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


def test_maps_are_found_from_inside_their_workspace(serving: Serving, repo: Repo, tmp_path: Path) -> None:
    """Any folder of a workspace finds its maps, through links too; what is around it or named alike does not."""
    made = call(serving, "create_mindmap", title="Work", workspacePath=str(repo.path))["mindmapId"]
    (tmp_path / "link").symlink_to(repo.path)
    inside = (repo.path / "src" / "deep", tmp_path / "link" / "src")
    outside = (repo.path.parent, repo.path.with_name(f"{repo.path.name}s"))
    found = {
        folder: [line["id"] for line in call(serving, "list_mindmaps", workspacePath=str(folder))["maps"]]
        for folder in (*inside, *outside)
    }
    assert found == {folder: [made] if folder in inside else [] for folder in found}


def test_running_viewer_is_named(serving: Serving, maps: Maps) -> None:
    """The address of a viewer that runs comes with a new map."""
    with discovery.announced(maps.path, 4321):
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
