"""Nested nodes as an agent writes them -> a flat batch, parents before children; checked on the way.

Changes of a map's tree, each a function document -> document that leaves one entry in the activity log.

Whatever is asked for in one call is done as a whole or not at all: an error leaves the map as it was.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from mindmap import tree, validation
from mindmap.document import (
    DEFAULT_STATUS,
    DEFAULT_TYPE,
    NODE_TYPES,
    ROOT,
    STATUSES,
    TASK_TYPES,
    Edited,
    Mindmap,
    Node,
    logged,
    stamp,
)
from stores.errors import LineageError

FIELDS: Final = ("label", "type", "status", "children")


class BadNode(LineageError):
    """A node that cannot be as it is asked for."""


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node to be made; `parent` is the place of its parent in the batch, None for the node the batch goes under."""

    label: str
    type: str = DEFAULT_TYPE
    status: str | None = None
    parent: int | None = None


def flattened(given: Sequence[Mapping[str, Any]]) -> list[NewNode]:
    """The batch in a nested outline: each node has a `label`, and may have a `type`, a `status` and `children`."""
    batch: list[NewNode] = []
    waiting: list[tuple[Any, int | None, int]] = [(node, None, 1) for node in reversed(given)]
    while waiting:
        raw, parent, depth = waiting.pop()
        if depth > validation.DEEPEST:
            raise too_deep()
        batch.append(_new(raw, parent))
        validation.batch(batch, "nodes")
        children = _children(raw)
        waiting += [(child, len(batch) - 1, depth + 1) for child in reversed(children)]
    return batch


def too_deep() -> validation.OverLimit:
    """What is said of a map that would become too deep."""
    return validation.OverLimit(
        f"A map has at most {validation.DEEPEST} levels below its root.",
        hint="Put the nodes higher up, or begin another map.",
    )


def checked_type(node_type: str) -> str:
    """A type that a node may have; the root's is its own."""
    if node_type not in NODE_TYPES:
        raise BadNode(f"{node_type!r} is no type of node.", hint=f"Types are {', '.join(NODE_TYPES)}.")
    return node_type


def status_of(node_type: str, status: str | None, label: str) -> str | None:
    """The status of a node of this type: the one asked for, or the default; none for what is no task."""
    if node_type in TASK_TYPES:
        return checked_status(status) if status is not None else DEFAULT_STATUS
    if status is not None:
        raise BadNode(
            f"{label!r} is a {node_type}, and has no status.",
            hint=f"Only {', '.join(TASK_TYPES)} nodes have one: leave it out, or give another type.",
        )
    return None


def checked_status(status: str) -> str:
    """A status that a task may have."""
    if status not in STATUSES:
        raise BadNode(f"{status!r} is no status.", hint=f"Statuses are {', '.join(STATUSES)}.")
    return status


def _new(raw: Any, parent: int | None) -> NewNode:
    if not isinstance(raw, Mapping):
        raise BadNode(
            "A child is no node.", hint='A node is an object such as {"label": "Parse the header"}.'
        )
    if strange := sorted(str(name) for name in raw.keys() - set(FIELDS)):
        raise BadNode(f"A node has no {strange[0]!r}.", hint=f"Its fields are {', '.join(FIELDS)}.")
    label = validation.text(_word(raw, "label") or "", "label")
    node_type = checked_type(_word(raw, "type") or DEFAULT_TYPE)
    return NewNode(label, node_type, status_of(node_type, _word(raw, "status"), label), parent)


def _word(raw: Mapping[str, Any], name: str) -> str | None:
    value = raw.get(name)
    if value is not None and not isinstance(value, str):
        raise BadNode(f"A node's {name} is text.", hint=f"Put the {name} in quotation marks.")
    return value


def _children(raw: Mapping[str, Any]) -> Sequence[Any]:
    children = raw.get("children") or ()
    if isinstance(children, str) or not isinstance(children, Sequence):
        raise BadNode(
            "A node's children are a list of nodes.", hint="Leave `children` out where there are none."
        )
    return children


# Lower case, without letters that are taken for digits: ids are read aloud and typed.
_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"
# 80 bits: maps are named by many processes, none of which knows of the others.
_MAP_LETTERS: Final = 16
# 40 bits, and looked up in the map: an agent pays for each letter, each time it names a node.
_PART_LETTERS: Final = 8
SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class NodeUpdate:
    """What a node is to become; None leaves it as it is."""

    id: str
    label: str | None = None
    type: str | None = None
    status: str | None = None


