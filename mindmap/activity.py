"""What an edit leaves behind: the changed map, its activity log, and what is to be told of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from mindmap.document import Activity, Mindmap
from mindmap.moments import not_before

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
