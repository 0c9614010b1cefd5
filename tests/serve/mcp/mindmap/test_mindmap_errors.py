"""Errors of the map tools."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mindmap.document import encode
from mindmap.map_store import MapStore
from serve.mcp.mindmap_server import MindmapServer
from tests.mindmap.sample_maps import create_map
from tests.serve.mcp.mindmap.mindmap_clients import call_tool, expect_tool_error


@pytest.mark.parametrize(
    ("name", "arguments", "pattern"),
    [
        (
            "get_mindmap",
            {"id": "mm_1"},
            r"`id`: there is no such argument.*Its arguments are `mindmapId`, `nodeId`",
        ),
        ("get_mindmap", {}, "`mindmapId`: is required"),
        ("get_mindmap", {"mindmapId": "../../etc/passwd"}, "is not a mindmap id"),
        ("get_mindmap", {"mindmapId": "a\0b"}, "is not a mindmap id"),
        ("get_mindmap", {"mindmapId": "mm_gone"}, "There is no mindmap mm_gone.*mm_here"),
        ("get_mindmap", {"mindmapId": "mm_here", "nodeId": "Parser"}, "A node has this label: n_"),
        (
            "add_nodes",
            {"mindmapId": "mm_here", "nodes": [{"label": "x", "kind": "task"}]},
            "`nodes.0.kind`: there is no",
        ),
        ("add_nodes", {"mindmapId": "mm_here", "nodes": [{"label": "x", "type": "epic"}]}, "'plan', 'task'"),
        (
            "add_nodes",
            {"mindmapId": "mm_here", "nodes": [{"label": "x", "children": [{"label": ""}]}]},
            "The label is empty",
        ),
        (
            "add_nodes",
            {"mindmapId": "mm_here", "nodes": [{"label": "x" * 50_000_000}]},
            "At most 20,000 are possible",
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
        (
            "update_nodes",
            {"mindmapId": "mm_here", "updates": [{"id": "root", "status": "done"}]},
            r"arguments for update_nodes\. `updates\.0\.status`: Input should be 'planned', [^`]*, not 'done'\. "
            "Its arguments are",
        ),
        (
            "create_mindmap",
            {"title": "x", "nodes": ["a"]},
            "`nodes.0`: should be an object, not 'a'. Its",
        ),
        (
            "link_nodes",
            {"mindmapId": "mm_here", "add": [{"source": "root", "to": "root"}]},
            "`add.0.from`: is required. `add.0.source`: there is no such argument. Its",
        ),
        ("remove_nodes", {"mindmapId": "mm_here", "nodeIds": []}, "The list of nodes is empty"),
        ("link_nodes", {"mindmapId": "mm_here"}, "The list of links is empty"),
        (
            "link_nodes",
            {"mindmapId": "mm_here", "remove": [{"id": "l_gone"}]},
            "There is no link l_gone.*The map has no links",
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
        (
            "log_file_touch",
            {"mindmapId": "mm_here", "path": "a.py", "lines": "banana"},
            "'banana' is not a line range.*Give `10-20`",
        ),
        ("note_activity", {"mindmapId": "mm_here", "message": " "}, "The message is empty"),
        ("sync_git_status", {"mindmapId": "mm_here"}, "Give workspacePath"),
        ("sync_git_status", {"mindmapId": "mm_here", "workspacePath": "/nowhere"}, "is not a directory"),
        ("create_mindmap", {"title": "x", "workspacePath": "relative"}, "is not an absolute path"),
        ("create_mindmap", {"title": "", "nodes": []}, "The title is empty"),
        ("delete_mindmap", {"mindmapId": "mm_here"}, "pass confirm: true"),
        ("delete_mindmap", {"mindmapId": "\x1b[31m"}, "is not a mindmap id"),
        (
            "delete_mindmap",
            {"mindmapId": "mm_here", "confirm": "yes"},
            "should be a valid boolean, not 'yes'",
        ),
        ("list_mindmaps", {"limit": 0}, "greater than or equal to 1"),
        (
            "wait_for_answer",
            {"mindmapId": "mm_here", "questionId": "q_1", "seconds": 301},
            "less than or equal to 300, not 301",
        ),
    ],
)
def test_invalid_calls(
    mindmap_server: MindmapServer, store: MapStore, name: str, arguments: dict[str, Any], pattern: str
) -> None:
    """An invalid call returns an error that explains it in plain language, and changes nothing."""
    store.directory.create("mm_here", encode(create_map({"label": "Parser"})))
    before = store.directory.read("mm_here")
    error = expect_tool_error(mindmap_server, name, **arguments)
    assert re.search(pattern, error, re.DOTALL), error[:2_000]
    assert "Error executing" not in error
    assert store.directory.read("mm_here") == before
    assert store.directory.list_ids() == ["mm_here"]


def test_control_characters_of_a_map(mindmap_server: MindmapServer, store: MapStore) -> None:
    """An error escapes the control and bidirectional characters of the labels that it quotes."""
    store.create(document := create_map({"label": "a\x1b]0;b\u202ec"}))
    arguments = {"mindmapId": document.id, "nodes": [{"label": "x"}], "parentId": "nope"}
    error = expect_tool_error(mindmap_server, "add_nodes", **arguments)
    assert "(a␛]0;b" in error
    assert not {"\x1b", "\u202e"} & set(error)


def test_deep_nesting(mindmap_server: MindmapServer, store: MapStore) -> None:
    """Too deep nesting returns an error that names the limit."""
    document = create_map()
    store.create(document)
    node: dict[str, Any] = {"label": "bottom"}
    for _ in range(80):
        node = {"label": "level", "children": [node]}
    assert "at most 64 levels" in expect_tool_error(
        mindmap_server, "add_nodes", mindmapId=document.id, nodes=[node]
    )
    node = {"label": "bottom"}
    for _ in range(40):
        node = {"label": "level", "children": [node]}
    assert len(call_tool(mindmap_server, "add_nodes", mindmapId=document.id, nodes=[node])["ids"]) == 41


def test_many_mistakes_give_a_short_error(mindmap_server: MindmapServer) -> None:
    """The error for thousands of invalid values lists only the first few; a too long path has a clear error."""
    mindmap_id = call_tool(mindmap_server, "create_mindmap", title="A map")["mindmapId"]
    error = expect_tool_error(mindmap_server, "add_nodes", mindmapId=mindmap_id, nodes=[{"label": 1}] * 3000)
    assert len(error) < 2_000
    assert "Problems not shown: " in error
    assert "is not a directory" in expect_tool_error(
        mindmap_server, "create_mindmap", title="x", workspacePath="/" + "a" * 300
    )