def new_map(title: str, workspace: str | None, now: str) -> Mindmap:
    """An empty map: a root that is called like it."""
    title = validation.text(title, "title")
    root = Node(id=ROOT, label=title, type=ROOT, updated_at=now)
    document = Mindmap(
        id=_fresh("mm_", (), _MAP_LETTERS),
        title=title,
        workspace_path=workspace,
        created_at=now,
        nodes={ROOT: root},
    )
    return logged(document, now, f"Created {shortened(title)!r}")


def settle_in(document: Mindmap, workspace: str, now: str) -> Edited:
    """Name the workspace of a map."""
    moment, message = stamp(document, now), f"Workspace: {workspace}"
    return Edited(logged(replace(document, workspace_path=workspace), moment, message), message)


def add_nodes(document: Mindmap, parent: str, batch: Sequence[NewNode], now: str) -> Edited:
    """Put nodes under one that is there, after its children."""
    above = tree.find(document, parent)
    _check_room(document, batch)
    start = tree.depth_of(document.nodes, parent)
    moment = stamp(document, now)
    nodes = dict(document.nodes)
    ids: list[str] = []
    depths: list[int] = []
    for new in batch:
        over = parent if new.parent is None else ids[new.parent]
        depths.append(1 + (start if new.parent is None else depths[new.parent]))
        ids.append(fresh_id("n_", nodes))
        nodes[ids[-1]] = _made(ids[-1], new, over, moment)
    if depths and max(depths) > validation.DEEPEST:
        raise too_deep()
    for over, added in _by_parent(ids, nodes).items():
        nodes[over] = replace(nodes[over], children=(*nodes[over].children, *added))
    message = f"Added {_called(nodes, ids)} under {shortened(above.label)!r}"
    changed = logged(replace(document, nodes=nodes), moment, message, node_id=_only(ids))
    return Edited(changed, message, tuple(ids), nodes=len(ids))


def update_nodes(document: Mindmap, updates: Sequence[NodeUpdate], now: str) -> Edited:
    """Change labels, types and statuses; a node that becomes no task loses its status."""
    validation.batch(updates, "updates")
    moment = stamp(document, now)
    nodes = dict(document.nodes)
    for update in updates:
        tree.find(document, update.id)
        # Put back last: of tasks that become active in one call the last counts as the most recent.
        node = nodes.pop(update.id)
        nodes[node.id] = replace(_updated(node, update), updated_at=moment)
    ids = tuple(dict.fromkeys(update.id for update in updates))
    message = (
        _difference(document.nodes[ids[0]], nodes[ids[0]])
        if len(ids) == 1
        else f"Updated {_called(nodes, ids)}"
    )
    changed = replace(document, nodes=nodes, title=nodes[ROOT].label if ROOT in ids else document.title)
    return Edited(logged(changed, moment, message, node_id=_only(ids)), message, ids, nodes=len(ids))


def move_nodes(
    document: Mindmap, moved: Sequence[str], parent: str, now: str, position: int | None = None
) -> Edited:
    """Put nodes with all that is under them under another: before its child at `position`, or after the last."""
    validation.batch(moved, "nodes")
    ids = tuple(dict.fromkeys(moved))
    above = tree.find(document, parent)
    for node_id in ids:
        _check_move(document, tree.find(document, node_id), above)
    moment = stamp(document, now)
    nodes = _without_children(document.nodes, set(ids))
    for node_id in ids:
        nodes[node_id] = replace(nodes[node_id], parent=parent, updated_at=moment)
    kept = nodes[parent].children
    place = len(kept) if position is None else max(0, position)
    nodes[parent] = replace(nodes[parent], children=(*kept[:place], *ids, *kept[place:]))
    _check_depth(nodes, parent, ids)
    message = f"Moved {_called(nodes, ids)} under {shortened(above.label)!r}"
    changed = logged(replace(document, nodes=nodes), moment, message, node_id=_only(ids))
    return Edited(changed, message, ids, nodes=len(ids))


def remove_nodes(document: Mindmap, removed: Sequence[str], now: str) -> Edited:
    """Remove nodes, everything under them, and the links of all of it."""
    validation.batch(removed, "nodes")
    ids = tuple(dict.fromkeys(removed))
    for node_id in ids:
        _check_not_root(tree.find(document, node_id), "removed", "Delete the map instead.")
    gone = tree.below(document.nodes, ids)
    nodes = _without_children({key: node for key, node in document.nodes.items() if key not in gone}, gone)
    links = tuple(link for link in document.links if link.source not in gone and link.target not in gone)
    cut = len(document.links) - len(links)
    message = f"Removed {_called(document.nodes, ids)}: {_count(len(gone), 'node')}, {_count(cut, 'link')}"
    changed = logged(replace(document, nodes=nodes, links=links), stamp(document, now), message)
    return Edited(changed, message, ids, nodes=len(gone), links=cut)


