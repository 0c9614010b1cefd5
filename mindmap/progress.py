"""How far a map has come: what counts as a task, totals, the active task, and the summary that lists show."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from mindmap.document import ACTIVE, BLOCKED, DONE, Mindmap, Node


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
