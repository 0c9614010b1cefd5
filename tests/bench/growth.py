"""Whether memory grows with the length of the history: the same repository at two lengths, and an even one made here.

python -m tests.bench.growth CLONE...

A longer history needs more wherever its files grow. What a run keeps of the commits it has behind it shows beside a
run that was killed on the way and begun anew: it has fewer behind it, and the same before it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.bench.histories import History, cut, even
from tests.bench.indexing import MOST_BYTES, zeros_command
from tests.bench.killed import strike
from tests.bench.programs import lineage, run
from tests.bench.report import Asked, Row, main, median

SHORT: Final = 1_000
# Files grow as a project ages, and batches with them; what must not be there is a part that follows the
# number of commits, which over five times as many would show as far more than this.
TOLERATED: Final = 1.25
# Where files stay as large, what is left is what the engine knows of the tables it adds to.
TOLERATED_EVEN: Final = 1.1
# Both take the same commits in the end; a twentieth is what one run differs from the next.
TOLERATED_ANEW: Final = 1.05
# Where a run is begun anew: about a third on, at a moment when both of two workers begin another turn, so that the
# same batches meet as in a run that was not.
ANEW_AT: Final = 0.32


def measure(clone: Path, folder: Path, asked: Asked) -> Sequence[Row]:
    if asked.commits <= SHORT:
        return []
    short, long = (cut(clone, folder / f"clone-{commits}", commits) for commits in (SHORT, asked.commits))
    lengths = f"{long.commits:,} / {short.commits:,} commits"
    full = [_peaks(history, folder / "home", asked.runs) for history in (short, long)]
    anew = _peaks(long, folder / "home", asked.runs, anew=True)
    without = [_without(history, folder / f"zeros-{history.commits}") for history in (short, long)]
    return [
        _growth(long, f"peak memory, {lengths}", TOLERATED, *map(median, full)),
        _growth(
            long,
            f"peak memory, one run / killed at {ANEW_AT:.0%} and begun anew",
            TOLERATED_ANEW,
            median(anew),
            median(full[1]),
        ),
        _growth(long, f"peak memory without embedding, {lengths}", None, *without),
        Row(
            long.name,
            "peak memory of the longer, bytes",
            max(full[1]),
            MOST_BYTES,
            f"largest of {asked.runs}",
        ),
    ]


def measure_even(folder: Path, asked: Asked) -> Sequence[Row]:
    """The row of the made history."""
    if asked.commits <= SHORT:
        return []
    histories = [even(folder / f"even-{commits}", commits) for commits in (SHORT, asked.commits)]
    peaks = [
        median(
            [_without(history, folder / f"home-{history.commits}-{number}") for number in range(asked.runs)]
        )
        for history in histories
    ]
    lengths = f"{asked.commits:,} / {SHORT:,} commits"
    return [_growth(histories[1], f"peak memory without embedding, {lengths}", TOLERATED_EVEN, *peaks)]


def _peaks(history: History, home: Path, runs: int, *, anew: bool = False) -> list[int]:
    """Of whole runs, or of the second part of runs that were killed on the way."""
    peaks = []
    for _ in range(runs):
        shutil.rmtree(home, ignore_errors=True)
        if anew:
            strike(history, home, ANEW_AT)
        peaks.append(lineage(home, "index", history.path, "--no-progress").peak_bytes)
    return peaks


def _without(history: History, home: Path) -> int:
    return run(zeros_command(history.path), home=home).peak_bytes


def _growth(history: History, what: str, limit: float | None, short: float, long: float) -> Row:
    return Row(history.name, what, long / short, limit, f"{long:,.0f} / {short:,.0f} bytes")


if __name__ == "__main__":
    main(measure, __doc__ or "", measure_even)
