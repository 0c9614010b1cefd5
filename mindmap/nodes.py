"""Node operations of a mindmap (short: map): create a map; add, update, move and remove nodes; log messages.

Each operation returns a changed copy of the document with one new entry in the activity log. It raises an error, and
changes nothing, if one of its arguments is invalid.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from mindmap import tree, validation
from mindmap.document import (
    BLOCKED,
    DEFAULT_STATUS,
    DEFAULT_TYPE,
    NODE_TYPES,
    ROOT,
    STATUSES,
    TASK_TYPES,
    EditResult,
    Mindmap,
    Node,
    compute_edit_timestamp,
    with_log_entry,
)
from mindmap.tree import shorten_label
from mindmap.validation import WorkspacePaths
from stores.errors import LineageError

# Fields of a node in the nested input of `flatten_nodes`.
NODE_FIELDS: Final = ("label", "type", "status", "children")
# Lower-case letters and digits without those that look alike, because users read ids aloud and type them.
_ID_ALPHABET: Final = "abcdefghjkmnpqrstuvwxyz23456789"
# 79 random bits, since several processes create maps at the same time.
_MAP_ID_LENGTH: Final = 16
# Ids within a map are short, about 40 random bits, since each use costs an agent tokens. `generate_id` checks that
# they are new.
_ID_LENGTH: Final = 8


class BadNode(LineageError):
    """Error for an invalid node, or an invalid change of a node."""


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node to create, as an item of a batch.

    `parent`: index of its parent within the batch; None for a child of the node to which `add_nodes` adds the batch.
    """

    label: str
    type: str = DEFAULT_TYPE
    status: str | None = None
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class NodeUpdate:
    """New values of a node; None leaves the current value.

    `reason`: why the task is blocked; an empty text removes the current reason.
    """

    id: str
    label: str | None = None
    type: str | None = None
    status: str | None = None
    reason: str | None = None


def flatten_nodes(outline: Sequence[Mapping[str, Any]]) -> list[NewNode]:
    """Validate a nested outline and return its nodes as a flat batch, parents before children.

    Each node has a `label`, and optionally a `type`, a `status` and `children`.
    """
    batch: list[NewNode] = []
    stack: list[tuple[Any, int | None, int]] = [(node, None, 1) for node in reversed(outline)]
    count = 0
    while stack:
        node, parent, depth = stack.pop()
        if depth > validation.MAX_DEPTH:
            raise create_depth_error()
        count += 1
        if count <= validation.MAX_BATCH_SIZE:  # nodes beyond the limit are only counted, for the error
            batch.append(_parse_node(node, parent))
        stack += [(child, len(batch) - 1, depth + 1) for child in reversed(_parse_children(node))]
    validation.check_batch_size(range(count), "nodes")
    return batch


def create_depth_error() -> validation.OverLimit:
    """Return the error for a map that would become too deep."""
    return validation.OverLimit(
        f"A map has at most {validation.MAX_DEPTH} levels below its root.",
        hint="Put the nodes higher up, or start another map.",
    )


def validate_type(node_type: str) -> str:
    """Return the type if it is one of NODE_TYPES (`root` is not), else raise BadNode."""
    if node_type not in NODE_TYPES:
        raise BadNode(f"{node_type!r} is not a node type.", hint=f"Types are {', '.join(NODE_TYPES)}.")
    return node_type


def validate_status(status: str) -> str:
    """Return the status if it is one of STATUSES, else raise BadNode."""
    if status not in STATUSES:
        raise BadNode(f"{status!r} is not a status.", hint=f"Statuses are {', '.join(STATUSES)}.")
    return status


def resolve_status(node_type: str, status: str | None, label: str) -> str | None:
    """Return the status of a node: for a task, `status` or else the default; for a node of any other type, None.

    Raises BadNode if the status is invalid, or if a node that is no task has a status. The error names the `label`.
    """
    if node_type in TASK_TYPES:
        return validate_status(status) if status is not None else DEFAULT_STATUS
    if status is not None:
        raise BadNode(
            f"{label!r} is a {node_type}: it has no status.",
            hint=f"Only {', '.join(TASK_TYPES)} nodes have one. Omit the status, or choose another type.",
        )
    return None


