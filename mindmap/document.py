"""A mindmap document: its types, and how they are read from JSON and written to it.

Values never change: an edit makes new ones. What a newer version wrote and this one has no field for travels along
under `unknown` and stands in its old place again when the document is written. Names of node types, statuses and
actions are checked where somebody gives one, not where a file is read, for the same reason.

msgspec reads and checks a map of 5,000 nodes in 5 ms and writes it in 2; the standard library took 60 ms for the
JSON alone.

Moments as they stand in documents: ISO 8601, UTC, with milliseconds, so that text order is order in time.

What an edit leaves behind: the changed map, its activity log, and what is to be told of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from stores.errors import LineageError

ROOT: Final = "root"
DEFAULT_TYPE: Final = "task"
# Those that may have a status; the other types of the plan and all of the mental model have none.
TASK_TYPES: Final = ("plan", "task", "code")
NODE_TYPES: Final = (
    "plan",
    "task",
    "file",
    "code",
    "note",
    "component",
    "data_flow",
    "decision",
    "hypothesis",
    "risk",
)
DEFAULT_STATUS: Final = "planned"
ACTIVE: Final = "in_progress"
DONE: Final = "completed"
BLOCKED: Final = "blocked"
STATUSES: Final = (DEFAULT_STATUS, ACTIVE, DONE, BLOCKED)
DEFAULT_ACTION: Final = "modify"
ACTIONS: Final = ("read", "create", "modify", "delete", "rename")
LINK_STYLES: Final = ("solid", "dashed", "animated")
# Each with the glyph people see.
CHANGE_KINDS: Final = {
    "add": "+",
    "modify": "~",
    "fix": "✱",
    "refactor": "⟲",
    "rename": "↦",
    "remove": "\N{MINUS SIGN}",
    "test": "✓",
}

# No field of any version is called so; no file has it.
UNKNOWN: Final = "(unknown)"

Default = TypeVar("Default")


class DamagedMindmap(LineageError):
    """A file that is no JSON: cut short, or something else altogether."""


class ForeignMindmap(LineageError):
    """A file that is sound JSON and no mindmap that this version can read: perhaps one that a later version can."""


def _written(default: Default) -> Default:
    """The default of a field that stands in the JSON even where it has its default."""
    field: Default = msgspec.field(default_factory=lambda: default)
    return field


class _Value(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,  # values that never change are in no circle, and looking for one took as long as all the rest
):
    """What all parts of a document share: `unknown` is what this version has no field for."""

    unknown: dict[str, Any] = msgspec.field(default_factory=dict, name=UNKNOWN)


class CodeChange(_Value, frozen=True, kw_only=True):
    """What was done to one symbol. For a rename `symbol` is the new name; `kind` is one of CHANGE_KINDS."""

    kind: str
    symbol: str
    previous_symbol: str | None = None
    detail: str | None = None


class FileTouch(_Value, frozen=True, kw_only=True):
    """A file attached to a node.

    `path` is relative to the workspace, or absolute outside it; `previous_path` the one before a rename; `lines`
    a range such as `10-20`; `timestamp` when it was recorded last.
    """

    path: str
    action: str = _written(DEFAULT_ACTION)
    previous_path: str | None = None
    lines: str | None = None
    symbols: tuple[str, ...] = ()
    changes: tuple[CodeChange, ...] = ()
    summary: str | None = None
    timestamp: str = _written("")


class Node(_Value, frozen=True, kw_only=True):
    """A node of the map.

    Only TASK_TYPES have a `status`; a stored root may have one that means nothing. `parent` is None for the root.
    `updated_at` is when the node itself or its files changed last: it decides which of several active tasks is
    the most recent.
    """

    id: str
    label: str
    type: str = _written(DEFAULT_TYPE)
    status: str | None = None
    parent: str | None = _written(None)
    children: tuple[str, ...] = _written(())
    files: tuple[FileTouch, ...] = ()
    updated_at: str | None = None

    @property
    def is_task(self) -> bool:
        """Whether the node has a status and counts towards progress."""
        return self.type in TASK_TYPES and self.id != ROOT


class Link(_Value, frozen=True, kw_only=True):
    """A labelled arrow between two nodes; `style` is one of LINK_STYLES, None for the first."""

    id: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    label: str = _written("")
    style: str | None = None
    notes: str | None = None

    @property
    def triple(self) -> tuple[str, str, str]:
        """What a link is known by."""
        return self.source, self.target, self.label


class Activity(_Value, frozen=True, kw_only=True):
    """One entry of the activity log: a change, or a batch of them."""

    timestamp: str
    message: str
    node_id: str | None = None
    file: str | None = None


class Mindmap(_Value, frozen=True, kw_only=True):
    """A whole map. `workspace_path` is a folder in a git repository; `activity_log` has the newest entry first."""

    id: str = _written("")
    title: str
    workspace_path: str | None = None
    created_at: str = _written("")
    updated_at: str = _written("")
    nodes: Mapping[str, Node]
    links: tuple[Link, ...] = _written(())
    activity_log: tuple[Activity, ...] = _written(())


def decode(content: bytes, mindmap_id: str) -> Mindmap:
    """The document in a file; its id is the one that the file is named by."""
    try:
        document = _decoded(content)
    except msgspec.ValidationError as error:
        raise ForeignMindmap(
            f"{mindmap_id} is no mindmap that this version can read: {error}.",
            hint="It was left as it is. A newer version may read it.",
        ) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamagedMindmap(f"{mindmap_id} is damaged: {error}.") from error
    except RecursionError as error:
        raise DamagedMindmap(f"{mindmap_id} is damaged: it is nested too deeply to be read.") from error
    return msgspec.structs.replace(document, id=mindmap_id)


def _decoded(content: bytes) -> Mindmap:
    with suppress(msgspec.ValidationError):  # nearly all files have no unknown fields, and this is fast
        return msgspec.json.decode(content, type=Mindmap)
    return msgspec.convert(_gathered(msgspec.json.decode(content), Mindmap), Mindmap)


def encode(document: Mindmap) -> bytes:
    """The document as it stands in a file: on one line, because laying it out took longer than all of this."""
    content = msgspec.json.encode(document)
    # A quotation mark inside a text is escaped, so this is found where a value has the field and nowhere else.
    if f'"{UNKNOWN}":'.encode() in content:
        content = msgspec.json.encode(_spread(msgspec.json.decode(content), Mindmap))
    return content + b"\n"


def readable(document: Mindmap) -> str:
    """The same, laid out for people."""
    return msgspec.json.format(encode(document), indent=2).decode().rstrip("\n") + "\n"


def plain(value: _Value | Iterable[_Value]) -> Any:
    """A part of a document as JSON has it."""
    if isinstance(value, _Value):
        return _spread(msgspec.json.decode(msgspec.json.encode(value)), type(value))
    return [plain(part) for part in value]


_PARTS: Final[dict[type[_Value], dict[str, type[_Value]]]] = {
    Mindmap: {"nodes": Node, "links": Link, "activityLog": Activity},
    Node: {"files": FileTouch},
    FileTouch: {"changes": CodeChange},
    CodeChange: {},
    Link: {},
    Activity: {},
}
_KNOWN: Final = {kind: frozenset(kind.__struct_encode_fields__) - {UNKNOWN} for kind in _PARTS}


def _gathered(raw: Any, kind: type[_Value]) -> Any:
    """The same with whatever `kind` has no field for put under `unknown`, in its parts too.

    What is not shaped as expected is left as it is, for `convert` to name it.
    """
    if not isinstance(raw, dict):
        return raw
    for name, part in _PARTS[kind].items():
        if name in raw:
            raw[name] = _each(raw[name], lambda value, part=part: _gathered(value, part))
    strange = raw.keys() - _KNOWN[kind]
    if not strange:
        return raw
    known = {name: value for name, value in raw.items() if name not in strange}
    return known | {UNKNOWN: {name: raw[name] for name in raw if name in strange}}


def _spread(raw: Any, kind: type[_Value]) -> Any:
    """`_gathered`, undone."""
    for name, part in _PARTS[kind].items():
        if name in raw:
            raw[name] = _each(raw[name], lambda value, part=part: _spread(value, part))
    strange = raw.pop(UNKNOWN, {})
    return {**raw, **strange}


def _each(values: Any, change: Any) -> Any:
    if isinstance(values, dict):
        return {name: change(value) for name, value in values.items()}
    return [change(value) for value in values] if isinstance(values, list | tuple) else values


_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def now() -> str:
    """This moment."""
    return timestamp(datetime.now(UTC))


def timestamp(moment: datetime) -> str:
    """A moment as text."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def not_before(moment: str, earlier: str) -> str:
    """The moment, or the earlier one where a clock went backwards: what comes later is never dated before."""
    return max(moment, earlier) if _MOMENT.fullmatch(earlier) else moment


# As the specification has it.
KEPT: Final = 100


@dataclass(frozen=True, slots=True)
class Edited:
    """A map after an edit.

    `message` is its one entry in the activity log; `ids` are those of the nodes, or else of the links, that were
    made or changed, in the order asked for; `nodes` and `links` count what was made, changed or removed.
    """

    document: Mindmap
    message: str
    ids: tuple[str, ...] = ()
    nodes: int = 0
    links: int = 0


def stamp(document: Mindmap, now: str) -> str:
    """When an edit happens: now, and never before the edits that are there."""
    return not_before(now, document.updated_at)


def logged(
    document: Mindmap, moment: str, message: str, *, node_id: str | None = None, file: str | None = None
) -> Mindmap:
    """The map with an entry on top of its log, dated at that moment."""
    entry = Activity(timestamp=moment, message=message, node_id=node_id, file=file)
    return replace(document, updated_at=moment, activity_log=(entry, *document.activity_log)[:KEPT])
