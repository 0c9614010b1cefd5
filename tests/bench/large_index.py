"""Benchmark of vector search in a large index: side file against a matrix in memory, and against HNSW.

python -m tests.bench.large_index CLONE [--hunks N] [--home HOME] [--graph]

The clone is indexed, or its index is copied from HOME, and enlarged to N hunks (100,000) with synthetic vectors
similar to the real ones. Queries are commit messages of the repository. Each method runs in a new process;
recall is relative to the first hundred hunks of the matrix in memory.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from pipeline.git.repository import open_repository
from serve.repositories import locate_index
from stores import history, quantized_vectors
from stores.index_location import IndexLocation
from tests.bench import synthetic_index, vector_search_process
from tests.bench.programs import run_lineage, run_program
from tests.bench.report import Row, create_temporary_directory, print_line, print_rows

DEFAULT_HUNKS: Final = 100_000
QUERIES: Final = 100
# Share of the best hundred hunks that the side file may miss.
MAX_MISSED_SHARE: Final = 0.05
# Memory per hunk of the side file; a matrix in memory takes 1,536 bytes.
MAX_BYTES_PER_HUNK: Final = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clone", type=Path, metavar="CLONE")
    parser.add_argument("--hunks", type=int, default=DEFAULT_HUNKS)
    parser.add_argument("--home", type=Path, help="LINEAGE_HOME with an index of the clone, which is copied")
    parser.add_argument(
        "--graph",
        action="store_true",
        help="also build an HNSW index with VSS; takes minutes for 100,000 hunks",
    )
    arguments = parser.parse_args()
    if arguments.hunks <= history.MAX_ROWS_IN_MEMORY:
        parser.error(
            f"--hunks must be above {history.MAX_ROWS_IN_MEMORY:,}: search loads a smaller index into memory."
        )
    with create_temporary_directory() as folder:
        location = _copy_index(arguments.clone, arguments.home, folder)
        print_rows(measure(arguments.clone, location, arguments.hunks, graph=arguments.graph))


def measure(clone: Path, location: IndexLocation, hunks: int, *, graph: bool = False) -> Sequence[Row]:
    synthetic_index.enlarge_index(location, hunks)
    wall_start, cpu_start = time.perf_counter(), time.process_time()
    quantized_vectors.refresh_quantized_file(location)
    seconds, cpu_seconds = time.perf_counter() - wall_start, time.process_time() - cpu_start
    name = f"{clone.name} enlarged to {hunks:,}"
    detail = f"{cpu_seconds:.1f} s of processor time; {synthetic_index.measure_files(location)}"
    rows = [Row(name, "building the side file, seconds", seconds, None, detail)]
    if graph:
        rows.append(_measure_hnsw_build(name, clone, location))
    exact = None
    for method in [name for name in vector_search_process.METHODS if name != "graph" or graph]:
        figures = _run_method(clone, location, method)
        exact = exact or figures
        method_rows = _create_method_rows(name, method, figures, exact, hunks)
        for row in method_rows:  # print immediately: at a million hunks the next method takes minutes
            print_line(f"{row.measure}: {row.value:.3g} ({row.detail})")
        rows += method_rows
    return rows


def _create_method_rows(
    name: str, method: str, figures: dict[str, Any], exact: dict[str, Any], hunks: int
) -> list[Row]:
    max_bytes, max_missed = (MAX_BYTES_PER_HUNK, MAX_MISSED_SHARE) if method == "codes" else (None, None)
    memory = f"{figures['own'] / 1e6:.0f} MB; opened in {figures['opened']:.2f} s"
    rows = [
        Row(name, f"{method}: own memory for each hunk, bytes", figures["own"] / hunks, max_bytes, memory)
    ]
    for part, suffix in (("everything", ""), ("newest", " in the newest fiftieth")):
        hits, times = figures["found"][part], figures[part]
        detail = f"p50 {times['p50'] * 1e3:.0f} ms, p95 {times['p95'] * 1e3:.0f} ms of wall time"
        missed = 1 - _compute_recall(hits, exact["found"][part])
        rows += [
            Row(
                name,
                f"{method}: a query{suffix}, ms of processor time",
                times["processor"] * 1e3,
                None,
                detail,
            ),
            Row(
                name,
                f"{method}: missed of the hundred best{suffix}",
                missed,
                max_missed,
                f"{len(hits)} queries",
            ),
        ]
    return rows


def _compute_recall(hits: np.ndarray, exact_hits: np.ndarray) -> float:
    """Return the mean share of the exact hits that the hits of a query contain; a row of ids per query."""
    pairs = zip(hits.tolist(), exact_hits.tolist(), strict=False)
    return float(np.mean([len(set(row) & set(exact_row)) / len(set(exact_row)) for row, exact_row in pairs]))


def _run_method(clone: Path, location: IndexLocation, method: str) -> dict[str, Any]:
    result_file = location.home / f"{method}.npz"
    arguments = (str(location.home), str(clone.absolute()), method, str(QUERIES), str(result_file))
    result = run_program(
        (sys.executable, "-m", "tests.bench.vector_search_process", *arguments),
        home=location.home,
        memory=False,
    )
    figures: dict[str, Any] = json.loads(result.out)
    return figures | {"found": dict(np.load(result_file))}


def _measure_hnsw_build(name: str, clone: Path, location: IndexLocation) -> Row:
    arguments = (str(location.home), str(clone.absolute()))
    result = run_program((sys.executable, "-m", "tests.bench.hnsw", *arguments), home=location.home)
    figures = json.loads(result.out)
    return Row(
        name,
        "building the graph, seconds",
        figures["seconds"],
        None,
        f"{figures['processor']:.1f} s of processor time; {figures['bytes'] / 1e6:.0f} MB, "
        f"peak memory {result.peak_bytes / 1e6:.0f} MB",
    )


def _copy_index(clone: Path, home: Path | None, folder: Path) -> IndexLocation:
    if home is None:
        home = folder / "first"
        run_lineage(home, "index", clone.absolute(), "--no-progress")
    location = locate_index(home.absolute(), open_repository(clone))
    shutil.copytree(location.folder, folder / "home" / location.folder.name)
    return locate_index(folder / "home", open_repository(clone))


if __name__ == "__main__":
    main()
