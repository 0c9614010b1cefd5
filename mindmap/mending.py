"""Maps that another program or a person's editor left at odds with themselves, put right without losing a node.

Edits rely on it: every node but the root has one parent, which lists it once; links join nodes that are there.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from mindmap.document import ROOT, Mindmap, Node


def mended(document: Mindmap) -> Mindmap:
    """The document, put right where that is needed.

    A node that nothing lists goes where it says it belongs, or else under the root; of several that list a node
    the first keeps it; a child or a link's end that is not there is dropped.
    """
    if _is_sound(document):
        return document
    nodes = {node_id: replace(node, id=node_id) for node_id, node in document.nodes.items()}
    nodes.setdefault(ROOT, Node(id=ROOT, label=document.title, type=ROOT))
    parents = _parents(nodes)
    children: dict[str, list[str]] = {node_id: [] for node_id in nodes}
    for node_id, parent in parents.items():
        children[parent].append(node_id)
    made = {
        node_id: replace(node, parent=parents.get(node_id), children=tuple(children[node_id]))
        for node_id, node in nodes.items()
    }
    links = tuple(link for link in document.links if link.source in made and link.target in made)
    return replace(document, nodes=made, links=links)


def _is_sound(document: Mindmap) -> bool:
    nodes = document.nodes
    root = nodes.get(ROOT)
    if root is None or root.parent is not None or root.id != ROOT:
        return False
    reached, waiting = {ROOT}, [root]
    while waiting:
        node = waiting.pop()
        for child_id in node.children:
            child = nodes.get(child_id)
            if child is None or child_id in reached or child.parent != node.id or child.id != child_id:
                return False
            reached.add(child_id)
            waiting.append(child)
    return len(reached) == len(nodes) and all(
        link.source in nodes and link.target in nodes for link in document.links
    )


def _parents(nodes: Mapping[str, Node]) -> dict[str, str]:
    """The parent of every node but the root, in an order that keeps that of the children."""
    parents: dict[str, str] = {}
    _adopt(nodes, ROOT, parents)
    for node_id in nodes:
        _find_home(nodes, _lost_from(nodes, node_id, parents), parents)
    return parents


def _find_home(nodes: Mapping[str, Node], lost: list[str], parents: dict[str, str]) -> None:
    """Put each lost node under the one before, if that is what it says; the first goes under the root."""
    places = {node_id: place for place, node_id in enumerate(lost)}
    place = 0
    while place < len(lost):
        stated = nodes[lost[place]].parent
        parents[lost[place]] = (
            stated if stated is not None and (stated == ROOT or stated in parents) else ROOT
        )
        # Whatever says that it is under one that is found now comes next; what stands in between keeps for later.
        found = _adopt(nodes, lost[place], parents)
        place = 1 + max([place, *(places[child] for child in found if child in places)])


def _adopt(nodes: Mapping[str, Node], start: str, parents: dict[str, str]) -> list[str]:
    """Give every node that is listed from here on to the first that lists it; which these are."""
    waiting, found = [start], []
    while waiting:
        parent = waiting.pop()
        for child in nodes[parent].children:
            if child in nodes and child not in parents and child != ROOT:
                parents[child] = parent
                waiting.append(child)
                found.append(child)
    return found


def _lost_from(nodes: Mapping[str, Node], node_id: str, parents: Mapping[str, str]) -> list[str]:
    """The lost nodes above this one and itself, the highest first; of a circle, all."""
    above: dict[str, None] = {}
    lost: str | None = node_id
    while lost is not None and lost != ROOT and lost in nodes and lost not in parents and lost not in above:
        above[lost] = None
        lost = nodes[lost].parent
    return list(above)[::-1]
