"""Progress bar of an index run on stderr: commits, then embedded texts, with rate and remaining time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

if TYPE_CHECKING:
    from pipeline.run import Progress

# Time span of the rate. Updates come once per batch; with rich's default of 30 s, slow runs would have no rate.
SPEED_WINDOW_SECONDS: Final = 3600
# Commits or texts per second below which the rate has one decimal.
MIN_WHOLE_RATE: Final = 10


@contextmanager
def show_progress_bar(
    console: Console | None = None, clock: Callable[[], float] | None = None, *, name: str = ""
) -> Iterator[Callable[[Progress], None]]:
    """Show a progress bar. Call the yielded function after each batch with the progress of the run so far.

    `name`: of the repository, shown before the bar.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[details]}, left"),
        TimeRemainingColumn(),
    )
    with Bar(
        *columns,
        console=console or Console(stderr=True),
        transient=True,
        speed_estimate_period=SPEED_WINDOW_SECONDS,
        get_time=clock,
    ) as bar:
        commits = bar.add_task(f"indexing {escape(name)}".rstrip(), total=None, details="")
        texts = bar.add_task(f"embedding {escape(name)}".rstrip(), total=None, details="", visible=False)

        def update(progress: Progress) -> None:
            bar.update(commits, total=progress.total_commits, completed=progress.processed_commits)
            rate = _format_rate(bar.tasks[commits].speed, "commits")
            bar.update(commits, details=f"commits, {progress.written_hunks:,} hunks, {rate}")
            if progress.total_texts:
                bar.update(commits, visible=False)
                bar.update(texts, total=progress.total_texts, completed=progress.embedded_texts, visible=True)
                bar.update(texts, details=f"texts, {_format_rate(bar.tasks[texts].speed, 'texts')}")

        yield update


def _format_rate(speed: float | None, unit: str) -> str:
    return f"{speed:,.{0 if speed >= MIN_WHOLE_RATE else 1}f} {unit}/s" if speed else "..."