def create_mindmap(title: str, workspace: str | None, now: str) -> Mindmap:
    """Return a new mindmap with only a root node, whose label is the title."""
    title = validation.validate_text(title, "title")
    root = Node(id=ROOT, label=title, type=ROOT, updated_at=now)
    document = Mindmap(
        id=_generate_random_id("mm_", (), _MAP_ID_LENGTH),
        title=title,
        workspace_path=workspace,
        created_at=now,
        nodes={ROOT: root},
    )
    return with_log_entry(document, now, f"Created {shorten_label(title)!r}")


def set_workspace(document: Mindmap, workspace: str, now: str) -> EditResult:
    """Set the workspace of a map."""
    timestamp, message = compute_edit_timestamp(document, now), f"Workspace: {workspace}"
    return EditResult(
        with_log_entry(replace(document, workspace_path=workspace), timestamp, message), message
    )


def add_nodes(document: Mindmap, parent_id: str, batch: Sequence[NewNode], now: str) -> EditResult:
    """Add a batch of nodes under an existing node, after its children."""
    parent = tree.get_node(document, parent_id)
    _check_node_count(document, batch)
    parent_depth = tree.compute_depth(document.nodes, parent_id)
    timestamp = compute_edit_timestamp(document, now)
    nodes = dict(document.nodes)
    ids: list[str] = []
    depths: list[int] = []
    children: dict[str, list[str]] = {}
    for new_node in batch:
        new_parent_id = parent_id if new_node.parent is None else ids[new_node.parent]
        depths.append(1 + (parent_depth if new_node.parent is None else depths[new_node.parent]))
        node_id = generate_id("n_", nodes)
        nodes[node_id] = Node(
            id=node_id,
            label=new_node.label,
            type=new_node.type,
            status=new_node.status,
            parent=new_parent_id,
            updated_at=timestamp,
        )
        ids.append(node_id)
        children.setdefault(new_parent_id, []).append(node_id)
    if depths and max(depths) > validation.MAX_DEPTH:
        raise create_depth_error()
    for node_id, new_children in children.items():
        nodes[node_id] = replace(nodes[node_id], children=(*nodes[node_id].children, *new_children))
    message = f"Added {_describe_nodes(nodes, ids)} under {shorten_label(parent.label)!r}"
    new_document = with_log_entry(
        replace(document, nodes=nodes), timestamp, message, node_id=_get_single_id(ids)
    )
    return EditResult(new_document, message, tuple(ids), node_count=len(ids))


def update_nodes(document: Mindmap, updates: Sequence[NodeUpdate], now: str) -> EditResult:
    """Change labels, types, statuses and reasons. A node that is no longer a task loses its status.

    The label of the root is also the title of the map.
    """
    validation.check_batch_size(updates, "updates")
    timestamp = compute_edit_timestamp(document, now)
    nodes = dict(document.nodes)
    for update in updates:
        tree.get_node(document, update.id)
        # Reinserted at the end: if one call sets several tasks in progress, the last of them becomes the active task.
        node = nodes.pop(update.id)
        nodes[node.id] = replace(_apply_update(node, update), updated_at=timestamp)
    ids = tuple(dict.fromkeys(update.id for update in updates))
    message = (
        _describe_difference(document.nodes[ids[0]], nodes[ids[0]])
        if len(ids) == 1
        else f"Updated {_describe_nodes(nodes, ids)}"
    )
    title = nodes[ROOT].label if ROOT in ids else document.title
    new_document = with_log_entry(
        replace(document, nodes=nodes, title=title), timestamp, message, node_id=_get_single_id(ids)
    )
    return EditResult(new_document, message, ids, node_count=len(ids))


def move_nodes(
    document: Mindmap, node_ids: Sequence[str], parent_id: str, now: str, position: int | None = None
) -> EditResult:
    """Move nodes with their subtrees under another node.

    `position`: index among the other children of the new parent; None for the end.
    """
    validation.check_batch_size(node_ids, "nodes")
    ids = tuple(dict.fromkeys(node_ids))
    parent = tree.get_node(document, parent_id)
    for node_id in ids:
        _check_move(document, tree.get_node(document, node_id), parent)
    timestamp = compute_edit_timestamp(document, now)
    nodes = _remove_children(document.nodes, set(ids))
    for node_id in ids:
        nodes[node_id] = replace(nodes[node_id], parent=parent_id, updated_at=timestamp)
    siblings = nodes[parent_id].children
    index = len(siblings) if position is None else max(0, position)
    nodes[parent_id] = replace(nodes[parent_id], children=(*siblings[:index], *ids, *siblings[index:]))
    _check_depth(nodes, parent_id, ids)
    message = f"Moved {_describe_nodes(nodes, ids)} under {shorten_label(parent.label)!r}"
    new_document = with_log_entry(
        replace(document, nodes=nodes), timestamp, message, node_id=_get_single_id(ids)
    )
    return EditResult(new_document, message, ids, node_count=len(ids))


