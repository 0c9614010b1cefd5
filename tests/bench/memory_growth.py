"""Whether memory grows with the length of the history: the same repository at two lengths, and an even one made here.

python -m tests.bench.memory_growth CLONE...

A longer history needs more wherever its files grow. What a run keeps of the commits it has behind it shows beside a
run that was killed and begun anew two thirds of the way: both have the same commits before them.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pipeline.run import BATCHES_IN_A_ROW, COMMITS_PER_BATCH
from pipeline.workers import usable_cpus
from tests.bench.histories import History, cut, even
from tests.bench.indexing import MOST_BYTES, zeros_command
from tests.bench.kill_recovery import followed, strike
from tests.bench.memory import Peak
from tests.bench.programs import LINEAGE, Failed, lineage, run, start
from tests.bench.report import Asked, Row, main, median

SHORT: Final = 1_000
# Files grow as a project ages, and batches with them; what must not be there is a part that follows the
# number of commits, which over five times as many would show as far more than this.
TOLERATED: Final = 1.25
# Where files stay as large, what is left is what the engine knows of the tables it adds to.
TOLERATED_EVEN: Final = 1.1
# One run differs from the next by a twentieth. Of 5,000 commits that is 6 KB for each that is kept.
TOLERATED_ANEW: Final = 1.05
# Where a run is begun anew, at the latest.
ANEW_AT: Final = 2 / 3


def measure(clone: Path, folder: Path, asked: Asked) -> Sequence[Row]:
    if asked.commits <= SHORT:
        return []
    short, long = (cut(clone, folder / f"clone-{commits}", commits) for commits in (SHORT, asked.commits))
    lengths = f"{long.commits:,} / {short.commits:,} commits"
    full = [_peaks(history, folder / "home", asked.runs) for history in (short, long)]
    without = [_without(history, folder / f"zeros-{history.commits}") for history in (short, long)]
    return [
        _growth(long, f"peak memory, {lengths}", TOLERATED, *map(median, full)),
        _kept(long, folder / "home", asked.runs),
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


def _kept(history: History, home: Path, runs: int) -> Row:
    """Peaks over the last third, of runs that came all the way and of runs that only had that to do."""
    share = _behind(history) / history.commits
    whole, anew = [], []
    for _ in range(runs):
        shutil.rmtree(home, ignore_errors=True)
        whole.append(_peak_after(history, home, share))
        shutil.rmtree(home, ignore_errors=True)
        blow = strike(history, home, share)
        anew.append(lineage(home, "index", history.path, "--no-progress").peak_bytes)
    what = f"peak memory of the rest, one run / killed at {blow.passed:,} commits and begun anew"
    return _growth(history, what, TOLERATED_ANEW, median(anew), median(whole))


def _behind(history: History) -> int:
    """Commits after which all workers begin another turn, so that the same batches meet as in a whole run."""
    turn = usable_cpus() * BATCHES_IN_A_ROW * COMMITS_PER_BATCH
    return int(ANEW_AT * history.commits) // turn * turn


def _peak_after(history: History, home: Path, share: float) -> int:
    """Peak bytes of a run from the moment on when it told of this share of the commits."""
    process = start((*LINEAGE, "index", str(history.path), "--no-progress"), home=home)
    followed(process, share)
    peak = Peak(process.pid)
    peak.start()
    _, complaints = process.communicate()
    peak.stop()
    if process.returncode:
        raise Failed(f"lineage index ended with {process.returncode}:\n{complaints}")
    return peak.bytes


def _peaks(history: History, home: Path, runs: int) -> list[int]:
    peaks = []
    for _ in range(runs):
        shutil.rmtree(home, ignore_errors=True)
        peaks.append(lineage(home, "index", history.path, "--no-progress").peak_bytes)
    return peaks


def _without(history: History, home: Path) -> int:
    return run(zeros_command(history.path), home=home).peak_bytes


def _growth(history: History, what: str, limit: float | None, base: float, grown: float) -> Row:
    return Row(history.name, what, grown / base, limit, f"{grown:,.0f} / {base:,.0f} bytes")


if __name__ == "__main__":
    main(measure, __doc__ or "", measure_even)
