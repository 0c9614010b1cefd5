"""What a person sees of an index run: events and a bar while it is at work, and at its end what it did."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from serve import text
from serve.cli import exit_codes
from serve.cli.terminal import note, say

if TYPE_CHECKING:
    from pipeline.run import Progress, Summary
    from stores.history import Unreadable

logger = logging.getLogger(__name__)

# Log events, like the watermark, move with the walk.
EVENT_EVERY: Final = 100
BAR_CELLS: Final = 24
# On a terminal, of the watermark: as many as git shows, so that an event of 9,999 commits fits 80 columns.
FEW_DIGITS: Final = 7
# Enough to see what kind of damage it is.
NAMED_UNREADABLE: Final = 3


@contextmanager
def heard(*, bar: bool) -> Iterator[Callable[[Progress], None]]:
    """What hears of each batch: the log, and on a terminal a bar where one is wanted."""
    events = _Events(FEW_DIGITS if sys.stderr.isatty() else None)
    with _last_word(events), _drawn(wanted=bar) as draw:

        def hear(now: Progress) -> None:
            events.hear(now)
            draw(now)

        yield hear


@contextmanager
def _drawn(*, wanted: bool) -> Iterator[Callable[[Progress], None]]:
    if not (wanted and sys.stderr.isatty()):
        yield lambda _: None
        return
    from serve.cli import progress

    with progress.bar() as draw:
        yield draw


@contextmanager
def _last_word(events: _Events) -> Iterator[None]:
    """Of a run that is stopped, say how far it came; of one that had not begun there is nothing to say."""
    try:
        yield
    except BaseException as error:
        if exit_codes.is_interrupt(error) and events.newest:
            with suppress(OSError):  # a terminal that was closed
                note(_stopped(events.newest))
        raise


def _stopped(now: Progress) -> str:
    done = f"{now.commits:,} of {now.total:,} commits"
    if now.commits == now.total:
        done = f"all {now.total:,} commits, before the index was complete"
    return f"stopped after {done}; `lineage index` goes on from there"


@dataclass(slots=True)
class _Events:
    """One log event for every hundred commits; `newest` is None until anything is known.

    `digits`: how many of the watermark's are shown, None for all.
    """

    digits: int | None = None
    newest: Progress | None = None

    def hear(self, now: Progress) -> None:
        told = self.newest.commits if self.newest else 0
        if now.commits // EVENT_EVERY > told // EVENT_EVERY:
            logger.info(
                "event=indexing commits=%d total=%d hunks=%d watermark=%s",
                now.commits,
                now.total,
                now.hunks,
                now.watermark and now.watermark[: self.digits],
            )
        self.newest = now


def tell(summary: Summary, *, profile: bool, partial: bool) -> None:
    """Say what a run did, where its time went, and what it had to leave."""
    lines = [
        f"indexed in {duration(summary.seconds)} - {summary.commits:,} commits, {summary.hunks:,} hunks, "
        f"{summary.head_symbols:,} HEAD symbols",
        *_phase_lines(summary),
    ]
    if not (summary.commits or summary.head_symbols):
        lines.append(f"nothing new; the index has {summary.indexed:,} commits")
    if profile:
        lines.append(summary.profile.line())
    say("\n".join(lines))
    if summary.unreadable:
        logger.warning(
            "Commits that could not be read are not indexed (%d): %s. %s",
            len(summary.unreadable),
            _named(summary.unreadable),
            text.remedy(summary.unreadable, partial=partial),
        )
    if summary.head_unread:
        logger.warning(
            "HEAD symbols of what could not be read stay as they were (%d): %s. Every `lineage index` tries again.",
            len(summary.head_unread),
            _listed(summary.head_unread),
        )
    from serve.index_status import compatibility_sentence  # loads the database, which the run has done by now

    if sentence := compatibility_sentence(summary.verdict):
        logger.warning("%s", sentence)


def _phase_lines(summary: Summary) -> Iterator[str]:
    shares = summary.profile.shares(summary.workers)
    for name, seconds in shares:
        share = min(seconds / summary.seconds, 1.0)
        bar = "█" * round(share * BAR_CELLS)
        yield f"  {name:<8}{duration(seconds):>9}  {bar:<{BAR_CELLS}} {share:>4.0%}"
    if shares:
        among = f"; diff and parse: mean of {summary.workers} workers" if summary.workers > 1 else ""
        yield f"  wall time, phases overlap{among}"


def _named(unreadable: Sequence[Unreadable]) -> str:
    """The first of them with their reasons."""
    return _listed([f"{entry.commit_sha[:12]} ({entry.reason})" for entry in unreadable])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED_UNREADABLE]) + (", ..." if len(names) > NAMED_UNREADABLE else "")


def duration(seconds: float) -> str:
    """A length of time as a person reads it: `820 ms`, `12.3 s`, `4 min 05 s`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s"
