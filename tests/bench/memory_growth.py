"""Benchmark of memory growth with the length of the history: one repository at two lengths, and a uniform history.

python -m tests.bench.memory_growth CLONE...

Files of real repositories grow with time, and memory with them. Memory that a run keeps for processed commits shows
against a run that was killed at two thirds and restarted: both process the same remaining commits.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pipeline.run import BATCHES_PER_GROUP, COMMITS_PER_BATCH
from pipeline.workers import count_usable_cpus
from tests.bench.histories import History, clone_history, create_uniform_history
from tests.bench.indexing import MAX_BYTES, index_without_embedding_command
from tests.bench.kill_recovery import kill_run, wait_for_progress
from tests.bench.memory import PeakMemory
from tests.bench.programs import LINEAGE, ProgramFailed, run_lineage, run_program, start_program
from tests.bench.report import BenchmarkOptions, Row, main, median

SHORT_COMMITS: Final = 1_000
# Files grow as a project ages, and batches with them; a part that follows the
# number of commits would show as far more for five times as many.
MAX_GROWTH: Final = 1.25
# Uniform histories: what remains is DuckDB's metadata of growing tables.
MAX_UNIFORM_GROWTH: Final = 1.1
# Runs differ by 5 %, which for 5,000 commits is 6 KB per commit.
MAX_CONTINUED_GROWTH: Final = 1.05
# Share of the commits after which the run is killed and restarted, at most.
RESTART_SHARE: Final = 2 / 3


def measure(clone: Path, folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    if options.commits <= SHORT_COMMITS:
        return []
    short, long = (
        clone_history(clone, folder / f"clone-{commits}", commits)
        for commits in (SHORT_COMMITS, options.commits)
    )
    lengths = f"{long.commits:,} / {short.commits:,} commits"
    full = [_peaks(history, folder / "home", options.runs) for history in (short, long)]
    without_embedding = [
        _peak_without_embedding(history, folder / f"zeros-{history.commits}") for history in (short, long)
    ]
    return [
        _growth_row(long, f"peak memory, {lengths}", MAX_GROWTH, *map(median, full)),
        _restarted_row(long, folder / "home", options.runs),
        _growth_row(long, f"peak memory without embedding, {lengths}", None, *without_embedding),
        Row(
            long.name,
            "peak memory of the longer, bytes",
            max(full[1]),
            MAX_BYTES,
            f"largest of {options.runs}",
        ),
    ]


def measure_uniform(folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    """Return the row of the uniform history."""
    if options.commits <= SHORT_COMMITS:
        return []
    histories = [
        create_uniform_history(folder / f"even-{commits}", commits)
        for commits in (SHORT_COMMITS, options.commits)
    ]
    peaks = [
        median(
            [
                _peak_without_embedding(history, folder / f"home-{history.commits}-{number}")
                for number in range(options.runs)
            ]
        )
        for history in histories
    ]
    lengths = f"{options.commits:,} / {SHORT_COMMITS:,} commits"
    return [
        _growth_row(histories[1], f"peak memory without embedding, {lengths}", MAX_UNIFORM_GROWTH, *peaks)
    ]


def _restarted_row(history: History, home: Path, runs: int) -> Row:
    """Compare peak memory over the last third of uninterrupted runs and of restarted runs."""
    share = _restart_commits(history) / history.commits
    uninterrupted, restarted = [], []
    for _ in range(runs):
        shutil.rmtree(home, ignore_errors=True)
        uninterrupted.append(_peak_after(history, home, share))
        shutil.rmtree(home, ignore_errors=True)
        killed = kill_run(history, home, share)
        restarted.append(run_lineage(home, "index", history.path, "--no-progress").peak_bytes)
    what = f"peak memory of the rest, one run / killed at {killed.indexed:,} commits and restarted"
    return _growth_row(history, what, MAX_CONTINUED_GROWTH, median(restarted), median(uninterrupted))


def _restart_commits(history: History) -> int:
    """Return the commits after which to restart: a multiple of a round of all workers, so that batches coincide."""
    commits_per_round = count_usable_cpus() * BATCHES_PER_GROUP * COMMITS_PER_BATCH
    return int(RESTART_SHARE * history.commits) // commits_per_round * commits_per_round


def _peak_after(history: History, home: Path, share: float) -> int:
    """Return the peak bytes of a run after it logged this share of the commits."""
    process = start_program((*LINEAGE, "index", str(history.path), "--no-progress"), home=home)
    wait_for_progress(process, share)
    peak = PeakMemory(process.pid)
    peak.start()
    _, errors = process.communicate()
    peak.stop()
    if process.returncode:
        raise ProgramFailed(f"lineage index exited with {process.returncode}:\n{errors}")
    return peak.bytes


def _peaks(history: History, home: Path, runs: int) -> list[int]:
    peaks = []
    for _ in range(runs):
        shutil.rmtree(home, ignore_errors=True)
        peaks.append(run_lineage(home, "index", history.path, "--no-progress").peak_bytes)
    return peaks


def _peak_without_embedding(history: History, home: Path) -> int:
    return run_program(index_without_embedding_command(history.path), home=home).peak_bytes


def _growth_row(history: History, what: str, limit: float | None, base: float, peak: float) -> Row:
    return Row(history.name, what, peak / base, limit, f"{peak:,.0f} / {base:,.0f} bytes")


if __name__ == "__main__":
    main(measure, __doc__ or "", measure_uniform)
