"""Small maps that tests start from, and what must be true of every map."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from mindmap.document import ROOT, Mindmap
from mindmap.nodes import add_nodes, flattened, new_map

NOON: Final = "2026-01-01T12:00:00.000Z"


def moment(minutes: int) -> str:
    """So many minutes after noon."""
    return f"2026-01-01T{12 + minutes // 60:02}:{minutes % 60:02}:00.000Z"


def a_map(*nodes: Mapping[str, object], workspace: str | None = None) -> Mindmap:
    """A map with these nodes under its root."""
    document = new_map("A map", workspace, NOON)
    return add_nodes(document, ROOT, flattened(nodes), NOON).document if nodes else document


def id_of(document: Mindmap, label: str) -> str:
    """The id of the one node that is called so."""
    (found,) = [node.id for node in document.nodes.values() if node.label == label]
    return found


def check(document: Mindmap) -> None:
    """Parent and children agree, nothing is in a circle, links join what is there, the log has its newest on top."""
    reached = [ROOT]
    for node_id in reached:  # grows as it goes
        node = document.nodes[node_id]
        assert node.id == node_id
        assert all(document.nodes[child].parent == node_id for child in node.children)
        reached += node.children
    assert len(reached) == len(set(reached)) == len(document.nodes)
    assert document.nodes[ROOT].parent is None
    assert all(link.source in document.nodes and link.target in document.nodes for link in document.links)
    assert len({link.triple for link in document.links}) == len(document.links)
    assert len({link.id for link in document.links}) == len(document.links)
    assert all(newer.timestamp >= older.timestamp for newer, older in pairwise(document.activity_log))
    assert len(document.activity_log) <= 100
    assert document.updated_at == document.activity_log[0].timestamp
    for node in document.nodes.values():
        assert (node.status is not None) == (node.is_task), node
        assert len({touch.path for touch in node.files}) == len(node.files)
