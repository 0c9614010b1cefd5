"""What the tools of a mindmap take and give, as clients see it: field by field, and no more words than needed.

Maps and edits as the tools answer them: small, since an agent pays for every word.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.json_schema import SkipJsonSchema

from mindmap import export, tree
from mindmap.document import ROOT, CodeChange, Edited, Link, Mindmap, plain
from mindmap.file_events import Watching
from mindmap.git_sync import Synced
from mindmap.links import Cut, NewLink
from mindmap.map_store import Listed
from mindmap.nodes import NodeUpdate
from mindmap.tree import Progress, progress
from stores.errors import LineageError

NodeType = Literal[
    "plan", "task", "file", "code", "note", "component", "data_flow", "decision", "hypothesis", "risk"
]
Status = Literal["planned", "in_progress", "completed", "blocked"]
Action = Literal["read", "create", "modify", "delete", "rename"]
Style = Literal["solid", "dashed", "animated"]
Kind = Literal["add", "modify", "fix", "refactor", "rename", "remove", "test"]
# What may be left out, or null; to say so of each argument costs as much as its description.
Absent = SkipJsonSchema[None]


class _Taken(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)


class NodeForm(_Taken):
    """A new node."""

    label: str
    type: NodeType = "task"
    status: Status | Absent = None
    children: Annotated[list[dict[str, Any]], Field(description="Nodes of this form, nested.")] = []

    def plain(self) -> dict[str, Any]:
        """As the rules take it."""
        return {"label": self.label, "type": self.type, "status": self.status, "children": self.children}


class UpdateForm(_Taken):
    """A node's new values."""

    id: str
    label: str | Absent = None
    type: NodeType | Absent = None
    status: Status | Absent = None

    def update(self) -> NodeUpdate:
        """As the rules take it."""
        return NodeUpdate(self.id, self.label, self.type, self.status)


class LinkForm(_Taken):
    """A link to write."""

    source: Annotated[str, Field(alias="from")]
    target: Annotated[str, Field(alias="to")]
    label: str = ""
    style: Annotated[
        Style | Absent, Field(description="dashed: hypotheses, soft dependencies; animated: streams, events")
    ] = None
    notes: str | Absent = None

    def link(self) -> NewLink:
        """As the rules take it."""
        return NewLink(self.source, self.target, self.label, self.style, self.notes)


class CutForm(_Taken):
    """A link to remove: its id, or its ends."""

    id: str | Absent = None
    source: Annotated[str | Absent, Field(alias="from")] = None
    target: Annotated[str | Absent, Field(alias="to")] = None
    label: str | Absent = None

    def cut(self) -> Cut:
        """As the rules take it."""
        return Cut(self.id, self.source, self.target, self.label)


class ChangeForm(_Taken):
    """What was done to a symbol; for a rename `symbol` is the new name."""

    kind: Kind
    symbol: str
    previous_symbol: str | Absent = None
    detail: str | Absent = None

    def change(self) -> CodeChange:
        """As the rules take it."""
        return CodeChange(
            kind=self.kind, symbol=self.symbol, previous_symbol=self.previous_symbol, detail=self.detail
        )


class _Given(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True)


class Changed(_Given):
    """`ids` in the order of the call, nested nodes after their parent."""

    mindmap_id: str
    message: str
    ids: list[str] = []
    progress: str = ""
    active_task: str = ""


class Created(Changed):
    """`viewer`: where a person sees the map."""

    viewer: str
    watching: bool
    hint: str = ""


class Attached(_Given):
    """`node_id`: where the files are now."""

    mindmap_id: str
    message: str
    synced: int
    node_id: str = ""
    node: str = ""
    watching: bool
    hint: str = ""


class Line(_Given):
    """A map in a list."""

    id: str
    title: str
    workspace_path: str
    updated_at: str
    nodes: int
    progress: str
    active_task: str


class Maps(_Given):
    """Newest first."""

    maps: list[Line]
    total: int
    problems: list[str]


class View(_Given):
    """An outline with ids in braces, or `document`: nodes and links whole."""

    mindmap_id: str
    title: str
    workspace_path: str
    updated_at: str
    progress: str
    active_task: str
    node_count: int
    outline: str = ""
    links: list[str] = []
    activity: list[str] = []
    document: dict[str, Any] = {}


# About 4,000 tokens of outline: a map this large is read part by part.
MOST_LINES: Final = 200
MOST_LINKS: Final = 50
MOST_FOUND: Final = 50
RECENT: Final = 5
# About 50,000 tokens. More in one answer crowds out what it was asked for.
LONGEST_FULL: Final = 200_000


