"""Vector search of one index by one method in this process: time, memory, and hits.

python -m tests.bench.vector_search_process HOME PATH METHOD QUERIES OUTPUT

METHOD is `memory` (matrix in memory), `codes` (side file), `read` (vectors read for each query) or
`graph` (HNSW of VSS, candidates rescored exactly). Times and sizes are printed as JSON; the ids of the hits are
written to OUTPUT (.npz). Queries run over all hunks, and with a filter for the newest 2 %.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from pipeline.git.repository import open_repository
from serve.repositories import locate_index
from stores import database, filters, history, quantized_vectors, snapshot, vector_search
from stores.filters import QueryFilter
from stores.index_location import IndexLocation
from stores.snapshot import Snapshot
from stores.types import ReachabilityDelta
from stores.whitening import Vectors, normalize
from tests.bench import hnsw, synthetic_index

DEPTH: Final = 100
# The filter selects the newest hunks: one in this many.
NEWEST_FRACTION: Final = 50
METHODS: Final = ("memory", "codes", "read", "graph")
# Reading all vectors takes seconds per query: these suffice for a median.
SLOW_METHOD_QUERIES: Final = 3

SearchFunction: TypeAlias = Callable[[Any], list[int]]
# Figures by name; and the hunk ids of each query's hits, among all hunks and among the newest.
Measurement: TypeAlias = tuple[dict[str, Any], dict[str, np.ndarray]]


def main() -> None:
    home, path, method, count, output = sys.argv[1:]
    location = locate_index(Path(home), open_repository(Path(path)))
    queries = synthetic_index.load_query_vectors(location, int(count))[
        : SLOW_METHOD_QUERIES if method == "read" else None
    ]
    figures, hunks = (_measure_hnsw if method == "graph" else _measure_lane)(location, queries, method)
    np.savez(output, allow_pickle=False, **hunks)
    sys.stdout.write(json.dumps(figures))


def _measure_lane(location: IndexLocation, queries: Vectors, method: str) -> Measurement:
    if method == "memory":
        history.MAX_ROWS_IN_MEMORY = sys.maxsize  # type: ignore[misc]  # exact reference
    with database.open_for_reading(location) as connection:
        loaded = snapshot.load_snapshot(connection, ReachabilityDelta())
        all_hunks = filters.apply_filter(connection, loaded, QueryFilter())
        newest = filters.apply_filter(connection, loaded, _build_newest_filter(loaded))
        bytes_before = _measure_anonymous_memory()
        start_time = time.perf_counter()
        texts = vector_search.load_text_vectors(
            connection, loaded, side_file=location.quantized_vectors if method == "codes" else None
        )
        open_seconds = time.perf_counter() - start_time
        assert (texts.quantized is not None) == (method == "codes") and (texts.vectors is not None) == (
            method == "memory"
        )
        search = partial(vector_search.search, connection, loaded, texts)
        figures, hits_by_filter = _measure_searches(
            list(queries),
            lambda query: [hit.hunk_id for hit in search(query, all_hunks)],
            lambda query: [hit.hunk_id for hit in search(query, newest)],
        )
        return figures | {
            "opened": open_seconds,
            "own": max(0, _measure_anonymous_memory() - bytes_before),
        }, hits_by_filter


def _build_newest_filter(loaded: Snapshot) -> QueryFilter:
    return QueryFilter(
        since=loaded.hunks.commit_info.column("commit_date")[len(loaded.hunks) // NEWEST_FRACTION].as_py()
    )


def _measure_hnsw(location: IndexLocation, queries: Vectors, _: str) -> Measurement:
    with database.open_for_reading(location) as connection:
        quantized = quantized_vectors.open_quantized_file(connection, location.quantized_vectors)
        assert quantized is not None
        hunk_ids = hnsw.map_rows_to_hunks(connection, quantized)
        loaded = snapshot.load_snapshot(connection, ReachabilityDelta())
        newest = loaded.hunks.ids[
            filters.apply_filter(connection, loaded, _build_newest_filter(loaded)).is_included
        ]
    transformed = [
        normalize(quantized.whitening.transform_query(query.astype(np.float64))) for query in queries
    ]
    bytes_before = _measure_anonymous_memory()
    start_time = time.perf_counter()
    with hnsw.open_hnsw(hnsw.get_hnsw_path(location)) as hnsw_connection:
        hnsw.find_nearest_rows(hnsw_connection, quantized, transformed[0], DEPTH)
        open_seconds = time.perf_counter() - start_time
        # HNSW cannot filter: hunks outside the filter are dropped from its results.
        is_newest = np.isin(hunk_ids, newest)
        figures, hunks = _measure_searches(
            transformed,
            lambda query: hunk_ids[hnsw.find_nearest_rows(hnsw_connection, quantized, query, DEPTH)].tolist(),
            lambda query: hunk_ids[
                hnsw.find_nearest_rows(hnsw_connection, quantized, query, DEPTH, is_newest)
            ].tolist(),
        )
        return figures | {
            "opened": open_seconds,
            "own": max(0, _measure_anonymous_memory() - bytes_before),
        }, hunks


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


def _measure_anonymous_memory() -> int:
    """Return the anonymous memory of this process, without memory-mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


if __name__ == "__main__":
    main()
