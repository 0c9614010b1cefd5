"""What the tools of a mindmap take and give, as clients see it: field by field, and no more words than needed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.json_schema import SkipJsonSchema

from mindmap.document import CodeChange
from mindmap.edits import NodeUpdate
from mindmap.linking import Cut, NewLink

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
