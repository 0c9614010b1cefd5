"""Maps for people: a list, and a tree with its progress."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from mindmap.document import ACTIVE, BLOCKED, DONE, Mindmap
from mindmap.export import Line, drawn, lines
from mindmap.tree import Summary, progress
from serve.text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_STYLES: Final = {DONE: "green", ACTIVE: "bold yellow", BLOCKED: "red"}
# A minute is enough to know which session a map is of.
_TO_THE_MINUTE: Final = "%Y-%m-%d %H:%M"


def listed(summaries: list[Summary], query: str) -> str:
    """One line for each map that was found."""
    if not summaries and query:
        return f"No map has all of these words: {visible(query)}"
    if not summaries:
        return "No maps yet: an agent makes one with `create_mindmap`."
    return "\n".join(visible(_line(summary)) for summary in summaries)


def show(document: Mindmap, console: Console, start: str, depth: int | None) -> None:
    """Print a map, or what is under one of its nodes."""
    from rich.text import Text

    for branches, line in drawn(lines(document, start, deepest=depth)):
        console.print(Text.assemble(branches, *_styled(line)), soft_wrap=True)
    stands = progress(document)
    console.print()
    console.print(
        Text(visible(_foot(document))),
        soft_wrap=True,
        style="green" if 0 < stands.total == stands.completed else "",
    )


def _line(summary: Summary) -> str:
    moment = _by_the_wall_clock(summary.updated_at)
    done = f"{summary.completed_tasks}/{summary.total_tasks}"
    active = f"  now: {_flat(summary.active_task)}" if summary.active_task else ""
    place = f"  {summary.workspace_path}" if summary.workspace_path else ""
    return f"{summary.id}  {moment}  {done:>7}  {_flat(summary.title)}{active}{place}"


def _by_the_wall_clock(moment: str) -> str:
    """A document's moment as clocks here show it; one that another program wrote otherwise, as it is."""
    try:
        return datetime.fromisoformat(moment).astimezone().strftime(_TO_THE_MINUTE)
    except (ValueError, OverflowError):
        return moment


def _styled(line: Line) -> list[tuple[str, str] | Text]:
    node = line.node
    style = _STYLES.get(node.status or "", "") if node.is_task else ("bold" if not line.mark else "cyan")
    mark = f"{line.mark} " if line.mark else ""
    remarks = f"  {', '.join(line.remarks)}" if line.remarks else ""
    return [(f"{mark}{visible(line.label)}", style), (f"  {visible(node.id)}{visible(remarks)}", "dim")]


def _foot(document: Mindmap) -> str:
    stands = progress(document)
    parts = [str(stands)]
    parts += [f"{stands.blocked} blocked"] if stands.blocked else []
    parts += [f"now: {_flat(document.nodes[stands.active].label)}"] if stands.active else []
    parts += (
        [f"{len(document.links):,} link{'' if len(document.links) == 1 else 's'}"] if document.links else []
    )
    return " · ".join(parts)


def _flat(text: str) -> str:
    return " ".join(text.split())
