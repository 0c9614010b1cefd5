"""Finding maps and nodes by the words in them."""

from __future__ import annotations

from collections.abc import Iterator

from mindmap import tree
from mindmap.document import Mindmap, Node


def has_words(document: Mindmap, query: str) -> bool:
    """Whether a map has every one of the words: in its title, its workspace, or anywhere on its nodes."""
    words = query.casefold().split()
    if not words:
        return True
    named = f"{document.id} {document.title} {document.workspace_path or ''}"
    said = "\n".join([named, *map(_said, document.nodes.values())]).casefold()
    return all(word in said for word in words)


def nodes_with(document: Mindmap, query: str, start: str) -> Iterator[Node]:
    """The nodes from one on that have every one of the words."""
    words = query.casefold().split()
    for node, _ in tree.walk(document.nodes, start):
        said = _said(node).casefold()
        if all(word in said for word in words):
            yield node


def _said(node: Node) -> str:
    touched = " ".join(" ".join((touch.path, touch.summary or "", *touch.symbols)) for touch in node.files)
    return f"{node.id} {node.label} {node.type} {node.status or ''} {touched}"
