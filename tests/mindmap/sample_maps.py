"""Small maps for tests, and a check that a map is consistent."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from mindmap.document import ROOT, Mindmap
from mindmap.nodes import add_nodes, create_mindmap, flatten_nodes

NOON: Final = "2026-01-01T12:00:00.000Z"


def create_timestamp(minutes: int) -> str:
    """Return the timestamp this many minutes after NOON."""
    return f"2026-01-01T{12 + minutes // 60:02}:{minutes % 60:02}:00.000Z"


def create_map(*nodes: Mapping[str, object], workspace: str | None = None) -> Mindmap:
    """Return a map with these nodes under its root."""
    document = create_mindmap("A map", workspace, NOON)
    return add_nodes(document, ROOT, flatten_nodes(nodes), NOON).document if nodes else document


def find_id(document: Mindmap, label: str) -> str:
    """Return the id of the only node with this label."""
    (node_id,) = [node.id for node in document.nodes.values() if node.label == label]
    return node_id


def assert_consistent(document: Mindmap) -> None:
    """Check that the nodes form a tree, both ends of every link exist, and the log has its newest entry first."""
    reached = [ROOT]
    for node_id in reached:  # the list grows in the loop
        node = document.nodes[node_id]
        assert node.id == node_id
        assert all(document.nodes[child].parent == node_id for child in node.children)
        reached += node.children
    assert len(reached) == len(set(reached)) == len(document.nodes)
    assert document.nodes[ROOT].parent is None
    assert all(link.source in document.nodes and link.target in document.nodes for link in document.links)
    assert len({link.key for link in document.links}) == len(document.links)
    assert len({link.id for link in document.links}) == len(document.links)
    assert all(newer.timestamp >= older.timestamp for newer, older in pairwise(document.activity_log))
    assert len(document.activity_log) <= 100
    assert document.updated_at == document.activity_log[0].timestamp
    for node in document.nodes.values():
        assert (node.status is not None) == (node.is_task), node
        assert len({touch.path for touch in node.files}) == len(node.files)
