"""Dask scheduler and workers in processes of their own, for tests and benchmarks."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCHEDULER = (
    sys.executable,
    "-m",
    "distributed.cli.dask_scheduler",
    "--host",
    "127.0.0.1",
    "--port",
    "0",
    "--no-dashboard",
)
WORKER = (sys.executable, "-m", "distributed.cli.dask_worker", "--no-nanny", "--no-dashboard")


@dataclass(slots=True)
class Cluster:
    """Dask scheduler and its worker processes."""

    scheduler: subprocess.Popen[str]
    address: str
    folder: Path
    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    def start_worker(self, threads: int = 1, *extra_options: str) -> None:
        """Start a worker and wait until the scheduler knows it."""
        options = ("--nthreads", str(threads), "--local-directory", str(self.folder), *extra_options)
        process = subprocess.Popen(
            (*WORKER, *options, self.address), cwd=ROOT, stderr=subprocess.PIPE, text=True
        )
        self.workers.append(process)
        _read_until(process, "Registered to")

    def stop_workers(self) -> None:
        for process in self.workers:
            process.kill()
            process.communicate()
        self.workers.clear()


@contextmanager
def start_scheduler(folder: Path) -> Iterator[Cluster]:
    """Start a scheduler without workers; stop it and its workers at the end."""
    process = subprocess.Popen(SCHEDULER, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        cluster = Cluster(process, _read_until(process, "Scheduler at:").split()[-1], folder)
        try:
            yield cluster
        finally:
            cluster.stop_workers()
    finally:
        process.kill()
        process.communicate()


def _read_until(process: subprocess.Popen[str], text: str) -> str:
    """Return the first line of the process's log that has this text; drop the later ones in the background."""
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return re.sub(r"\s+$", "", line)
    raise AssertionError("the process ended")
