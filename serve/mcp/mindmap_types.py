"""Input and output types of the mindmap tools, and construction of the outputs from documents (maps) and edits.

Descriptions and answers are short, since every token costs the agent money.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from mindmap import export, tree
from mindmap.document import ROOT, CodeChange, EditResult, Link, Mindmap, to_json_value
from mindmap.file_events import WatchStatus
from mindmap.git_sync import SyncResult
from mindmap.links import LinkRemoval, NewLink
from mindmap.map_store import MapList
from mindmap.nodes import NodeUpdate
from mindmap.tree import HINT_LABEL_LENGTH, Progress, compute_progress, shorten_label
from serve.text import escape_line
from stores.errors import LineageError

NodeType = Literal[
    "plan", "task", "file", "code", "note", "component", "data_flow", "decision", "hypothesis", "risk"
]
Status = Literal["planned", "in_progress", "completed", "blocked"]
TouchAction = Literal["read", "create", "modify", "delete", "rename"]
LinkStyle = Literal["solid", "dashed", "animated"]
CodeChangeKind = Literal["add", "modify", "fix", "refactor", "rename", "remove", "test"]

# Maximum number of lines of an outline: about 4,000 tokens. Agents read larger maps in parts.
MAX_OUTLINE_LINES: Final = 200
# Maximum numbers of links, found nodes and log entries in one answer. An agent that needs more searches with a query.
MAX_LINKS_SHOWN: Final = 50
MAX_NODES_FOUND: Final = 50
RECENT_ACTIVITY_COUNT: Final = 5
# Maximum length of a full answer: about 50,000 tokens. More would fill most of an agent's context.
MAX_FULL_CHARACTERS: Final = 200_000


class _ToolInput(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)


class NodeInput(_ToolInput):
    """A new node."""

    label: str
    type: NodeType = "task"
    status: Status | None = None
    children: list[dict[str, Any]] = []

    def to_dict(self) -> dict[str, Any]:
        """Return the node as `flatten_nodes` expects it."""
        return {"label": self.label, "type": self.type, "status": self.status, "children": self.children}


class NodeUpdateInput(_ToolInput):
    """A node's new values."""

    id: str
    label: str | None = None
    type: NodeType | None = None
    status: Status | None = None
    reason: str | None = None

    def to_update(self) -> NodeUpdate:
        """Return the update as `update_nodes` expects it."""
        return NodeUpdate(self.id, self.label, self.type, self.status, self.reason)


class LinkInput(_ToolInput):
    """A link to write."""

    source: Annotated[str, Field(alias="from")]
    target: Annotated[str, Field(alias="to")]
    label: str = ""
    style: LinkStyle | None = None
    notes: str | None = None

    def to_link(self) -> NewLink:
        """Return the link as `change_links` expects it."""
        return NewLink(self.source, self.target, self.label, self.style, self.notes)


class LinkRemovalInput(_ToolInput):
    """A link to remove, by its id or its ends."""

    id: str | None = None
    source: Annotated[str | None, Field(alias="from")] = None
    target: Annotated[str | None, Field(alias="to")] = None
    label: str | None = None

    def to_removal(self) -> LinkRemoval:
        """Return the removal as `change_links` expects it."""
        return LinkRemoval(self.id, self.source, self.target, self.label)


class CodeChangeInput(_ToolInput):
    """A change of a symbol; for a rename `symbol` is the new name."""

    kind: CodeChangeKind
    symbol: str
    previous_symbol: str | None = None
    detail: str | None = None

    def to_change(self) -> CodeChange:
        """Return the change as a part of a document."""
        return CodeChange(
            kind=self.kind, symbol=self.symbol, previous_symbol=self.previous_symbol, detail=self.detail
        )


