"""Benchmark of two queries a second during a full index run.

python -m tests.bench.concurrent_queries CLONE...

Queries run in two modes: as processes of their own that read the index file while the run writes it, without the
cross-encoder; and through the daemon, which is the default. At most MAX_CONCURRENT queries run at the same time, so a
slow machine starts fewer.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.workers import count_usable_cpus
from serve.daemon.client import DaemonClient
from serve.daemon.process import DaemonPaths
from tests.bench.everyday import QUERY
from tests.bench.histories import History, clone_history
from tests.bench.programs import LINEAGE, start_program
from tests.bench.report import BenchmarkOptions, Row, format_seconds, main

INTERVAL_SECONDS: Final = 0.5
# With more, the benchmark would measure processors and memory instead of locks.
MAX_CONCURRENT: Final = 2 * count_usable_cpus()


@dataclass(frozen=True, slots=True)
class QueryMode:
    """How queries run: additional arguments, and whether the daemon answers."""

    name: str
    arguments: tuple[str, ...] = ()
    daemon: bool = False


QUERY_MODES: Final = (
    QueryMode("by processes of their own", ("--no-rerank",)),
    QueryMode("through the daemon", daemon=True),
)


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Result of one query; `hits` is None if it failed, and `error` is then its first error line."""

    seconds: float
    hits: int | None
    error: str


def measure(clone: Path, folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    """Return the rows of each mode; queries run during the whole index run."""
    history = clone_history(clone, folder / "clone", options.commits)
    return [
        row
        for number, mode in enumerate(QUERY_MODES)
        for row in _measure_mode(history, mode, folder / f"home-{number}")
    ]


def _measure_mode(history: History, mode: QueryMode, home: Path) -> Iterator[Row]:
    try:
        results, seconds_total = _query_during_index_run(history, mode, home)
    finally:
        DaemonClient(DaemonPaths(home)).stop()
    errors = [result.error for result in results if result.hits is None]
    with_hits = [result for result in results if result.hits]
    rate = f"{len(results)} queries in {seconds_total:.0f} s, {len(results) / seconds_total:.1f} a second"
    detail = f"{rate}; {len(with_hits)} with hits; each {_format_latency(results)}"
    yield Row(history.name, f"queries {mode.name}, failed during an index run", len(errors), 0, detail)
    yield from (Row(history.name, "first error of them", 1, 0, error) for error in errors[:1])


def _query_during_index_run(history: History, mode: QueryMode, home: Path) -> tuple[list[QueryResult], float]:
    start_time = time.perf_counter()
    index = start_program((*LINEAGE, "index", str(history.path), "--no-progress"), home=home)
    with ThreadPoolExecutor(MAX_CONCURRENT) as pool, ThreadPoolExecutor(1) as listener:
        index_output = listener.submit(index.communicate)
        futures: list[Future[QueryResult]] = []
        try:
            while not index_output.done():
                if sum(not future.done() for future in futures) < MAX_CONCURRENT:
                    futures.append(pool.submit(_run_query, history, mode, home))
                time.sleep(INTERVAL_SECONDS)
        except BaseException:
            os.killpg(index.pid, signal.SIGTERM)  # otherwise the pools wait for its end
            raise
        elapsed = time.perf_counter() - start_time
        assert index.returncode == 0, index_output.result()[1]
        return [future.result() for future in futures], elapsed


def _run_query(history: History, mode: QueryMode, home: Path) -> QueryResult:
    start_time = time.perf_counter()
    command = (*LINEAGE, "query", str(history.path), "--query", QUERY, *mode.arguments)
    process = start_program(command, home=home, daemon=mode.daemon)
    out, err = process.communicate()
    error = [*err.strip().splitlines(), f"exit status {process.returncode}"][0]
    return QueryResult(time.perf_counter() - start_time, _count_hits(process, out), error)


def _count_hits(process: subprocess.Popen[str], out: str) -> int | None:
    return len(json.loads(out)["hits"]) if process.returncode == 0 else None


def _format_latency(results: Sequence[QueryResult]) -> str:
    return format_seconds([result.seconds for result in results])


if __name__ == "__main__":
    main(measure, __doc__ or "")
