"""Maps and edits as the tools answer them: small, since an agent pays for every word."""

from __future__ import annotations

from typing import Any, Final

from mindmap import outline, searching, tree
from mindmap.activity import Edited
from mindmap.document import ROOT, Link, Mindmap, plain
from mindmap.maps import Listed
from mindmap.progress import Progress, progress
from mindmap.syncing import Synced
from mindmap.watched import Watching
from serve.maps import forms
from stores.errors import LineageError

# About 4,000 tokens of outline: a map this large is read part by part.
MOST_LINES: Final = 200
MOST_LINKS: Final = 50
MOST_FOUND: Final = 50
RECENT: Final = 5
# About 50,000 tokens. More in one answer crowds out what it was asked for.
LONGEST_FULL: Final = 200_000


class TooMuchToRead(LineageError):
    """More of a map than fits into one answer."""


def changed(done: Edited) -> forms.Changed:
    """What an edit did, and how the map stands now."""
    stands = progress(done.document)
    return forms.Changed(
        mindmap_id=done.document.id,
        message=done.message,
        ids=list(done.ids),
        progress=str(stands),
        active_task=_active(done.document, stands),
    )


def attached(done: Edited, asked: str | None, files: int, watching: Watching) -> forms.Attached:
    """Where files were attached; that it is not where it was asked for, if so."""
    node = done.document.nodes[done.ids[0]]
    elsewhere = f" ({asked} is not there; attached to {node.id})" if asked not in (None, node.id) else ""
    return forms.Attached(
        mindmap_id=done.document.id,
        synced=files,
        node_id=node.id,
        node=node.label,
        message=done.message + elsewhere,
        watching=watching.is_on,
        hint=watching.remark,
    )


def synced(found: Synced, asked: str | None, watching: Watching) -> forms.Attached:
    """The same of what git sync found, which may be nothing."""
    if found.done is not None:
        return attached(found.done, asked, found.files, watching)
    return forms.Attached(
        mindmap_id=found.document.id,
        synced=0,
        message="Nothing differs from HEAD",
        watching=watching.is_on,
        hint=watching.remark,
    )


def listed(found: Listed, limit: int) -> forms.Maps:
    """The first of the maps that were found."""
    lines = [
        forms.Line(
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
    return forms.Maps(maps=lines, total=len(found.summaries), problems=found.problems)


def view(document: Mindmap, start: str, query: str, *, full: bool) -> forms.View:
    """A map or what is under one of its nodes: as an outline, what is found in it, or whole."""
    tree.find(document, start)
    stands = progress(document)
    seen = forms.View(
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
            "outline": outline.text(shown) + (f"\n… {left:,} more: search with query" if left else ""),
            "links": [*links[:MOST_LINKS], *more],
            "activity": activity if start == ROOT and not query else [],
        }
    )


def _shown(document: Mindmap, start: str, query: str) -> tuple[list[outline.Line], int]:
    """What one answer shows, and how many nodes are neither shown nor counted below one that is."""
    if query:
        found = list(searching.nodes_with(document, query, start))
        first = [
            outline.Line(node, 0, len(tree.below(document.nodes, node.children)))
            for node in found[:MOST_FOUND]
        ]
        return first, len(found) - len(first)
    shown = outline.lines(document, start, most=MOST_LINES)
    counted = sum(1 + line.hidden for line in shown)
    return shown, len(tree.below(document.nodes, [start])) - counted


def _whole(document: Mindmap, start: str, query: str) -> dict[str, Any]:
    inside = {node.id for node in searching.nodes_with(document, query, start)}
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
