"""The vector lane of one index, asked in one way by a process of its own: seconds, memory, and what was found.

python -m tests.bench.vector_search_process HOME PATH WAY QUESTIONS FOUND

WAY is `kept` (a matrix in memory), `codes` (the side file), `read` (the vectors read again for each question) or
`graph` (VSS's HNSW, candidates re-scored exactly). Times and sizes are printed as JSON; FOUND is written as .npz.
Questions are asked of the whole history and of its newest fiftieth.
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
from serve.repositories import place_of
from stores import database, filters, history, quantized_vectors, snapshot, vector_search
from stores.filters import Where
from stores.index_location import Place
from stores.snapshot import Snapshot
from stores.types import Reach
from stores.whitening import Vectors, unit
from tests.bench import hnsw, synthetic_index

DEPTH: Final = 100
# The filter that leaves little: the newest of so many hunks.
NEWEST_OF: Final = 50
WAYS: Final = ("kept", "codes", "read", "graph")
# Reading everything again takes seconds a question: enough for a median.
FEWER: Final = 3

Ask: TypeAlias = Callable[[Any], list[int]]
# Figures by name, and the hunks that each question found, of all hunks and of the newest.
Said: TypeAlias = tuple[dict[str, Any], dict[str, np.ndarray]]


def main() -> None:
    home, path, way, count, found = sys.argv[1:]
    place = place_of(Path(home), open_repository(Path(path)))
    queries = synthetic_index.questions(place, int(count))[: FEWER if way == "read" else None]
    said, hunks = (_graph if way == "graph" else _lane)(place, queries, way)
    np.savez(found, allow_pickle=False, **hunks)
    sys.stdout.write(json.dumps(said))


def _lane(place: Place, queries: Vectors, way: str) -> Said:
    if way == "kept":
        history.MOST_KEPT_ROWS = sys.maxsize  # type: ignore[misc]  # all of them, to compare with
    with database.reading(place) as connection:
        seen = snapshot.load(connection, Reach())
        everything = filters.chosen(connection, seen, Where())
        newest = filters.chosen(connection, seen, _newest(seen))
        before = _own_bytes()
        started = time.perf_counter()
        texts = vector_search.load(connection, seen, side=place.codes if way == "codes" else None)
        opened = time.perf_counter() - started
        assert (texts.coded is not None) == (way == "codes") and (texts.rows is not None) == (way == "kept")
        ask = partial(vector_search.ask, connection, seen, texts)
        said, found = _timed(
            list(queries),
            lambda query: [hit.hunk_id for hit in ask(query, everything)],
            lambda query: [hit.hunk_id for hit in ask(query, newest)],
        )
        return said | {"opened": opened, "own": max(0, _own_bytes() - before)}, found


def _newest(seen: Snapshot) -> Where:
    return Where(since=seen.hunks.shown.column("commit_date")[len(seen.hunks) // NEWEST_OF].as_py())


def _graph(place: Place, queries: Vectors, _: str) -> Said:
    with database.reading(place) as connection:
        found = quantized_vectors.opened(connection, place.codes)
        assert found is not None
        by_row = hnsw.hunks(connection, found)
        seen = snapshot.load(connection, Reach())
        newest = seen.hunks.ids[filters.chosen(connection, seen, _newest(seen)).kept]
    placed = [unit(found.space.asked(query.astype(np.float64))) for query in queries]
    before = _own_bytes()
    started = time.perf_counter()
    with hnsw.opened(hnsw.file_of(place)) as graph:
        hnsw.nearest(graph, found, placed[0], DEPTH)
        opened = time.perf_counter() - started
        # A graph cannot be asked for some of its places: the others are dropped from what it gives.
        kept = np.isin(by_row, newest)
        said, hunks = _timed(
            placed,
            lambda query: by_row[hnsw.nearest(graph, found, query, DEPTH)].tolist(),
            lambda query: by_row[hnsw.nearest(graph, found, query, DEPTH, kept)].tolist(),
        )
        return said | {"opened": opened, "own": max(0, _own_bytes() - before)}, hunks


def _timed(queries: list[Any], everything: Ask, newest: Ask) -> Said:
    """Wall seconds of half and of most of the questions, and processor seconds of one, on which others bear less."""
    said, found = {}, {}
    for name, ask in (("everything", everything), ("newest", newest)):
        ask(queries[0])
        times, hunks = [], np.full((len(queries), DEPTH), -1)
        used = time.process_time()
        for row, query in zip(hunks, queries, strict=True):
            started = time.perf_counter()
            hits = ask(query)
            times.append(time.perf_counter() - started)
            row[: len(hits)] = hits
        used = (time.process_time() - used) / len(queries)
        half, most = np.percentile(times, [50, 95]).tolist()
        said[name], found[name] = {"p50": half, "p95": most, "processor": used}, hunks
    return said, found


def _own_bytes() -> int:
    """What this process keeps in memory without the files it has mapped, which are the system's to keep or to drop."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


if __name__ == "__main__":
    main()