def remove_nodes(document: Mindmap, node_ids: Sequence[str], now: str) -> EditResult:
    """Remove nodes, their subtrees, and all links from or to them."""
    validation.check_batch_size(node_ids, "nodes")
    ids = tuple(dict.fromkeys(node_ids))
    for node_id in ids:
        _check_not_root(tree.get_node(document, node_id), "removed", "Delete the map instead.")
    removed_ids = tree.collect_subtree_ids(document.nodes, ids)
    remaining_nodes = {
        node_id: node for node_id, node in document.nodes.items() if node_id not in removed_ids
    }
    nodes = _remove_children(remaining_nodes, removed_ids)
    links = tuple(
        link for link in document.links if link.source not in removed_ids and link.target not in removed_ids
    )
    link_count = len(document.links) - len(links)
    details = (
        [f"{_pluralize(len(removed_ids), 'node')} including subtrees"] if len(removed_ids) > len(ids) else []
    )
    details += [_pluralize(link_count, "link")] if link_count else []
    suffix = f" ({', '.join(details)})" if details else ""
    message = f"Removed {_describe_nodes(document.nodes, ids)}{suffix}"
    new_document = replace(document, nodes=nodes, links=links)
    return EditResult(
        with_log_entry(new_document, compute_edit_timestamp(document, now), message),
        message,
        ids,
        node_count=len(removed_ids),
        link_count=link_count,
    )


def add_note(
    document: Mindmap, message: str, now: str, *, node_id: str | None = None, file: str | None = None
) -> EditResult:
    """Add a message to the activity log, optionally with a node and a file.

    Symbolic links to directories in the path of the file are resolved.
    """
    if node_id is not None:
        tree.get_node(document, node_id)
    message = validation.validate_text(message, "message")
    paths = WorkspacePaths.from_workspace(document.workspace_path)
    file = paths.follow_links(file) if file else None
    return EditResult(
        with_log_entry(document, compute_edit_timestamp(document, now), message, node_id=node_id, file=file),
        message,
        warning=paths.describe_paths_outside(file),
    )


def generate_id(prefix: str, existing_ids: Collection[str]) -> str:
    """Return an id for a new part of a map, such as a node or a question, that is not in `existing_ids`."""
    return _generate_random_id(prefix, existing_ids, _ID_LENGTH)


def _generate_random_id(prefix: str, existing_ids: Collection[str], length: int) -> str:
    while True:
        new_id = prefix + "".join(secrets.choice(_ID_ALPHABET) for _ in range(length))
        if new_id not in existing_ids:
            return new_id


def _parse_node(node: Any, parent: int | None) -> NewNode:
    if not isinstance(node, Mapping):
        raise BadNode("A node must be an object.", hint='An example is {"label": "Parse the header"}.')
    if unknown_names := sorted(str(name) for name in node.keys() - set(NODE_FIELDS)):
        raise BadNode(
            f"A node has no field {unknown_names[0]!r}.", hint=f"Its fields are {', '.join(NODE_FIELDS)}."
        )
    label = validation.validate_text(_parse_string(node, "label") or "", "label")
    node_type = _parse_string(node, "type")
    node_type = DEFAULT_TYPE if node_type is None else validate_type(node_type)
    return NewNode(label, node_type, resolve_status(node_type, _parse_string(node, "status"), label), parent)


def _parse_string(node: Mapping[str, Any], name: str) -> str | None:
    value = node.get(name)
    if value is not None and not isinstance(value, str):
        raise BadNode(f"A node's {name} must be a text.", hint=f"Put the {name} in quotation marks.")
    return value


def _parse_children(node: Mapping[str, Any]) -> Sequence[Any]:
    children = node.get("children")
    if children is None:
        return ()
    if isinstance(children, str) or not isinstance(children, Sequence):
        raise BadNode("A node's children must be a list of nodes.", hint="Omit `children` if there are none.")
    return children