def note(
    document: Mindmap, message: str, now: str, *, node_id: str | None = None, file: str | None = None
) -> Edited:
    """Write an entry into the activity log."""
    if node_id is not None:
        tree.find(document, node_id)
    message = validation.text(message, "message")
    file = validation.optional(file, "path", most=validation.LONGEST_PATH)
    return Edited(logged(document, stamp(document, now), message, node_id=node_id, file=file), message)


def fresh_id(prefix: str, taken: Collection[str]) -> str:
    """An id for a part of a map that none of these has."""
    return _fresh(prefix, taken, _PART_LETTERS)


def shortened(label: str) -> str:
    """A label for a message: on one line, and not the whole of a long one."""
    line = " ".join(label.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"


def _fresh(prefix: str, taken: Collection[str], letters: int) -> str:
    while True:
        made = prefix + "".join(secrets.choice(_LETTERS) for _ in range(letters))
        if made not in taken:
            return made


def _made(node_id: str, new: NewNode, parent: str, moment: str) -> Node:
    return Node(
        id=node_id, label=new.label, type=new.type, status=new.status, parent=parent, updated_at=moment
    )


def _by_parent(ids: Sequence[str], nodes: Mapping[str, Node]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for node_id in ids:
        grouped.setdefault(nodes[node_id].parent or ROOT, []).append(node_id)
    return grouped


def _updated(node: Node, update: NodeUpdate) -> Node:
    if update.label is None and update.type is None and update.status is None:
        raise BadNode(f"Nothing is to change on {node.id}.", hint="Give a label, a type or a status.")
    label = node.label if update.label is None else validation.text(update.label, "label")
    if node.id == ROOT:
        if update.type is not None or update.status is not None:
            raise BadNode("The root has no type or status of its own.", hint="Its label may be changed.")
        return replace(node, label=label)
    node_type = node.type if update.type is None else checked_type(update.type)
    if update.status is not None:
        status: str | None = status_of(node_type, update.status, label)
    else:
        status = _status_kept(node, node_type)
    return replace(node, label=label, type=node_type, status=status)


def _status_kept(node: Node, node_type: str) -> str | None:
    """The status where nobody asks for one: what a newer version calls a status or a type is left as it is."""
    if node_type in TASK_TYPES:
        return node.status or DEFAULT_STATUS
    return None if node_type in NODE_TYPES else node.status


def _difference(before: Node, after: Node) -> str:
    said = []
    if before.label != after.label:
        said.append(f"renamed to {shortened(after.label)!r}")
    if before.type != after.type:
        said.append(f"{before.type} -> {after.type}")
    if before.status != after.status and after.status:
        said.append(f"{before.status or 'no status'} -> {after.status}")
    return f"{shortened(before.label)}: {', '.join(said) or 'unchanged'}"


def _without_children(nodes: Mapping[str, Node], gone: set[str]) -> dict[str, Node]:
    """The nodes, of whose children these are none any more."""
    return {
        node_id: replace(node, children=tuple(child for child in node.children if child not in gone))
        if gone.intersection(node.children)
        else node
        for node_id, node in nodes.items()
    }


def _check_room(document: Mindmap, batch: Sequence[NewNode]) -> None:
    validation.batch(batch, "nodes")
    if len(document.nodes) + len(batch) > validation.MOST_NODES:
        raise validation.OverLimit(
            f"A map has at most {validation.MOST_NODES:,} nodes; {document.id} has {len(document.nodes):,}.",
            hint="Remove what is done with, or begin another map.",
        )


def _check_move(document: Mindmap, node: Node, parent: Node) -> None:
    _check_not_root(node, "moved", "Move its children instead.")
    if node.id == parent.id or node.id in tree.ancestors(document.nodes, parent.id):
        raise BadNode(
            f"{node.id} cannot be put under {parent.id}, which is itself or under it.",
            hint="Choose a parent outside of what is moved.",
        )


def _check_not_root(node: Node, what: str, hint: str) -> None:
    if node.id == ROOT:
        raise BadNode(f"The root cannot be {what}.", hint=hint)


def _check_depth(nodes: Mapping[str, Node], parent: str, moved: Sequence[str]) -> None:
    start = tree.depth_of(nodes, parent) + 1
    if any(start + depth > validation.DEEPEST for node_id in moved for _, depth in tree.walk(nodes, node_id)):
        raise too_deep()


def _called(nodes: Mapping[str, Node], ids: Sequence[str]) -> str:
    return repr(shortened(nodes[ids[0]].label)) if len(ids) == 1 else _count(len(ids), "node")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _only(ids: Sequence[str]) -> str | None:
    return ids[0] if len(ids) == 1 else None
