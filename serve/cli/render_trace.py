"""Terminal output of `lineage trace`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from serve.cli.render import format_message_lines
from serve.text import SHA_DIGITS, escape_line
from serve.trace_types import TraceAnswer, TraceHit

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

STEP_WIDTH: Final = len("introduced")
STYLES: Final = {"introduced": "green", "restored": "green", "removed": "red", "modified": ""}


def print_trace_answer(answer: TraceAnswer, console: Console) -> None:
    """Print the changes, each with its place unless the change before it has the same, then the counts."""
    from rich.text import Text

    details = answer.meta.trace
    place = ""
    for hit in answer.hits:
        console.print(_format_hit(hit), no_wrap=True, overflow="ellipsis")
        if (hit_place := _format_place(hit)) != place:
            console.print(Text(f"    {hit_place}", style="cyan"), no_wrap=True, overflow="ellipsis")
        place = hit_place
    if answer.hits:
        console.print()
    if answer.meta.hint:
        console.print(Text(escape_line(answer.meta.hint), style="bold yellow"))
    console.print(Text(escape_line(f"{details.symbol}, {details.place}"), style="bold"), soft_wrap=True)
    console.print(Text(details.count))
    if details.limitation:
        console.print(Text(escape_line(details.limitation), style="dim"))


def _format_hit(hit: TraceHit) -> Text:
    from rich.text import Text

    step = f"{hit.step}{'' if hit.provenance == 'EXACT' else ' ≈'}"
    row = Text().append(hit.commit_sha[:SHA_DIGITS], style="yellow").append(f"  {hit.commit_date[:10]}  ")
    row.append(f"{step:<{STEP_WIDTH}}  ", style=STYLES.get(hit.step, "magenta"))
    row.append(format_message_lines(hit.commit_subject)[0], style="bold")
    return row.append(f"  {escape_line(hit.commit_author)}", style="dim")


def _format_place(hit: TraceHit) -> str:
    return escape_line(f"{hit.path}:{hit.symbol}{hit.source}")
