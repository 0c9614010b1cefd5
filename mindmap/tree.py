"""The tree of a map, walked without recursion: maps come from files, and a file may be nested without end."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from mindmap.document import ROOT, Mindmap, Node
from stores.errors import LineageError

# Enough to recognise the one that was meant.
NODES_NAMED: Final = 8
LABEL_NAMED: Final = 40


class UnknownNode(LineageError):
    """No node with this id in the map."""


def walk(nodes: Mapping[str, Node], start: str = ROOT) -> Iterator[tuple[Node, int]]:
    """The nodes from here on, parents before children in their order, each with its depth below the start."""
    waiting = [(start, 0)]
    while waiting:
        node_id, depth = waiting.pop()
        node = nodes[node_id]
        yield node, depth
        waiting += [(child, depth + 1) for child in reversed(node.children)]


def depth_of(nodes: Mapping[str, Node], node_id: str) -> int:
    """Levels below the root."""
    return len(ancestors(nodes, node_id))


def ancestors(nodes: Mapping[str, Node], node_id: str) -> list[str]:
    """The ids of what is above a node, nearest first."""
    above: list[str] = []
    parent = nodes[node_id].parent
    while parent is not None:
        above.append(parent)
        parent = nodes[parent].parent
    return above


def below(nodes: Mapping[str, Node], tops: Collection[str]) -> set[str]:
    """These nodes and everything under them."""
    return {node.id for top in tops for node, _ in walk(nodes, top)}


def find(document: Mindmap, node_id: str) -> Node:
    """The node with this id; the error names those that may have been meant."""
    node = document.nodes.get(node_id)
    if node is None:
        raise UnknownNode(
            f"There is no node {_shortened(node_id)!r} in {document.id}.", hint=_there(document, node_id)
        )
    return node


def _there(document: Mindmap, meant: str) -> str:
    wanted = meant.strip().casefold()
    same = [node for node in document.nodes.values() if node.label.casefold() == wanted]
    if same:
        return f"A node labelled so is there: {_named(same)}. Name nodes by their ids."
    top = [document.nodes[child] for child in document.nodes[ROOT].children]
    return f"There are {_named([document.nodes[ROOT], *top])}, and what is under them."


def _named(nodes: list[Node]) -> str:
    more = f" and {len(nodes) - NODES_NAMED:,} more" if len(nodes) > NODES_NAMED else ""
    return ", ".join(f"{node.id} ({_shortened(node.label)})" for node in nodes[:NODES_NAMED]) + more


def _shortened(label: str) -> str:
    line = " ".join(label.split())
    return line if len(line) <= LABEL_NAMED else f"{line[: LABEL_NAMED - 1]}…"