class TooMuchToRead(LineageError):
    """More of a map than fits into one answer."""


def changed(done: Edited) -> Changed:
    """What an edit did, and how the map stands now."""
    stands = progress(done.document)
    return Changed(
        mindmap_id=done.document.id,
        message=done.message,
        ids=list(done.ids),
        progress=str(stands),
        active_task=_active(done.document, stands),
    )


def attached(done: Edited, asked: str | None, files: int, watching: Watching) -> Attached:
    """Where files were attached; that it is not where it was asked for, if so."""
    node = done.document.nodes[done.ids[0]]
    elsewhere = f" ({asked} is not there; attached to {node.id})" if asked not in (None, node.id) else ""
    return Attached(
        mindmap_id=done.document.id,
        synced=files,
        node_id=node.id,
        node=node.label,
        message=done.message + elsewhere,
        watching=watching.is_on,
        hint=watching.remark,
    )


def synced(found: Synced, asked: str | None, watching: Watching) -> Attached:
    """The same of what git sync found, which may be nothing."""
    if found.done is not None:
        return attached(found.done, asked, found.files, watching)
    return Attached(
        mindmap_id=found.document.id,
        synced=0,
        message="Nothing differs from HEAD",
        watching=watching.is_on,
        hint=watching.remark,
    )


def listed(found: Listed, limit: int) -> Maps:
    """The first of the maps that were found."""
    lines = [
        Line(
            id=one.id,
            title=one.title,
            workspace_path=one.workspace_path or "",
            updated_at=one.updated_at,
            nodes=one.node_count,
            progress=f"{one.completed_tasks}/{one.total_tasks}",
            active_task=one.active_task or "",
        )
        for one in found.summaries[:limit]
    ]
    return Maps(maps=lines, total=len(found.summaries), problems=found.problems)


def view(document: Mindmap, start: str, query: str, *, full: bool) -> View:
    """A map or what is under one of its nodes: as an outline, what is found in it, or whole."""
    tree.find(document, start)
    stands = progress(document)
    seen = View(
        mindmap_id=document.id,
        title=document.title,
        workspace_path=document.workspace_path or "",
        updated_at=document.updated_at,
        progress=str(stands),
        active_task=_active(document, stands),
        node_count=len(document.nodes),
    )
    if full:
        return seen.model_copy(update={"document": _whole(document, start, query)})
    shown, left = _shown(document, start, query)
    ids = {line.node.id for line in shown}
    links = [_line(link) for link in document.links if {link.source, link.target} & ids]
    activity = [f"{entry.timestamp} {entry.message}" for entry in document.activity_log[:RECENT]]
    more = [f"and {len(links) - MOST_LINKS:,} more"] if len(links) > MOST_LINKS else []
    return seen.model_copy(
        update={
            "outline": export.text(shown) + (f"\n… {left:,} more: search with query" if left else ""),
            "links": [*links[:MOST_LINKS], *more],
            "activity": activity if start == ROOT and not query else [],
        }
    )


def _shown(document: Mindmap, start: str, query: str) -> tuple[list[export.Line], int]:
    """What one answer shows, and how many nodes are neither shown nor counted below one that is."""
    if query:
        found = list(tree.nodes_with(document, query, start))
        first = [
            export.Line(node, 0, len(tree.below(document.nodes, node.children)))
            for node in found[:MOST_FOUND]
        ]
        return first, len(found) - len(first)
    shown = export.lines(document, start, most=MOST_LINES)
    counted = sum(1 + line.hidden for line in shown)
    return shown, len(tree.below(document.nodes, [start])) - counted


def _whole(document: Mindmap, start: str, query: str) -> dict[str, Any]:
    inside = {node.id for node in tree.nodes_with(document, query, start)}
    part = {
        "nodes": [plain(node) for node, _ in tree.walk(document.nodes, start) if node.id in inside],
        "links": [plain(link) for link in document.links if {link.source, link.target} & inside],
    }
    if start == ROOT and not query:
        part["activityLog"] = plain(document.activity_log)
    length = len(str(part))
    if length > LONGEST_FULL:
        raise TooMuchToRead(
            f"That is {length:,} characters; an answer has at most {LONGEST_FULL:,}.",
            hint="Read the outline, then a node with nodeId, or search with query.",
        )
    return part


def _line(link: Link) -> str:
    label = f" {link.label!r}" if link.label else ""
    return f"{link.source} -> {link.target}{label} {{{link.id}}}"


def _active(document: Mindmap, stands: Progress) -> str:
    return f"{document.nodes[stands.active].label} {{{stands.active}}}" if stands.active else ""
