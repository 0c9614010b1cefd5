"""Tree of the nodes of a mindmap (short: map): traversal, task progress, map summaries and word search.

Traversal is iterative, since a map read from a file may be nested deeper than Python's recursion limit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from mindmap.document import BLOCKED, COMPLETED, IN_PROGRESS, ROOT, Mindmap, Node
from stores.errors import LineageError


@dataclass(frozen=True, slots=True)
class Progress:
    """Task counts of a map. `active_task_id` is the id of the most recent task in progress; None if there is none."""

    completed: int
    in_progress: int
    blocked: int
    total: int
    active_task_id: str | None

    def __str__(self) -> str:
        if not self.total:
            return "no tasks yet"
        return f"{self.completed} of {self.total} done ({100 * self.completed // self.total} %)"


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """Summary of a map for lists. `active_task` is a label; `file_count` is the number of different paths."""

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


def compute_progress(document: Mindmap) -> Progress:
    """Count the tasks of a map by status."""
    tasks = [node for node in document.nodes.values() if node.is_task]
    statuses = [node.status for node in tasks]
    active_task = find_active_task(document)
    return Progress(
        completed=statuses.count(COMPLETED),
        in_progress=statuses.count(IN_PROGRESS),
        blocked=statuses.count(BLOCKED),
        total=len(tasks),
        active_task_id=active_task.id if active_task else None,
    )


def find_active_task(document: Mindmap) -> Node | None:
    """Return the most recently updated task in progress; None if there is none.

    Of several tasks with the same time, the last one in the map is returned. For a task without `updated_at`, which
    another program wrote, the time of its newest entry in the activity log counts.
    """
    active_tasks = [node for node in document.nodes.values() if node.is_task and node.status == IN_PROGRESS]
    log_times: dict[str, str] = {}
    for entry in document.activity_log:  # the newest entry is the first
        log_times.setdefault(entry.node_id or "", entry.timestamp)
    # `max` returns the first of equal items. Reversed, it returns the last task of the map instead.
    return max(
        reversed(active_tasks),
        key=lambda node: node.updated_at or log_times.get(node.id, ""),
        default=None,
    )


def summarize(document: Mindmap) -> Summary:
    """Return the summary of a map."""
    progress = compute_progress(document)
    paths = {touch.path for node in document.nodes.values() for touch in node.files}
    return Summary(
        id=document.id,
        title=document.title,
        workspace_path=document.workspace_path,
        updated_at=document.updated_at,
        created_at=document.created_at,
        node_count=len(document.nodes),
        completed_tasks=progress.completed,
        total_tasks=progress.total,
        active_task=document.nodes[progress.active_task_id].label if progress.active_task_id else None,
        file_count=len(paths),
    )


# Maximum number of nodes that the hint of an UnknownNode error lists.
MAX_NODES_IN_HINT: Final = 8
# Maximum length of a label or id in the text of an UnknownNode error.
HINT_LABEL_LENGTH: Final = 40
# Maximum length of a label in the activity log.
MESSAGE_LABEL_LENGTH: Final = 60


class CyclicNodes(ValueError):
    """Error for a node that is its own ancestor. Reading a map repairs cycles, so only a wrong edit causes this."""


class UnknownNode(LineageError):
    """Error for a node id that the map does not have."""


def walk(nodes: Mapping[str, Node], start_id: str = ROOT) -> Iterator[tuple[Node, int]]:
    """Yield a node and its subtree in depth-first order, each node with its depth below `start_id`, from 0.

    Raises CyclicNodes instead of yielding nodes forever.
    """
    stack = [(start_id, 0)]
    while stack:
        node_id, depth = stack.pop()
        if depth >= len(nodes):
            raise CyclicNodes(node_id)
        node = nodes[node_id]
        yield node, depth
        stack += [(child, depth + 1) for child in reversed(node.children)]


def compute_depth(nodes: Mapping[str, Node], node_id: str) -> int:
    """Return the number of ancestors of a node: 0 for the root."""
    return len(list_ancestors(nodes, node_id))


def list_ancestors(nodes: Mapping[str, Node], node_id: str) -> list[str]:
    """Return the ids of a node's ancestors, nearest first. Raises CyclicNodes instead of going up forever."""
    ids: list[str] = []
    parent = nodes[node_id].parent
    while parent is not None:
        if len(ids) >= len(nodes):
            raise CyclicNodes(node_id)
        ids.append(parent)
        parent = nodes[parent].parent
    return ids


def collect_subtree_ids(nodes: Mapping[str, Node], start_ids: Collection[str]) -> set[str]:
    """Return the ids of these nodes and of their subtrees."""
    return {node.id for start_id in start_ids for node, _ in walk(nodes, start_id)}


def get_node(document: Mindmap, node_id: str) -> Node:
    """Return the node with this id. The UnknownNode error suggests existing nodes."""
    node = document.nodes.get(node_id)
    if node is None:
        raise UnknownNode(
            f"There is no node {shorten_label(node_id, HINT_LABEL_LENGTH)!r} in {document.id}.",
            hint=_format_unknown_node_hint(document, node_id),
        )
    return node


def shorten_label(label: str, max_length: int = MESSAGE_LABEL_LENGTH) -> str:
    """Return a label on one line, with at most `max_length` characters."""
    single_line = " ".join(label.split())
    return single_line if len(single_line) <= max_length else f"{single_line[: max_length - 1]}…"


def _format_unknown_node_hint(document: Mindmap, node_id: str) -> str:
    label = node_id.strip().casefold()
    nodes_with_label = [node for node in document.nodes.values() if node.label.casefold() == label]
    if nodes_with_label:
        return (
            f"A node has this label: {_format_nodes(nodes_with_label)}. Use the id of a node, not its label."
        )
    top_nodes = [document.nodes[child] for child in document.nodes[ROOT].children]
    return f"The top nodes are {_format_nodes([document.nodes[ROOT], *top_nodes])}."


def _format_nodes(nodes: list[Node]) -> str:
    more = f" and {len(nodes) - MAX_NODES_IN_HINT:,} more" if len(nodes) > MAX_NODES_IN_HINT else ""
    descriptions = (
        f"{node.id} ({shorten_label(node.label, HINT_LABEL_LENGTH)})" for node in nodes[:MAX_NODES_IN_HINT]
    )
    return ", ".join(descriptions) + more


def matches_words(document: Mindmap, query: str) -> bool:
    """Return True if a map contains all words of the query in its id, title, workspace or nodes, ignoring case."""
    words = query.casefold().split()
    map_text = f"{document.id} {document.title} {document.workspace_path or ''}"
    search_text = "\n".join([map_text, *map(_build_search_text, document.nodes.values())]).casefold()
    return all(word in search_text for word in words)


def find_nodes(document: Mindmap, query: str, start_id: str) -> Iterator[Node]:
    """Yield the nodes of the subtree of `start_id` that contain all words of the query, ignoring case."""
    words = query.casefold().split()
    for node, _ in walk(document.nodes, start_id):
        search_text = _build_search_text(node).casefold()
        if all(word in search_text for word in words):
            yield node


def _build_search_text(node: Node) -> str:
    files = " ".join(" ".join((touch.path, touch.summary or "", *touch.symbols)) for touch in node.files)
    return f"{node.id} {node.label} {node.type} {node.status or ''} {node.reason or ''} {files}"
