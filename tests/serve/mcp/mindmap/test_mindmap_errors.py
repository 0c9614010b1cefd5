"""What the tools of maps refuse, and in which words."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mindmap.document import encode
from mindmap.map_store import Maps
from serve.mcp.mindmap_server import Serving
from tests.mindmap.sample_maps import a_map
from tests.serve.mcp.mindmap.mindmap_clients import call, refusal


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
        (
            "update_nodes",
            {"mindmapId": "mm_here", "updates": [{"id": "root", "status": "done"}]},
            r"so\. `updates\.0\.status`: Input should be 'planned', [^`]*, not 'done'\. Its arguments are",
        ),
        (
            "create_mindmap",
            {"title": "x", "nodes": ["a"]},
            "so. `nodes.0`: should be an object, not 'a'. Its",
        ),
        (
            "link_nodes",
            {"mindmapId": "mm_here", "add": [{"source": "root", "to": "root"}]},
            "so. `add.0.from`: is required. `add.0.source`: there is no such argument. Its",
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
        (
            "log_file_touch",
            {"mindmapId": "mm_here", "path": "a.py", "lines": "banana"},
            "'banana' is no range of lines.*Give lines as `10-20`",
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
    assert "Error executing" not in said
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


def test_many_mistakes_are_few_words(serving: Serving) -> None:
    """Thousands of wrong values are told by the first few; a path that no system takes is a sentence."""
    made = call(serving, "create_mindmap", title="A map")["mindmapId"]
    said = refusal(serving, "add_nodes", mindmapId=made, nodes=[{"label": 1}] * 3000)
    assert len(said) < 2_000
    assert "others" in said
    assert "no folder" in refusal(serving, "create_mindmap", title="x", workspacePath="/" + "a" * 300)
