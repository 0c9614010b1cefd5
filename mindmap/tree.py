"""How far a map has come: what counts as a task, totals, the active task, and the summary that lists show.

The tree of a map, walked without recursion: maps come from files, and a file may be nested without end.

Finding maps and nodes by the words in them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from mindmap.document import ACTIVE, BLOCKED, DONE, ROOT, Mindmap, Node
from stores.errors import LineageError


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts of the nodes that have a status; `active` is the id of the most recent in progress, if one is."""

    completed: int
    in_progress: int
    blocked: int
    total: int
    active: str | None

    def __str__(self) -> str:
        if not self.total:
            return "no tasks yet"
        return f"{self.completed} of {self.total} done ({100 * self.completed // self.total} %)"


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """A map in one line of a list; `active_task` is a label, `file_count` counts distinct paths."""

    id: str
    title: str
    workspace_path: str | None
    updated_at: str
    created_at: str
    node_count: int
    completed_tasks: int
    total_tasks: int
    active_task: str | None
    file_count: int


def progress(document: Mindmap) -> Progress:
    """What is done, and what is being done."""
    tasks = [node for node in document.nodes.values() if node.is_task]
    states = [node.status for node in tasks]
    active = active_task(document)
    return Progress(
        completed=states.count(DONE),
        in_progress=states.count(ACTIVE),
        blocked=states.count(BLOCKED),
        total=len(tasks),
        active=active.id if active else None,
    )


def active_task(document: Mindmap) -> Node | None:
    """The most recently updated task in progress; of several updated at once the last.

    Other programs do not date their nodes: the activity log then says which was updated last.
    """
    active = [node for node in document.nodes.values() if node.is_task and node.status == ACTIVE]
    logged: dict[str, str] = {}
    for entry in document.activity_log:
        logged.setdefault(entry.node_id or "", entry.timestamp)
    dated = [(node.updated_at or logged.get(node.id, ""), place) for place, node in enumerate(active)]
    return active[max(dated)[1]] if dated else None


def summary(document: Mindmap) -> Summary:
    """The map in one line."""
    stands = progress(document)
    paths = {touch.path for node in document.nodes.values() for touch in node.files}
    return Summary(
        id=document.id,
        title=document.title,
        workspace_path=document.workspace_path,
        updated_at=document.updated_at,
        created_at=document.created_at,
        node_count=len(document.nodes),
        completed_tasks=stands.completed,
        total_tasks=stands.total,
        active_task=document.nodes[stands.active].label if stands.active else None,
        file_count=len(paths),
    )


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


def has_words(document: Mindmap, query: str) -> bool:
    """Whether a map has every one of the words: in its title, its workspace, or anywhere on its nodes."""
    words = query.casefold().split()
    if not words:
        return True
    named = f"{document.id} {document.title} {document.workspace_path or ''}"
    said = "\n".join([named, *map(_said, document.nodes.values())]).casefold()
    return all(word in said for word in words)


def nodes_with(document: Mindmap, query: str, start: str) -> Iterator[Node]:
    """The nodes from one on that have every one of the words."""
    words = query.casefold().split()
    for node, _ in walk(document.nodes, start):
        said = _said(node).casefold()
        if all(word in said for word in words):
            yield node


def _said(node: Node) -> str:
    touched = " ".join(" ".join((touch.path, touch.summary or "", *touch.symbols)) for touch in node.files)
    return f"{node.id} {node.label} {node.type} {node.status or ''} {touched}"
