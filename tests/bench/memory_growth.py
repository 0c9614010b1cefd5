"""Benchmark of memory growth with the length of the history: one repository at two lengths, and a uniform history.

python -m tests.bench.memory_growth CLONE...

Files of real repositories grow with time, and memory with them. Memory that a run keeps for processed commits shows
against a run that was killed at two thirds and restarted: both process the same remaining commits.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pipeline.run import BATCHES_PER_TASK, COMMITS_PER_BATCH, TASKS_PER_WORKER
from pipeline.workers import count_usable_cpus
from tests.bench.histories import History, clone_history, create_uniform_history
from tests.bench.indexing import MAX_BYTES
from tests.bench.memory import PeakMemory
from tests.bench.programs import LINEAGE, ProgramFailed, run_lineage, start_program
from tests.bench.report import BenchmarkOptions, Row, compute_median, main

SHORT_COMMITS: Final = 1_000
# Files grow as a project ages, and batches with them. Memory that grows with the number of commits would show as a far
# larger ratio, since the long history has five times as many.
MAX_GROWTH: Final = 1.25
# In uniform histories only DuckDB's metadata of the tables grows.
MAX_UNIFORM_GROWTH: Final = 1.1
# Runs differ by 5 %, which for 5,000 commits is 6 KB per commit.
MAX_RESTART_RATIO: Final = 1.05
# Share of the commits after which the run is killed and restarted, at most.
RESTART_SHARE: Final = 2 / 3

_EVENT: Final = re.compile(r"event=indexing commits=(\d+) total=(\d+)")


def measure(clone: Path, folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    if options.commits <= SHORT_COMMITS:
        return []
    short, long = (
        clone_history(clone, folder / f"clone-{commits}", commits)
        for commits in (SHORT_COMMITS, options.commits)
    )
    lengths = f"{long.commit_count:,} / {short.commit_count:,} commits"
    full = [_measure_peaks(history, folder / "home", options.runs) for history in (short, long)]
    without_embedding = [
        _measure_peak_without_embedding(history, folder / f"words-{history.commit_count}")
        for history in (short, long)
    ]
    return [
        _create_growth_row(long, f"peak memory, {lengths}", MAX_GROWTH, *map(compute_median, full)),
        _measure_restart(long, folder / "home", options.runs),
        _create_growth_row(long, f"peak memory without embedding, {lengths}", None, *without_embedding),
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
        compute_median(
            [
                _measure_peak_without_embedding(history, folder / f"home-{history.commit_count}-{number}")
                for number in range(options.runs)
            ]
        )
        for history in histories
    ]
    lengths = f"{options.commits:,} / {SHORT_COMMITS:,} commits"
    return [
        _create_growth_row(
            histories[1], f"peak memory without embedding, {lengths}", MAX_UNIFORM_GROWTH, *peaks
        )
    ]


def _measure_restart(history: History, home: Path, runs: int) -> Row:
    """Compare peak memory over the last third of uninterrupted runs and of restarted runs."""
    share = _compute_restart_commits(history) / history.commit_count
    uninterrupted, restarted = [], []
    for _ in range(runs):
        shutil.rmtree(home, ignore_errors=True)
        uninterrupted.append(_measure_peak_after(history, home, share))
        shutil.rmtree(home, ignore_errors=True)
        process = start_program((*LINEAGE, "index", str(history.path), "--no-progress"), home=home)
        _wait_for_progress(process, share)
        process.kill()
        process.communicate()
        restarted.append(run_lineage(home, "index", history.path, "--no-progress").peak_bytes)
    label = f"peak memory of the rest, one run / killed after {share:.0%} of the commits and restarted"
    return _create_growth_row(
        history, label, MAX_RESTART_RATIO, compute_median(restarted), compute_median(uninterrupted)
    )


def _compute_restart_commits(history: History) -> int:
    """Return the commits after which to restart: a multiple of a round of all workers, so that batches coincide."""
    commits_per_round = count_usable_cpus() * TASKS_PER_WORKER * BATCHES_PER_TASK * COMMITS_PER_BATCH
    return int(RESTART_SHARE * history.commit_count) // commits_per_round * commits_per_round


def _measure_peak_after(history: History, home: Path, share: float) -> int:
    """Return the peak bytes of a run after it logged this share of the commits."""
    process = start_program((*LINEAGE, "index", str(history.path), "--no-progress"), home=home)
    _wait_for_progress(process, share)
    peak = PeakMemory(process.pid)
    peak.start()
    _, errors = process.communicate()
    peak.stop()
    if process.returncode:
        raise ProgramFailed(f"lineage index exited with {process.returncode}:\n{errors}")
    return peak.bytes


def _wait_for_progress(process: subprocess.Popen[str], share: float) -> None:
    """Read the log until it reports this share of the commits."""
    assert process.stderr is not None
    for line in process.stderr:
        if (event := _EVENT.search(line)) and int(event[1]) / int(event[2]) >= share:
            return


def _measure_peaks(history: History, home: Path, runs: int) -> list[int]:
    peaks = []
    for _ in range(runs):
        shutil.rmtree(home, ignore_errors=True)
        peaks.append(run_lineage(home, "index", history.path, "--no-progress").peak_bytes)
    return peaks


def _measure_peak_without_embedding(history: History, home: Path) -> int:
    return run_lineage(home, "index", history.path, "--no-progress", "--skip-vectors").peak_bytes


def _create_growth_row(history: History, label: str, limit: float | None, base: float, peak: float) -> Row:
    return Row(history.name, label, peak / base, limit, f"{peak:,.0f} / {base:,.0f} bytes")


if __name__ == "__main__":
    main(measure, __doc__ or "", measure_uniform)
