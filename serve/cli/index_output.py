"""Output of an index run: log events, progress bar and summary."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pipeline.git.errors import NothingReadable
from pipeline.profile import WORKER_PHASES
from serve import text
from serve.cli.terminal import is_interrupt, print_note, print_text

if TYPE_CHECKING:
    from rich.console import Console

    from pipeline.run import Progress, RunSummary
    from stores.history import UnreadableCommit


logger = logging.getLogger(__name__)

# Number of commits between two events of the log.
COMMITS_PER_EVENT: Final = 100
# Characters of a bar that stands for the whole time of the run.
BAR_CELLS: Final = 24
# Digits of a SHA in an event on a terminal, as in git, so that an event of 9,999 commits fits 80 columns.
EVENT_SHA_DIGITS: Final = 7
# Maximum number of unreadable commits or files in a message. A few show what kind of damage it is.
MAX_LISTED: Final = 3

# Time over which the rate is averaged. A rate needs two updates in this time, and each batch sends one update. With
# rich's default of 30 s, runs with slow batches would therefore have no rate.
RATE_WINDOW_SECONDS: Final = 3600
# Commits or texts per second below which the rate has one decimal.
MIN_WHOLE_RATE: Final = 10


@contextmanager
def report_progress(*, show_bar: bool, name: str = "") -> Iterator[Callable[[Progress], None]]:
    """Log progress events and show a progress bar on a terminal. Yield a function to call after each batch.

    `name`: name of the repository, shown before the bar if there are several.
    """
    is_terminal = sys.stderr.isatty()
    event_log = _ProgressLog(EVENT_SHA_DIGITS if is_terminal else None)
    with _report_interruption(event_log):
        if not (show_bar and is_terminal):
            yield event_log.update
            return
        with show_progress_bar(name=name) as update_bar:

            def report(progress: Progress) -> None:
                event_log.update(progress)
                update_bar(progress)

            yield report


@contextmanager
def _report_interruption(event_log: _ProgressLog) -> Iterator[None]:
    """Print how many commits are indexed, or texts embedded, if the run is interrupted after its first batch."""
    try:
        yield
    except BaseException as error:
        if is_interrupt(error) and event_log.latest_progress:
            with suppress(OSError):  # a terminal that was closed
                print_note(_format_interruption(event_log.latest_progress))
        raise


def _format_interruption(progress: Progress) -> str:
    if progress.embedded_texts < progress.total_texts:
        return (
            f"stopped after the vectors of {progress.embedded_texts:,} of {progress.total_texts:,} texts; "
            "all commits are indexed by words. Run `lineage index` to continue."
        )
    position = f"{progress.processed_commits:,} of {progress.total_commits:,} commits"
    if progress.processed_commits == progress.total_commits:
        position = f"all {progress.total_commits:,} commits, but before the index was complete"
    return f"stopped after {position}. Run `lineage index` to continue."


@dataclass(slots=True)
class _ProgressLog:
    """Progress log with an event for every `COMMITS_PER_EVENT` commits, and for every transaction of vectors.

    `watermark_digits`: number of digits to log of the watermark, the SHA of the last indexed commit; None for all.
    `latest_progress`: progress after the latest batch; None before the first.
    """

    watermark_digits: int | None = None
    latest_progress: Progress | None = None

    def update(self, progress: Progress) -> None:
        """Log an event if a multiple of `COMMITS_PER_EVENT` was passed or texts were embedded."""
        previous_commits = self.latest_progress.processed_commits if self.latest_progress else 0
        if progress.processed_commits // COMMITS_PER_EVENT > previous_commits // COMMITS_PER_EVENT:
            logger.info(
                "event=indexing commits=%d total=%d hunks=%d watermark=%s",
                progress.processed_commits,
                progress.total_commits,
                progress.written_hunks,
                progress.watermark and progress.watermark[: self.watermark_digits],
            )
        if progress.embedded_texts:
            logger.info("event=embedding texts=%d total=%d", progress.embedded_texts, progress.total_texts)
        self.latest_progress = progress


def print_summary(
    summary: RunSummary, *, profile_details: Mapping[str, int | str] | None, is_partial_clone: bool
) -> None:
    """Print the counts and phase times of an index run, and warnings about commits and files that it could not read.

    `profile_details`: fields to add to the profile, which is printed as a JSON line; None to print no profile.

    Raises NothingReadable if the index has no commit because none could be read.
    """
    check_readable(summary, is_partial_clone=is_partial_clone)
    lines = [
        f"indexed in {format_duration(summary.seconds)} - {format_counts(summary)}",
        *_format_phases(summary),
    ]
    if summary.refresh.hunks:
        lines.append(
            f"extracted the symbols of {text.format_count(summary.refresh.hunks, 'indexed hunk')} again"
        )
    if not (summary.commits or summary.head_symbols or summary.refresh.hunks):
        lines.append(f"nothing new; the index has {text.format_commit_count(summary.indexed_commits)}")
    if summary.pending_texts:
        lines.append(f"texts without a vector: {summary.pending_texts:,}; `lineage index` adds the vectors")
    if profile_details is not None:
        lines.append(summary.profile.to_json_line(**profile_details))
    print_text("\n".join(lines))
    log_warnings(summary, is_partial_clone=is_partial_clone)


def format_counts(summary: RunSummary) -> str:
    """Return the number of commits, hunks and symbols that a run wrote."""
    counts = (summary.commits, "commit"), (summary.hunks, "hunk"), (summary.head_symbols, "HEAD symbol")
    return ", ".join(text.format_count(count, noun) for count, noun in counts)


def check_readable(summary: RunSummary, *, is_partial_clone: bool) -> None:
    """Raise NothingReadable if the index has no commit because none could be read."""
    if summary.unreadable_commits and not summary.indexed_commits:
        remedy = text.describe_unreadable_remedy(
            summary.unreadable_commits, is_partial_clone=is_partial_clone
        )
        raise NothingReadable(
            len(summary.unreadable_commits), _format_unreadable(summary.unreadable_commits), remedy
        )


def log_warnings(summary: RunSummary, *, is_partial_clone: bool) -> None:
    """Log warnings about commits and files that could not be read, and about an index that stays incompatible."""
    if summary.unreadable_commits:
        logger.warning(
            "Skipped commits that could not be read (%d): %s. %s",
            len(summary.unreadable_commits),
            _format_unreadable(summary.unreadable_commits),
            text.describe_unreadable_remedy(summary.unreadable_commits, is_partial_clone=is_partial_clone),
        )
    log_unreadable_refs(summary.unreadable_refs)
    if summary.head_error:
        logger.warning(
            "The files of HEAD could not be listed: %s. Their old symbols stay. Run `lineage index` to try again.",
            summary.head_error,
        )
    if summary.unreadable_head_files:
        logger.warning(
            "Files at HEAD could not be read (%d): %s. Their old symbols stay. Run `lineage index` to try again.",
            len(summary.unreadable_head_files),
            join_first(summary.unreadable_head_files),
        )
    if summary.refresh.failed_commits:
        logger.warning(
            "Commits could not be extracted again (%d): %s. Their outdated symbols stay. `lineage index --force` tries "
            "again. `lineage gc` deletes commits that no branch reaches.",
            len(summary.refresh.failed_commits),
            _format_unreadable(summary.refresh.failed_commits),
        )
    from serve.index_status import describe_compatibility  # imports the database, which the run has loaded

    if compatibility_warning := describe_compatibility(summary.verdict):
        logger.warning("%s", compatibility_warning)


def log_unreadable_refs(names: Sequence[str]) -> None:
    """Log a warning about branches and tags whose commit could not be read, if there are any."""
    if names:
        logger.warning(
            "Branches and tags whose commit is missing or damaged (%d): %s. They are not indexed. Run `git fsck`.",
            len(names),
            join_first(names),
        )


def _format_phases(summary: RunSummary) -> Iterator[str]:
    phases = summary.profile.get_elapsed_times(summary.workers)
    for name, seconds in phases:
        share = min(seconds / summary.seconds, 1.0)
        bar = "█" * round(share * BAR_CELLS)
        yield f"  {name:<8}{format_duration(seconds):>9}  {bar:<{BAR_CELLS}} {share:>4.0%}"
    if phases:
        note = (
            f"; {', '.join(WORKER_PHASES)}: mean of {summary.workers} workers" if summary.workers > 1 else ""
        )
        yield f"  wall time, phases overlap{note}"


def _format_unreadable(unreadable: Sequence[UnreadableCommit]) -> str:
    return join_first([f"{entry.commit_sha[:12]} ({entry.reason})" for entry in unreadable])


def join_first(names: Sequence[str]) -> str:
    """Return the first MAX_LISTED names, separated by commas."""
    return ", ".join(names[:MAX_LISTED]) + (", ..." if len(names) > MAX_LISTED else "")


def format_duration(seconds: float) -> str:
    """Format a duration: `820 ms`, `12.3 s`, `4 min 05 s`."""
    if round(seconds, 3) < 1:
        return f"{seconds * 1000:.0f} ms"
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, remaining_seconds = divmod(round(seconds), 60)
    return f"{minutes} min {remaining_seconds:02} s"


@contextmanager
def show_progress_bar(
    console: Console | None = None, clock: Callable[[], float] | None = None, *, name: str = ""
) -> Iterator[Callable[[Progress], None]]:
    """Show a progress bar. Call the yielded function after each batch with the progress of the run so far.

    `clock` returns the time in seconds; None for the system's clock.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

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
        speed_estimate_period=RATE_WINDOW_SECONDS,
        get_time=clock,
    ) as bar:
        indexing = bar.add_task(f"indexing {escape(name)}".rstrip(), total=None, details="")
        embedding = bar.add_task(f"embedding {escape(name)}".rstrip(), total=None, details="", visible=False)

        def update(progress: Progress) -> None:
            # The counts are updated first, because rich computes the rate (`speed`) from them.
            bar.update(indexing, total=progress.total_commits, completed=progress.processed_commits)
            rate = _format_rate(bar.tasks[indexing].speed, "commits")
            bar.update(indexing, details=f"commits, {progress.written_hunks:,} hunks, {rate}")
            if progress.total_texts:
                bar.update(indexing, visible=False)
                bar.update(
                    embedding, total=progress.total_texts, completed=progress.embedded_texts, visible=True
                )
                rate = _format_rate(bar.tasks[embedding].speed, "texts")
                bar.update(embedding, details=f"texts, {rate}")

        yield update


def _format_rate(rate: float | None, unit: str) -> str:
    if not rate:
        return "..."
    decimals = 0 if rate >= MIN_WHOLE_RATE else 1
    return f"{rate:,.{decimals}f} {unit}/s"
