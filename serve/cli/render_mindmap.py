"""Terminal output of mindmaps (short: maps): a list, and a tree with its progress."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from mindmap.document import BLOCKED, COMPLETED, IN_PROGRESS, Mindmap
from mindmap.export import OutlineLine, add_branches, build_outline
from mindmap.tree import Summary, compute_progress
from serve.text import escape_controls

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_STYLES: Final = {COMPLETED: "green", IN_PROGRESS: "bold yellow", BLOCKED: "red"}

_TIME_FORMAT: Final = "%Y-%m-%d %H:%M"


def format_list(summaries: list[Summary], query: str) -> str:
    """Return one line per map, or a sentence if there is none."""
    if not summaries and query:
        return f"No map contains all of these words: {escape_controls(query)}"
    if not summaries:
        return "No maps yet. An agent creates one with `create_mindmap`."
    return "\n".join(escape_controls(_format_summary(summary)) for summary in summaries)


def print_mindmap(document: Mindmap, console: Console, start: str, depth: int | None) -> None:
    """Print a map, or the part of it from the node `start` down to `depth` levels."""
    from rich.text import Text

    for branches, line in add_branches(build_outline(document, start, max_depth=depth)):
        console.print(Text.assemble(branches, *_style_line(line)), soft_wrap=True)
    counts = compute_progress(document)
    console.print()
    console.print(
        Text(escape_controls(_format_footer(document))),
        soft_wrap=True,
        style="green" if 0 < counts.total == counts.completed else "",
    )


def _format_summary(summary: Summary) -> str:
    updated = _format_local_time(summary.updated_at)
    progress = f"{summary.completed_tasks}/{summary.total_tasks}"
    active = f"  now: {_collapse_whitespace(summary.active_task)}" if summary.active_task else ""
    workspace = f"  {summary.workspace_path}" if summary.workspace_path else ""
    return f"{summary.id}  {updated}  {progress:>7}  {_collapse_whitespace(summary.title)}{active}{workspace}"


def _format_local_time(timestamp: str) -> str:
    """Convert a timestamp to local time; return it unchanged if its format is unknown."""
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime(_TIME_FORMAT)
    except (ValueError, OverflowError):
        return timestamp


def _style_line(line: OutlineLine) -> list[tuple[str, str] | Text]:
    node = line.node
    style = _STYLES.get(node.status or "", "") if node.is_task else ("bold" if not line.mark else "cyan")
    mark = f"{line.mark} " if line.mark else ""
    remarks = f"  {', '.join(line.remarks)}" if line.remarks else ""
    return [
        (f"{mark}{escape_controls(line.label)}", style),
        (f"  {escape_controls(node.id)}{escape_controls(remarks)}", "dim"),
    ]


def _format_footer(document: Mindmap) -> str:
    counts = compute_progress(document)
    parts = [str(counts)]
    parts += [f"{counts.blocked} blocked"] if counts.blocked else []
    parts += (
        [f"now: {_collapse_whitespace(document.nodes[counts.active_task_id].label)}"]
        if counts.active_task_id
        else []
    )
    parts += (
        [f"{len(document.links):,} link{'' if len(document.links) == 1 else 's'}"] if document.links else []
    )
    return " · ".join(parts)


def _collapse_whitespace(text: str) -> str:
    return " ".join(text.split())
