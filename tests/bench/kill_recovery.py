"""Benchmark of recovery: `kill -9` during an index run, another run, comparison with an undisturbed index.

python -m tests.bench.kill_recovery CLONE...

The run is killed a random part of a batch after its log reports a share of the commits.
Only the main process is killed, as the kernel's out-of-memory killer does. A real run spends most time embedding, so
most kills happen there; runs without embedding are killed at random times, mostly while rows are
extracted or written.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.run import COMMITS_PER_BATCH
from serve.index_status import load_status_at_path
from tests.bench import indexes
from tests.bench.histories import History, clone_history
from tests.bench.indexing import build_zero_encoder_command
from tests.bench.programs import LINEAGE, run_lineage, run_program, start_program
from tests.bench.report import BenchmarkOptions, Row, main

KILL_SHARES: Final = (0.25, 0.5, 0.75)
MAX_REPEATED_COMMITS: Final = 100
SEED: Final = 3

Content = dict[str, tuple[int, str]]

_EVENT: Final = re.compile(r"event=indexing commits=(\d+) total=(\d+)")


@dataclass(frozen=True, slots=True)
class KilledRun:
    """Killed run: commits that it reported and that the index has, of `total` commits."""

    reported: int
    total: int
    indexed: int

    @property
    def repeated(self) -> int:
        """Upper bound of the commits that have to be processed again."""
        return max(0, min(self.reported + COMMITS_PER_BATCH, self.total) - self.indexed)


def measure(clone: Path, folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    """Return two rows per share: tables that differ from a clean index, and commits processed again."""
    history = clone_history(clone, folder / "clone", options.commits)
    generator = random.Random(SEED)  # noqa: S311 - repeatable times, nothing secret
    run_lineage(folder / "clean", "index", history.path, "--no-progress")
    clean = indexes.compute_fingerprint(history.path, folder / "clean")
    kill_rows = [
        row
        for share in KILL_SHARES
        for row in _measure_share(share, history, folder / "killed", clean, generator.random())
    ]
    return [
        *kill_rows,
        _measure_random_kills(
            history, folder, [(turn + generator.random()) / options.runs for turn in range(options.runs)]
        ),
    ]


def _measure_share(
    share: float, history: History, home: Path, clean: Content, batch_share: float
) -> list[Row]:
    shutil.rmtree(home, ignore_errors=True)
    killed = kill_run(history, home, share, batch_share)
    run_lineage(home, "index", history.path, "--no-progress")
    differences = _compare_tables(clean, indexes.compute_fingerprint(history.path, home))
    rows = sum(count for count, _ in clean.values())
    progress = f"{killed.reported:,} of {killed.total:,} commits reported, {killed.indexed:,} indexed"
    label = f"kill -9 at {share:.0%}"
    detail = "; ".join(differences) or f"{len(clean)} tables, {rows:,} rows"
    return [
        Row(history.name, f"{label}: tables that differ", len(differences), 0, detail),
        Row(
            history.name,
            f"{label}: commits processed again, at most",
            killed.repeated,
            MAX_REPEATED_COMMITS,
            progress,
        ),
    ]


def kill_run(history: History, home: Path, share: float, batch_share: float = 0.0) -> KilledRun:
    """Start a run, and kill it `batch_share` of a batch after it reported `share` of the commits."""
    start_time = time.perf_counter()
    process = start_program((*LINEAGE, "index", str(history.path), "--no-progress"), home=home)
    reported, total = wait_for_progress(process, share)
    assert process.stderr is not None
    batches = max(1, reported // COMMITS_PER_BATCH)
    time.sleep(batch_share * (time.perf_counter() - start_time) / batches)
    process.kill()
    process.wait()
    # Read the index at once, while workers of the run may be active.
    behind = load_status_at_path(history.path, home)[1].commits_behind
    reported, total = max(
        map(_parse_counts, _EVENT.finditer(process.stderr.read())), default=(reported, total)
    )
    return KilledRun(reported, total, total - behind)


def wait_for_progress(process: subprocess.Popen[str], share: float) -> tuple[int, int]:
    """Read the log until it reports this share of the commits; return reported and total commits."""
    assert process.stderr is not None
    reported, total = 0, 0
    for line in process.stderr:
        if event := _EVENT.search(line):
            reported, total = _parse_counts(event)
            if reported / total >= share:
                break
    return reported, total


def _measure_random_kills(history: History, folder: Path, shares: Sequence[float]) -> Row:
    """Kill runs without embedding at these shares of an undisturbed run's time, and run again."""
    undisturbed_seconds = run_program(
        build_zero_encoder_command(history.path), home=folder / "clean-zeros", memory=False
    ).seconds
    clean = indexes.compute_fingerprint(history.path, folder / "clean-zeros")
    differences = []
    for share in shares:
        home = folder / f"zeros-{share}"
        process = start_program(build_zero_encoder_command(history.path), home=home)
        time.sleep(share * undisturbed_seconds)
        process.kill()
        process.communicate()
        run_program(build_zero_encoder_command(history.path), home=home, memory=False)
        differences += _compare_tables(clean, indexes.compute_fingerprint(history.path, home))
    return Row(
        history.name,
        f"kill -9 at {len(shares)} times of a run without embedding: tables that differ",
        len(differences),
        0,
        "; ".join(differences) or f"at {', '.join(f'{share:.0%}' for share in sorted(shares))}",
    )


def _compare_tables(clean: Content, actual: Content) -> list[str]:
    return [
        f"{table}: {actual[table][0]:,} rows for {content[0]:,}"
        for table, content in clean.items()
        if actual[table] != content
    ]


def _parse_counts(event: re.Match[str]) -> tuple[int, int]:
    return int(event[1]), int(event[2])


if __name__ == "__main__":
    main(measure, __doc__ or "")
