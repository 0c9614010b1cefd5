"""Progress bar of an index run."""

from __future__ import annotations

import io

from rich.console import Console
from rich.text import Text

from pipeline.run import Progress
from serve.cli import index_output


def test_slow_run_shows_rate_and_remaining_time() -> None:
    """With an update every 31 s the bar shows 3.2 commits/s and 155 s left after two of seven batches."""
    screen, times = io.StringIO(), [0.0]
    console = Console(file=screen, force_terminal=True, width=110)
    with index_output.show_progress_bar(console, lambda: times[0]) as draw:
        for batch in range(3):
            draw(Progress(processed_commits=100 * batch, total_commits=700, written_hunks=250 * batch))
            times[0] += 31
    last = screen.getvalue().rpartition("indexing ")[2]
    assert "200/700 commits, 500 hunks, 3.2 commits/s, left 0:02:35" in " ".join(
        Text.from_ansi(last).plain.split()
    )


def test_texts_follow_commits() -> None:
    """While texts are embedded, the bar counts texts in place of commits."""
    screen, times = io.StringIO(), [0.0]
    console = Console(file=screen, force_terminal=True, width=110)
    with index_output.show_progress_bar(console, lambda: times[0]) as draw:
        draw(Progress(processed_commits=700, total_commits=700))
        for texts in (0, 512, 1024):
            draw(Progress(processed_commits=700, total_commits=700, embedded_texts=texts, total_texts=2048))
            times[0] += 4
    last = screen.getvalue().rpartition("embedding ")[2]
    assert "1024/2048 texts, 128 texts/s, left 0:00:08" in " ".join(Text.from_ansi(last).plain.split())


def test_total_is_shown_before_the_first_batch() -> None:
    """The bar shows the total number of commits before the first batch."""
    screen = io.StringIO()
    with index_output.show_progress_bar(Console(file=screen, force_terminal=True, width=110)) as draw:
        draw(Progress(total_commits=700))
    assert "0/700" in screen.getvalue()
