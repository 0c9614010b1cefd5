"""The bar of an index run."""

from __future__ import annotations

import io

from rich.console import Console
from rich.text import Text

from pipeline.run import Progress
from serve.cli import progress


def test_a_slow_run_has_a_rate_and_a_time_left() -> None:
    """News every 31 seconds is enough: after two batches of seven the bar says 3.2 a second, and 155 s to go."""
    screen, times = io.StringIO(), [0.0]
    console = Console(file=screen, force_terminal=True, width=110)
    with progress.bar(console, lambda: times[0]) as draw:
        for batch in range(3):
            draw(Progress(commits=100 * batch, total=700, hunks=250 * batch))
            times[0] += 31
    last = screen.getvalue().rpartition("indexing ")[2]
    assert "200/700 commits, 500 hunks, 3.2 commits/s, left 0:02:35" in " ".join(
        Text.from_ansi(last).plain.split()
    )


def test_what_there_is_to_do_is_known_before_the_first_batch() -> None:
    """Once the walk has ended the bar counts up to its number of commits."""
    screen = io.StringIO()
    with progress.bar(Console(file=screen, force_terminal=True, width=110)) as draw:
        draw(Progress(total=700))
    assert "0/700" in screen.getvalue()
