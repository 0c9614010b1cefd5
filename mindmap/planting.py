"""Nested nodes as an agent writes them -> a flat batch, parents before children; checked on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mindmap import limits
from mindmap.document import DEFAULT_STATUS, DEFAULT_TYPE, NODE_TYPES, STATUSES, TASK_TYPES
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
        if depth > limits.DEEPEST:
            raise too_deep()
        batch.append(_new(raw, parent))
        limits.batch(batch, "nodes")
        children = _children(raw)
        waiting += [(child, len(batch) - 1, depth + 1) for child in reversed(children)]
    return batch


def too_deep() -> limits.OverLimit:
    """What is said of a map that would become too deep."""
    return limits.OverLimit(
        f"A map has at most {limits.DEEPEST} levels below its root.",
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
    label = limits.text(_word(raw, "label") or "", "label")
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
