"""The vector lane of one index, asked in one way by a process of its own: seconds, memory, and what was found.

python -m tests.bench.asked HOME PATH WAY QUESTIONS FOUND

WAY is `kept` (a matrix in memory), `codes` (the side file), `read` (the vectors read again for each question) or
`graph` (VSS's HNSW, candidates re-scored exactly). Times and sizes are printed as JSON; FOUND is written as .npy.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from serve import settings

settings.calm_algebra()  # as at the program's door: it acts until numpy is imported

import numpy as np  # noqa: E402

from pipeline.git.repository import open_repository  # noqa: E402
from serve.placing import place_of  # noqa: E402
from stores import codes, database, filters, snapshot, vectors  # noqa: E402
from stores.filters import Where  # noqa: E402
from stores.places import Place  # noqa: E402
from stores.reach import Reach  # noqa: E402
from stores.space import Vectors, unit  # noqa: E402
from tests.bench import grown, hnsw  # noqa: E402

DEPTH: Final = 100
WAYS: Final = ("kept", "codes", "read", "graph")
# Reading everything again takes seconds a question: enough for a median.
FEWER: Final = 3

# Figures by name, and the hunks each question found.
Said: TypeAlias = tuple[dict[str, float], np.ndarray]


def main() -> None:
    home, path, way, count, found = sys.argv[1:]
    place = place_of(Path(home), open_repository(Path(path)))
    queries = grown.questions(place, int(count))[: FEWER if way == "read" else None]
    said, hunks = (_graph if way == "graph" else _lane)(place, queries, way)
    np.save(found, hunks)
    sys.stdout.write(json.dumps(said))


def _lane(place: Place, queries: Vectors, way: str) -> Said:
    if way == "kept":
        codes.MOST_KEPT_ROWS = sys.maxsize  # type: ignore[misc]
    with database.reading(place) as connection:
        seen = snapshot.load(connection, Reach())
        everything = filters.chosen(connection, seen, Where())
        middle = seen.hunks.shown.column("commit_date")[len(seen.hunks) // 2].as_py()
        narrowed = filters.chosen(connection, seen, Where(since=middle))
        before = _own_bytes()
        started = time.perf_counter()
        texts = vectors.load(connection, seen, side=place.codes if way == "codes" else None)
        opened = time.perf_counter() - started
        assert (texts.coded is not None) == (way == "codes") and (texts.rows is not None) == (way == "kept")
        ask = partial(vectors.ask, connection, seen, texts)
        said, found = _timed(lambda query: [hit.hunk_id for hit in ask(query, everything)], list(queries))
        started = time.perf_counter()
        ask(queries[0], narrowed)
        narrow = time.perf_counter() - started
        return said | {"opened": opened, "narrowed": narrow, "own": _own_bytes() - before}, found


def _graph(place: Place, queries: Vectors, _: str) -> Said:
    with database.reading(place) as connection:
        found = codes.opened(connection, place.codes)
        assert found is not None
        by_row = hnsw.hunks(connection, found)
    placed = [unit(found.space.placed(query.astype(np.float64))) for query in queries]
    before = _own_bytes()
    started = time.perf_counter()
    with hnsw.opened(hnsw.file_of(place)) as graph:
        hnsw.nearest(graph, found, placed[0], DEPTH)
        opened = time.perf_counter() - started
        said, hunks = _timed(lambda query: by_row[hnsw.nearest(graph, found, query, DEPTH)].tolist(), placed)
        return said | {"opened": opened, "own": _own_bytes() - before}, hunks


def _timed(ask: Callable[[Any], list[int]], queries: list[Any]) -> Said:
    """Wall seconds of half and of most of the questions, and processor seconds of one, on which others bear less."""
    ask(queries[0])
    times, found = [], []
    used = time.process_time()
    for query in queries:
        started = time.perf_counter()
        found.append(ask(query))
        times.append(time.perf_counter() - started)
    used = (time.process_time() - used) / len(queries)
    half, most = np.percentile(times, [50, 95])
    return {"p50": float(half), "p95": float(most), "processor": used}, np.array(found)


def _own_bytes() -> int:
    """What this process keeps in memory without the files it has mapped, which are the system's to keep or to drop."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


if __name__ == "__main__":
    main()
