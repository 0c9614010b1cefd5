"""Vector search of one index by one method in this process: time, memory, and hits.

python -m tests.bench.vector_search_process HOME PATH METHOD QUERIES OUTPUT

METHOD is `scan` or `hnsw`, which needs an HNSW index. Times and sizes are printed as
JSON; the ids of the hits are written to OUTPUT (.npz). Queries run over all hunks, and with a filter for the newest
2 %.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from pipeline.git.repository import open_repository
from serve.repositories import locate_index
from stores import database, snapshot, vector_search
from stores.filters import QueryFilter
from stores.history import ReachabilityDelta
from stores.index_location import IndexLocation
from stores.snapshot import FilterMask, Snapshot
from stores.vectors import Vectors
from tests.bench import synthetic_index

DEPTH: Final = 100
# The filter selects the newest hunks: one in this many.
NEWEST_FRACTION: Final = 50

SearchFunction: TypeAlias = Callable[[Any], list[int]]
Result = TypeVar("Result")
# Figures by name; and the hunk ids of each query's hits, among all hunks and among the newest.
Measurement: TypeAlias = tuple[dict[str, Any], dict[str, np.ndarray]]


def main() -> None:
    home, path, method, count, output = sys.argv[1:]
    location = locate_index(Path(home), open_repository(Path(path)))
    queries = synthetic_index.load_query_vectors(location, int(count))
    hnsw_file = location.hnsw if method == "hnsw" else None
    figures, hunks = _measure(location, queries, hnsw_file)
    np.savez(output, allow_pickle=False, **hunks)
    file = hnsw_file or location.database
    figures |= {"file": file.stat().st_size, "resident": _measure_memory("VmRSS")}
    sys.stdout.write(json.dumps(figures))


def _measure(location: IndexLocation, queries: Vectors, hnsw_file: Path | None) -> Measurement:
    with database.open_for_reading(location) as connection:
        loaded = snapshot.load_snapshot(connection, ReachabilityDelta())
        all_hunks = snapshot.apply_filter(connection, loaded, QueryFilter())
        newest = snapshot.apply_filter(connection, loaded, _build_newest_filter(loaded))
        opening_seconds, texts = _time(
            lambda: vector_search.load_text_vectors(connection, loaded, hnsw_file=hnsw_file)
        )
    assert (texts.hnsw is None) == (hnsw_file is None)

    def search(query: Vectors, mask: FilterMask) -> list[int]:
        return [hit.hunk_id for hit in vector_search.search(loaded, texts, texts.whiten_query(query), mask)]

    figures, hits_by_filter = _measure_searches(
        list(queries),
        lambda query: search(query, all_hunks),
        lambda query: search(query, newest),
    )
    return figures | {"opened": opening_seconds, "own": texts.bytes}, hits_by_filter


def _build_newest_filter(loaded: Snapshot) -> QueryFilter:
    return QueryFilter(
        since=loaded.hunks.commit_info.column("commit_date")[len(loaded.hunks) // NEWEST_FRACTION].as_py()
    )


def _time(function: Callable[[], Result]) -> tuple[dict[str, float], Result]:
    """Return the wall and processor seconds that the function takes, and its result."""
    wall_start, cpu_start = time.perf_counter(), time.process_time()
    result = function()
    return {
        "wall": time.perf_counter() - wall_start,
        "processor": time.process_time() - cpu_start,
    }, result


def _measure_searches(
    queries: list[Any], search_all: SearchFunction, search_newest: SearchFunction
) -> Measurement:
    """Return p50 and p95 of the wall seconds, processor seconds per query, which vary less, and the hits."""
    figures, hits_by_filter = {}, {}
    for name, search in (("everything", search_all), ("newest", search_newest)):
        search(queries[0])
        times, hunks = [], np.full((len(queries), DEPTH), -1)
        cpu_start = time.process_time()
        for row, query in zip(hunks, queries, strict=True):
            start_time = time.perf_counter()
            hits = search(query)
            times.append(time.perf_counter() - start_time)
            row[: len(hits)] = hits
        cpu_seconds = (time.process_time() - cpu_start) / len(queries)
        p50, p95 = np.percentile(times, [50, 95]).tolist()
        figures[name], hits_by_filter[name] = {"p50": p50, "p95": p95, "processor": cpu_seconds}, hunks
    return figures, hits_by_filter


def _measure_memory(name: str) -> int:
    """Return a size of this process in bytes: `VmRSS`, or `RssAnon`, the part without memory-mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


if __name__ == "__main__":
    main()
