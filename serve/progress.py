"""The progress bar of an index run: commits, hunks, rate, time left; on stderr, on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

if TYPE_CHECKING:
    from pipeline.run import Progress


@contextmanager
def bar() -> Iterator[Callable[[Progress], None]]:
    """A bar that is drawn by calling it with each batch's progress."""
    columns = (
        TextColumn("indexing"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("commits, {task.fields[hunks]:,} hunks, {task.fields[rate]}, left"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=None, hunks=0, rate="...")

        def draw(now: Progress) -> None:
            speed = shown.tasks[task].speed
            rate = f"{speed:,.0f} commits/s" if speed else "..."
            shown.update(task, total=now.total, completed=now.commits, hunks=now.hunks, rate=rate)

        yield draw