def _apply_update(node: Node, update: NodeUpdate) -> Node:
    if (update.label, update.type, update.status, update.reason) == (None, None, None, None):
        raise BadNode(
            f"The update of {node.id} is empty.", hint="Give a label, a type, a status or a reason."
        )
    label = node.label if update.label is None else validation.validate_text(update.label, "label")
    if node.id == ROOT:
        if (update.type, update.status, update.reason) != (None, None, None):
            raise BadNode("The root has no type or status of its own.", hint="You can change its label.")
        return replace(node, label=label)
    node_type = node.type if update.type is None else validate_type(update.type)
    status = (
        _convert_status(node, node_type)
        if update.status is None
        else resolve_status(node_type, update.status, label)
    )
    reason = (
        node.reason if update.reason is None else validation.validate_optional_text(update.reason, "reason")
    )
    if update.reason is not None and reason is not None and status != BLOCKED:
        hint = f"Set its status to {BLOCKED}." if node_type in TASK_TYPES else "Only tasks can be blocked."
        raise BadNode(f"{label!r} is not blocked, so it cannot have a reason.", hint=hint)
    # A change to a status other than blocked removes the reason.
    keeps_reason = status in (BLOCKED, node.status)
    return replace(node, label=label, type=node_type, status=status, reason=reason if keeps_reason else None)


def _convert_status(node: Node, node_type: str) -> str | None:
    """Return the status of a node after an update of its type to `node_type` that sets no status.

    A task keeps its status, or gets the default if it has none. A node of an unknown type, from a newer version of
    mindmap, keeps its status, too. Nodes of other types have no status.
    """
    if node_type in TASK_TYPES:
        return node.status or DEFAULT_STATUS
    return None if node_type in NODE_TYPES else node.status


def _remove_children(nodes: Mapping[str, Node], child_ids: set[str]) -> dict[str, Node]:
    """Return all nodes, with `child_ids` removed from their lists of children."""
    return {
        node_id: replace(node, children=tuple(child for child in node.children if child not in child_ids))
        if child_ids.intersection(node.children)
        else node
        for node_id, node in nodes.items()
    }


def _check_node_count(document: Mindmap, batch: Sequence[NewNode]) -> None:
    validation.check_batch_size(batch, "nodes")
    if len(document.nodes) + len(batch) > validation.MAX_NODES:
        raise validation.OverLimit(
            f"A map has at most {validation.MAX_NODES:,} nodes; {document.id} has {len(document.nodes):,}.",
            hint="Remove completed nodes, or start another map.",
        )


def _check_move(document: Mindmap, node: Node, parent: Node) -> None:
    _check_not_root(node, "moved", "Move its children instead.")
    if node.id == parent.id or node.id in tree.list_ancestors(document.nodes, parent.id):
        raise BadNode(
            f"{node.id} cannot be moved under {parent.id}, which is the same node or below it.",
            hint="Choose a parent outside the moved subtree.",
        )


def _check_not_root(node: Node, action: str, hint: str) -> None:
    if node.id == ROOT:
        raise BadNode(f"The root cannot be {action}.", hint=hint)


def _check_depth(nodes: Mapping[str, Node], parent_id: str, node_ids: Sequence[str]) -> None:
    moved_depth = tree.compute_depth(nodes, parent_id) + 1
    if any(
        moved_depth + depth > validation.MAX_DEPTH
        for node_id in node_ids
        for _, depth in tree.walk(nodes, node_id)
    ):
        raise create_depth_error()


def _describe_difference(before: Node, after: Node) -> str:
    parts = []
    if before.label != after.label:
        parts.append(f"renamed to {shorten_label(after.label)!r}")
    if before.type != after.type:
        parts.append(f"{before.type} -> {after.type}")
    if before.status != after.status and after.status:
        parts.append(f"{before.status or 'no status'} -> {after.status}")
    if before.reason != after.reason and after.reason:
        parts.append(f"reason: {shorten_label(after.reason)}")
    elif before.reason and not after.reason and before.status == after.status:
        parts.append("reason removed")
    return f"{shorten_label(before.label)}: {', '.join(parts) or 'unchanged'}"


def _describe_nodes(nodes: Mapping[str, Node], ids: Sequence[str]) -> str:
    return repr(shorten_label(nodes[ids[0]].label)) if len(ids) == 1 else _pluralize(len(ids), "node")


def _pluralize(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _get_single_id(ids: Sequence[str]) -> str | None:
    return ids[0] if len(ids) == 1 else None
