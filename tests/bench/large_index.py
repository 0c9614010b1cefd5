"""Benchmark of vector search in a large index: the scan of all vectors, and HNSW.

python -m tests.bench.large_index CLONE [--hunks N] [--home HOME] [--hnsw]

The clone is indexed, or its index is copied from HOME, and enlarged to N hunks (100,000) with synthetic vectors
similar to the real ones. Queries are commit messages of the repository. Each method runs in a new process;
recall is relative to the first hundred hunks of the scan. `tests.bench.quantization` compares the scan with vectors as
floats.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from pipeline.git.repository import open_repository
from serve import config
from serve.repositories import locate_index
from stores.index_location import IndexLocation
from tests.bench import synthetic_index
from tests.bench.programs import run_lineage, run_program
from tests.bench.report import Row, create_temporary_directory, print_line, print_rows

DEFAULT_HUNKS: Final = 100_000
QUERIES: Final = 100
# Upper bounds for the scan of a million hunks: processor time of a query, and memory of the vectors.
MAX_SCAN_MILLISECONDS: Final = 200
MAX_SCAN_MEGABYTES: Final = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clone", type=Path, metavar="CLONE")
    parser.add_argument("--hunks", type=int, default=DEFAULT_HUNKS)
    parser.add_argument("--home", type=Path, help="LINEAGE_HOME with an index of the clone, which is copied")
    parser.add_argument(
        "--hnsw",
        action="store_true",
        help="also build an HNSW index; takes minutes for 100,000 hunks",
    )
    arguments = parser.parse_args()
    with create_temporary_directory() as folder:
        location = _copy_index(arguments.clone, arguments.home, folder)
        print_rows(measure(arguments.clone, location, arguments.hunks, with_hnsw=arguments.hnsw))


def measure(clone: Path, location: IndexLocation, hunks: int, *, with_hnsw: bool = False) -> Sequence[Row]:
    synthetic_index.enlarge_index(location, hunks)
    name = f"{clone.name} enlarged to {hunks:,}"
    rows = []
    scan = _run_method(clone, location, "scan")
    rows += _create_method_rows(name, "scan", scan, scan, hunks)
    if with_hnsw:
        rows.append(_measure_hnsw_build(name, clone, location))
        rows += _create_method_rows(name, "hnsw", _run_method(clone, location, "hnsw"), scan, hunks)
    return rows


def _create_method_rows(
    name: str, method: str, figures: dict[str, Any], exact: dict[str, Any], hunks: int
) -> list[Row]:
    is_scan = method == "scan"
    open_detail = f"{figures['opened']['wall']:.2f} s of wall time; file {figures['file'] / 1e6:.0f} MB"
    millions = max(1.0, hunks / 1e6)
    rows = [
        Row(
            name, f"{method}: opening, s of processor time", figures["opened"]["processor"], None, open_detail
        ),
        Row(
            name,
            f"{method}: own memory, MB",
            figures["own"] / 1e6,
            MAX_SCAN_MEGABYTES * millions if is_scan else None,
            f"whole process {figures['resident'] / 1e6:.0f} MB",
        ),
    ]
    for part, suffix in (("everything", ""), ("newest", " in the newest fiftieth")):
        hits, times = figures["found"][part], figures[part]
        wall_detail = f"p50 {times['p50'] * 1e3:.0f} ms, p95 {times['p95'] * 1e3:.0f} ms of wall time"
        limit = MAX_SCAN_MILLISECONDS * millions if is_scan else None
        milliseconds = times["processor"] * 1e3
        rows.append(
            Row(name, f"{method}: a query{suffix}, ms of processor time", milliseconds, limit, wall_detail)
        )
        if not is_scan:
            missed = 1 - _compute_recall(hits, exact["found"][part])
            measure_name = f"{method}: missed of the hundred best{suffix}"
            rows.append(Row(name, measure_name, missed, None, f"{len(hits)} queries"))
    for row in rows:  # print immediately: at a million hunks the next method takes minutes
        print_line(f"{row.measure}: {row.value:.3g} ({row.detail})")
    return rows


def _compute_recall(hits: np.ndarray, exact_hits: np.ndarray) -> float:
    """Return the mean share of the exact hits that the hits of a query contain; a row of ids per query."""
    pairs = zip(hits.tolist(), exact_hits.tolist(), strict=True)
    return float(np.mean([len(set(row) & set(exact_row)) / len(set(exact_row)) for row, exact_row in pairs]))


def _run_method(clone: Path, location: IndexLocation, method: str) -> dict[str, Any]:
    result_file = location.home / f"{method}.npz"
    arguments = (str(location.home), str(clone.absolute()), method, str(QUERIES), str(result_file))
    config.configure_libraries()  # the process inherits the settings that the daemon has
    result = run_program(
        (sys.executable, "-m", "tests.bench.vector_search_process", *arguments),
        home=location.home,
        memory=False,
    )
    figures: dict[str, Any] = json.loads(result.out)
    return figures | {"found": dict(np.load(result_file))}


def _measure_hnsw_build(name: str, clone: Path, location: IndexLocation) -> Row:
    arguments = ("index", clone.absolute(), "--incremental", "--vector-index", "hnsw")
    result = run_lineage(location.home, *arguments)
    detail = f"{location.hnsw.stat().st_size / 1e6:.0f} MB, peak memory {result.peak_bytes / 1e6:.0f} MB"
    return Row(name, "hnsw: building, seconds of the whole process", result.seconds, None, detail)


def _copy_index(clone: Path, home: Path | None, folder: Path) -> IndexLocation:
    if home is None:
        home = folder / "first"
        run_lineage(home, "index", clone.absolute(), "--no-progress")
    location = locate_index(home.absolute(), open_repository(clone))
    shutil.copytree(location.folder, folder / "home" / location.folder.name)
    return locate_index(folder / "home", open_repository(clone))


if __name__ == "__main__":
    main()
