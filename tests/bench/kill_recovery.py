"""Benchmark of recovery: `kill -9` at random times of both stages, another run, comparison with an undisturbed index.

python -m tests.bench.kill_recovery CLONE...

Only the main process is killed, as the kernel's out-of-memory killer does. A run that is killed in the embedding stage
starts with an index that has all commits and no vectors.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.bench import indexes
from tests.bench.histories import History, clone_history
from tests.bench.programs import LINEAGE, run_lineage, start_program
from tests.bench.report import BenchmarkOptions, Row, main

KILLS_PER_STAGE: Final = 10
SEED: Final = 3

Content = dict[str, tuple[int, str]]


def measure(clone: Path, folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    """Return a row for each stage: the tables that differ after all kills."""
    history = clone_history(clone, folder / "clone", options.commits)
    clean, extracted = folder / "clean", folder / "extracted"
    extract_seconds = run_lineage(extracted, "index", history.path, "--no-progress", "--skip-vectors").seconds
    shutil.copytree(extracted, clean)
    embed_seconds = run_lineage(clean, "index", history.path, "--no-progress").seconds
    content = indexes.compute_fingerprint(history.path, clean)
    generator = random.Random(SEED)  # noqa: S311 - repeatable times, nothing secret
    rows = []
    for stage, home, seconds in (("extract", None, extract_seconds), ("embed", extracted, embed_seconds)):
        delays = [seconds * generator.random() for _ in range(KILLS_PER_STAGE)]
        differences = [
            f"after {delay:.2f} s, {difference}"
            for delay in delays
            for difference in _kill_and_compare(history, folder / "killed", home, delay, content)
        ]
        detail = "; ".join(differences) or f"after {', '.join(f'{delay:.2f}' for delay in sorted(delays))} s"
        rows.append(
            Row(
                history.name,
                f"kill -9 at {KILLS_PER_STAGE} times of the {stage} stage: tables that differ",
                len(differences),
                0,
                detail,
            )
        )
    return rows


def _kill_and_compare(
    history: History, home: Path, initial_home: Path | None, delay: float, content: Content
) -> list[str]:
    """Kill a run that starts with a copy of `initial_home`; return the tables that differ after the next run."""
    shutil.rmtree(home, ignore_errors=True)
    if initial_home is not None:
        shutil.copytree(initial_home, home)
    process = start_program((*LINEAGE, "index", str(history.path), "--no-progress"), home=home)
    time.sleep(delay)
    process.kill()
    process.communicate()
    run_lineage(home, "index", history.path, "--no-progress")
    actual = indexes.compute_fingerprint(history.path, home)
    return [
        f"{table}: {actual[table][0]:,} rows for {count:,}"
        for table, (count, digest) in content.items()
        if actual[table] != (count, digest)
    ]


if __name__ == "__main__":
    main(measure, __doc__ or "")
