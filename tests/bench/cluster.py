"""Benchmark of embedding on a Dask cluster: texts per second by workers, and what a text costs the coordinator.

python -m tests.bench.cluster CLONE...

Workers have one thread each. The cost of the coordinator is the processor time of the index run's process and of the
scheduler, with 64 worker threads that return zeros at once.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.encoders.base import EMBEDDING_MODEL
from pipeline.git.repository import open_repository
from pipeline.run import IndexRun, RunOptions
from serve.repositories import locate_index
from stores import locks
from stores.compatibility import EMBEDDING_DIMENSION
from tests.bench.histories import History, clone_history
from tests.bench.programs import run_lineage
from tests.bench.report import BenchmarkOptions, Row, main
from tests.dask_cluster import Cluster, start_scheduler

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

WORKER_COUNTS: Final = (1, 2, 4)
STUB_THREADS: Final = 64


@dataclass(frozen=True, slots=True)
class ZeroEncoder:
    """Encoder that returns zero vectors, under the name of the real one."""

    name: str = EMBEDDING_MODEL
    dimension: int = EMBEDDING_DIMENSION

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        import numpy as np

        return np.zeros((len(texts), self.dimension), np.float32)

    def unload(self) -> None:
        """Do nothing."""


def measure(clone: Path, folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    history = clone_history(clone, folder / "clone", options.commits)
    extracted = folder / "extracted"
    run_lineage(extracted, "index", history.path, "--no-progress", "--skip-vectors")
    with start_scheduler(folder) as cluster:
        texts_per_second = {}
        for count in WORKER_COUNTS:
            while len(cluster.workers) < count:
                cluster.start_worker()
            texts_per_second[count] = _measure_rate(history, extracted, folder / "home", cluster)
        cluster.stop_workers()
        cluster.start_worker(STUB_THREADS)
        milliseconds = _measure_coordinator(history, extracted, folder / "home", cluster)
    rows = [
        Row(
            history.name,
            f"{count} worker(s): texts per second / one worker",
            rate / texts_per_second[1],
            None,
            f"{rate:.0f} a second",
        )
        for count, rate in texts_per_second.items()
    ]
    workers = 1e6 / texts_per_second[1] / milliseconds
    return [
        *rows,
        Row(
            history.name,
            "coordinator and scheduler: ms of processor time per 1,000 texts",
            milliseconds,
            None,
            f"enough for {workers:.0f} workers",
        ),
    ]


def _measure_rate(history: History, extracted: Path, home: Path, cluster: Cluster) -> float:
    """Return the texts that the cluster embeds per second."""
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(extracted, home)
    options = ("--no-progress", "--scheduler", cluster.address, "--profile")
    result = run_lineage(home, "index", history.path, *options, memory=False)
    seconds = json.loads(result.out.splitlines()[-1])["embed_ms"] / 1000
    return float(_count_texts(result.err) / seconds)


def _count_texts(log: str) -> int:
    event = next(line for line in reversed(log.splitlines()) if "event=embedding" in line)
    return int(event.rpartition("total=")[2])


def _measure_coordinator(history: History, extracted: Path, home: Path, cluster: Cluster) -> float:
    """Return the milliseconds of processor time of this process and of the scheduler per 1,000 texts."""
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(extracted, home)
    repository = open_repository(history.path)
    location = locate_index(home, repository)
    text_counts = [0]
    with locks.acquire_run_lock(location):
        run = IndexRun(
            repository,
            location,
            RunOptions(scheduler=cluster.address),
            ZeroEncoder(),
            report=lambda progress: text_counts.append(progress.embedded_texts),
        )
        start = time.process_time() + _read_processor_seconds(cluster.scheduler.pid)
        run.run()
        seconds = time.process_time() + _read_processor_seconds(cluster.scheduler.pid) - start
    return 1e6 * seconds / max(text_counts)


def _read_processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks_per_second: int = os.sysconf("SC_CLK_TCK")
    return (int(fields[11]) + int(fields[12])) / ticks_per_second


if __name__ == "__main__":
    main(measure, __doc__ or "")
