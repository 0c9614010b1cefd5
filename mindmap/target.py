"""Which node a file attaches to: decided here for the three that attach files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from mindmap.activity import Edited
from mindmap.document import ROOT, Mindmap, Node
from mindmap.edits import fresh_id
from mindmap.progress import active_task
from mindmap.touching import Touch, attach

TOUCHED_FILES: Final = "Touched Files"


@dataclass(frozen=True, slots=True)
class Target:
    """The node, in a map where it is there."""

    document: Mindmap
    node_id: str

    @property
    def label(self) -> str:
        """What the node is called."""
        return self.document.nodes[self.node_id].label


def choose(document: Mindmap, asked: str | None = None) -> Target:
    """The node asked for if there is one like it, or else the most recent active task, or else `Touched Files`."""
    if asked is not None and asked in document.nodes:
        return Target(document, asked)
    active = active_task(document)
    if active is not None:
        return Target(document, active.id)
    for child in document.nodes[ROOT].children:
        if document.nodes[child].label == TOUCHED_FILES:
            return Target(document, child)
    return _made(document)


def attach_to(
    document: Mindmap, asked: str | None, touches: Sequence[Touch], message: str, now: str
) -> Edited:
    """Attach files to the node that is chosen; its id is the one in the answer."""
    target = choose(document, asked)
    changed = attach(target.document, target.node_id, touches, message, now)
    return Edited(changed, message, (target.node_id,), nodes=1)


def _made(document: Mindmap) -> Target:
    # A note: it must not count as something to do.
    node = Node(id=fresh_id("n_", document.nodes), label=TOUCHED_FILES, type="note", parent=ROOT)
    root = document.nodes[ROOT]
    nodes = {**document.nodes, ROOT: replace(root, children=(*root.children, node.id)), node.id: node}
    return Target(replace(document, nodes=nodes), node.id)
