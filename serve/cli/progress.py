"""The progress bar of an index run: commits, hunks, rate, time left; on stderr, on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

if TYPE_CHECKING:
    from pipeline.run import Progress

# News comes once a batch: the usual 30 s forget the batch before on a slow run, and with it rate and time left.
SPEED_OVER_SECONDS: Final = 3600
# Below this many commits a second a rate needs a decimal to say anything.
WHOLE_RATES: Final = 10


@contextmanager
def bar(
    console: Console | None = None, clock: Callable[[], float] | None = None
) -> Iterator[Callable[[Progress], None]]:
    """A bar that is drawn by calling it with each batch's progress."""
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
        speed_estimate_period=SPEED_OVER_SECONDS,
        get_time=clock,
    ) as shown:
        task = shown.add_task("", total=None, hunks=0, rate="...")

        def draw(now: Progress) -> None:
            shown.update(task, total=now.total, completed=now.commits, hunks=now.hunks)
            shown.update(task, rate=_rate(shown.tasks[task].speed))

        yield draw


def _rate(speed: float | None) -> str:
    if not speed:
        return "..."
    return f"{speed:,.{0 if speed >= WHOLE_RATES else 1}f} commits/s"