class _ToolOutput(BaseModel):
    """Answer of a tool. Messages of the user, if there are any, are in an extra field `fromUser`."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True, extra="allow"
    )


class ChangeResult(_ToolOutput):
    """Answer for an edit. `ids` are in the order of the call, nested nodes after their parent."""

    mindmap_id: str
    message: str
    ids: list[str] = []
    progress: str = ""
    active_task: str = ""


OutputType = TypeVar("OutputType", bound=_ToolOutput)


class CreateResult(ChangeResult):
    """Answer for a new map. `viewer`: where the user sees it."""

    viewer: str
    watching: bool
    hint: str = ""


class AttachResult(_ToolOutput):
    """Answer for attached files. `synced`: number of these files. `node_id`, `node`: id and label of their node."""

    mindmap_id: str
    message: str
    synced: int
    node_id: str = ""
    node: str = ""
    watching: bool
    hint: str = ""


class AnswerResult(_ToolOutput):
    """Answer of the user to a question. `answer` is empty until there is one."""

    question_id: str
    answer: str = ""
    hint: str = ""


class MapLine(_ToolOutput):
    """A map in a list."""

    id: str
    title: str
    workspace_path: str
    updated_at: str
    nodes: int
    progress: str
    active_task: str


class MapListing(_ToolOutput):
    """List of maps, newest first. `total`: number of all maps, including those beyond the limit."""

    maps: list[MapLine]
    total: int
    problems: list[str]


class MapView(_ToolOutput):
    """Content of a map: `outline`, with ids in braces, or `document`, with complete nodes and links."""

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


class ResponseTooLarge(LineageError):
    """Error for an answer that exceeds MAX_FULL_CHARACTERS."""


def add_messages(result: OutputType, messages: Collection[str]) -> OutputType:
    """Return an answer with messages of the user; the unchanged answer if there are none."""
    return result.model_copy(update={"fromUser": list(messages)}) if messages else result


def build_change_result(edit: EditResult) -> ChangeResult:
    """Return the answer for an edit, with the progress of the map after it."""
    progress = compute_progress(edit.document)
    return ChangeResult(
        mindmap_id=edit.document.id,
        message=edit.message + (f" ({edit.warning})" if edit.warning else ""),
        ids=list(edit.ids),
        progress=str(progress),
        active_task=_format_active_task(edit.document, progress),
    )


def build_attach_result(
    edit: EditResult, requested_id: str | None, file_count: int, status: WatchStatus
) -> AttachResult:
    """Return the answer for attached files. If the requested node does not exist, the message names the node used."""
    node = edit.document.nodes[edit.ids[0]]
    is_other_node = requested_id not in (None, node.id)
    name = escape_line(shorten_label(requested_id or "", HINT_LABEL_LENGTH))
    note = f" ({name} does not exist; attached to {node.id})" if is_other_node else ""
    return AttachResult(
        mindmap_id=edit.document.id,
        synced=file_count,
        node_id=node.id,
        node=node.label,
        message=edit.message + note,
        watching=status.is_watched,
        hint=" ".join(filter(None, (edit.warning, status.message))),
    )


def build_sync_result(sync: SyncResult, requested_id: str | None, status: WatchStatus) -> AttachResult:
    """Return the answer for a git sync, also if it attached no files."""
    if sync.edit is not None:
        return build_attach_result(sync.edit, requested_id, sync.file_count, status)
    return AttachResult(
        mindmap_id=sync.document.id,
        synced=0,
        message="Nothing differs from HEAD",
        watching=status.is_watched,
        hint=status.message,
    )


def build_map_listing(map_list: MapList, limit: int) -> MapListing:
    """Return the answer with the first `limit` maps of a list."""
    lines = [
        MapLine(
            id=summary.id,
            title=summary.title,
            workspace_path=summary.workspace_path or "",
            updated_at=summary.updated_at,
            nodes=summary.node_count,
            progress=f"{summary.completed_tasks}/{summary.total_tasks}",
            active_task=summary.active_task or "",
        )
        for summary in map_list.summaries[:limit]
    ]
    return MapListing(maps=lines, total=len(map_list.summaries), problems=map_list.problems)


def build_view(document: Mindmap, start_id: str, query: str, *, full: bool) -> MapView:
    """Return the subtree of a node as an outline, or its complete nodes and links if `full`.

    With a query, return only the nodes that match it. Raises UnknownNode and, only with `full`, ResponseTooLarge.
    """
    tree.get_node(document, start_id)
    progress = compute_progress(document)
    view = MapView(
        mindmap_id=document.id,
        title=document.title,
        workspace_path=document.workspace_path or "",
        updated_at=document.updated_at,
        progress=str(progress),
        active_task=_format_active_task(document, progress),
        node_count=len(document.nodes),
    )
    if full:
        return view.model_copy(update={"document": _build_full_document(document, start_id, query)})
    lines, omitted_count = _select_lines(document, start_id, query)
    ids = {line.node.id for line in lines}
    links = [_format_link(link) for link in document.links if {link.source, link.target} & ids]
    activity = [
        f"{entry.timestamp} {entry.message}" for entry in document.activity_log[:RECENT_ACTIVITY_COUNT]
    ]
    link_note = [f"and {len(links) - MAX_LINKS_SHOWN:,} more"] if len(links) > MAX_LINKS_SHOWN else []
    return view.model_copy(
        update={
            "outline": export.format_outline(lines)
            + (f"\n… {omitted_count:,} more: search with query" if omitted_count else ""),
            "links": [*links[:MAX_LINKS_SHOWN], *link_note],
            "activity": activity if start_id == ROOT and not query else [],
        }
    )


def _select_lines(document: Mindmap, start_id: str, query: str) -> tuple[list[export.OutlineLine], int]:
    """Return the outline lines that fit into an answer, and the number of nodes that no line shows or counts.

    A line counts the hidden nodes below its node.
    """
    if query:
        nodes = list(tree.find_nodes(document, query, start_id))
        lines = [
            export.OutlineLine(node, 0, len(tree.collect_subtree_ids(document.nodes, node.children)))
            for node in nodes[:MAX_NODES_FOUND]
        ]
        return lines, len(nodes) - len(lines)
    lines = export.build_outline(document, start_id, max_lines=MAX_OUTLINE_LINES)
    counted_nodes = sum(1 + line.hidden_count for line in lines)
    return lines, len(tree.collect_subtree_ids(document.nodes, [start_id])) - counted_nodes


def _build_full_document(document: Mindmap, start_id: str, query: str) -> dict[str, Any]:
    ids = {node.id for node in tree.find_nodes(document, query, start_id)}
    content = {
        "nodes": [to_json_value(node) for node, _ in tree.walk(document.nodes, start_id) if node.id in ids],
        "links": [to_json_value(link) for link in document.links if {link.source, link.target} & ids],
    }
    if start_id == ROOT and not query:
        content["activityLog"] = to_json_value(document.activity_log)
    length = len(str(content))
    if length > MAX_FULL_CHARACTERS:
        raise ResponseTooLarge(
            f"The answer would have {length:,} characters; the limit is {MAX_FULL_CHARACTERS:,}.",
            hint="Read the outline, then a node with nodeId, or search with query.",
        )
    return content


def _format_link(link: Link) -> str:
    label = f" {link.label!r}" if link.label else ""
    return f"{link.source} -> {link.target}{label} {{{link.id}}}"


def _format_active_task(document: Mindmap, progress: Progress) -> str:
    return (
        f"{document.nodes[progress.active_task_id].label} {{{progress.active_task_id}}}"
        if progress.active_task_id
        else ""
    )
