"""Progress bar of an index run on stderr: commits, hunks, rate and remaining time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

if TYPE_CHECKING:
    from pipeline.run import Progress

# Time span of the rate. Updates come once per batch; with rich's default of 30 s, slow runs would have no rate.
SPEED_WINDOW_SECONDS: Final = 3600
# Commits per second below which the rate has one decimal.
MIN_WHOLE_RATE: Final = 10


@contextmanager
def show_progress_bar(
    console: Console | None = None, clock: Callable[[], float] | None = None
) -> Iterator[Callable[[Progress], None]]:
    """Show a progress bar. Call the yielded function after each batch with the progress of the run so far."""
    columns = (
        TextColumn("indexing"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("commits, {task.fields[hunks]:,} hunks, {task.fields[rate]}, left"),
        TimeRemainingColumn(),
    )
    with Bar(
        *columns,
        console=console or Console(stderr=True),
        transient=True,
        speed_estimate_period=SPEED_WINDOW_SECONDS,
        get_time=clock,
    ) as bar:
        task = bar.add_task("", total=None, hunks=0, rate="...")

        def update(progress: Progress) -> None:
            bar.update(
                task,
                total=progress.total_commits,
                completed=progress.processed_commits,
                hunks=progress.written_hunks,
            )
            bar.update(task, rate=_format_rate(bar.tasks[task].speed))

        yield update


def _format_rate(speed: float | None) -> str:
    if not speed:
        return "..."
    return f"{speed:,.{0 if speed >= MIN_WHOLE_RATE else 1}f} commits/s"
