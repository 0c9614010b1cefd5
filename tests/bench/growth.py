"""Whether memory grows with the length of the history: the same repository at two lengths, and an even one made here.

python -m tests.bench.growth CLONE...
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.bench.histories import History, cut, even
from tests.bench.indexing import MOST_BYTES, zeros_command
from tests.bench.programs import lineage, run
from tests.bench.report import Asked, Row, main, median

SHORT: Final = 1_000
# Files grow as a project ages, and batches with them; what must not be there is a part that follows the
# number of commits, which over five times as many would show as far more than this.
TOLERATED: Final = 1.25
# Where files stay as large, what is left is what the engine knows of the tables it adds to.
TOLERATED_EVEN: Final = 1.1


def measure(clone: Path, folder: Path, asked: Asked) -> Sequence[Row]:
    if asked.commits <= SHORT:
        return []
    short, long = (cut(clone, folder / f"clone-{commits}", commits) for commits in (SHORT, asked.commits))
    lengths = f"{long.commits:,} / {short.commits:,} commits"
    full = [_peaks(history, folder / "home", asked.runs) for history in (short, long)]
    without = [_without(history, folder / f"zeros-{history.commits}") for history in (short, long)]
    return [
        _growth(long, f"peak memory, {lengths}", TOLERATED, *map(median, full)),
        _growth(long, f"the same without embedding, {lengths}", None, *without),
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


def _peaks(history: History, home: Path, runs: int) -> list[int]:
    peaks = []
    for _ in range(runs):
        shutil.rmtree(home, ignore_errors=True)
        peaks.append(lineage(home, "index", history.path, "--no-progress").peak_bytes)
    return peaks


def _without(history: History, home: Path) -> int:
    return run(zeros_command(history.path), home=home).peak_bytes


def _growth(history: History, what: str, limit: float | None, short: float, long: float) -> Row:
    return Row(history.name, what, long / short, limit, f"{long:,.0f} / {short:,.0f} bytes")


if __name__ == "__main__":
    main(measure, __doc__ or "", measure_even)
