"""An index too large to keep in memory: its side file beside a matrix in memory, and beside a graph.

python -m tests.bench.large_index CLONE [--hunks N] [--home HOME] [--graph]

The clone is indexed, or found indexed under HOME, and its index copied and grown to N hunks (100,000) whose vectors
are neighbours of the real ones. Questions are the history's own messages. Each way is asked by a process of its own;
recall is of the hundred hunks that the matrix in memory ranks first.
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
from serve.repositories import place_of
from stores import history, quantized_vectors
from stores.index_location import Place
from tests.bench import synthetic_index, vector_search_process
from tests.bench.programs import lineage, run
from tests.bench.report import Row, say, show_rows, workspace

HUNKS: Final = 100_000
QUESTIONS: Final = 100
# Of the hundred best, as the contract has it: what is missed by the side file at most.
MOST_MISSED: Final = 0.05
# The codes' bytes for each hunk that may be kept, where a matrix takes 1,536 beside them.
MOST_OWN_BYTES: Final = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clone", type=Path, metavar="CLONE")
    parser.add_argument("--hunks", type=int, default=HUNKS)
    parser.add_argument(
        "--home", type=Path, help="a LINEAGE_HOME in which the clone is indexed; it is copied"
    )
    parser.add_argument(
        "--graph", action="store_true", help="build VSS's HNSW too: minutes for 100,000 hunks"
    )
    given = parser.parse_args()
    if given.hunks <= history.MOST_KEPT_ROWS:
        parser.error(f"an index of up to {history.MOST_KEPT_ROWS:,} texts is kept in memory")
    with workspace() as folder:
        place = _copied(given.clone, given.home, folder)
        show_rows(measure(given.clone, place, given.hunks, graph=given.graph))


def measure(clone: Path, place: Place, hunks: int, *, graph: bool = False) -> Sequence[Row]:
    synthetic_index.grow(place, hunks)
    started, used = time.perf_counter(), time.process_time()
    quantized_vectors.refresh(place)
    seconds, used = time.perf_counter() - started, time.process_time() - used
    name = f"{clone.name} grown to {hunks:,}"
    detail = f"{used:.1f} s of processors; {synthetic_index.room(place)}"
    rows = [Row(name, "making the side file, seconds", seconds, None, detail)]
    if graph:
        rows.append(_built(name, clone, place))
    kept = None
    for way in [way for way in vector_search_process.WAYS if way != "graph" or graph]:
        said = _asked(clone, place, way)
        kept = kept or said
        found = _rows(name, way, said, kept, hunks)
        for row in found:  # at once: at a million hunks the next way takes minutes
            say(f"{row.what}: {row.value:.3g} ({row.detail})")
        rows += found
    return rows


def _rows(name: str, way: str, said: dict[str, Any], kept: dict[str, Any], hunks: int) -> list[Row]:
    most_own, most_missed = (MOST_OWN_BYTES, MOST_MISSED) if way == "codes" else (None, None)
    memory = f"{said['own'] / 1e6:.0f} MB; opened in {said['opened']:.2f} s"
    rows = [Row(name, f"{way}: own memory for each hunk, bytes", said["own"] / hunks, most_own, memory)]
    for part, words in (("everything", ""), ("newest", " in the newest fiftieth")):
        found, times = said["found"][part], said[part]
        detail = f"p50 {times['p50'] * 1e3:.0f} ms, p95 {times['p95'] * 1e3:.0f} ms by the clock"
        missed = 1 - _recall(found, kept["found"][part])
        rows += [
            Row(name, f"{way}: a question{words}, ms of processors", times["processor"] * 1e3, None, detail),
            Row(
                name,
                f"{way}: missed of the hundred best{words}",
                missed,
                most_missed,
                f"{len(found)} questions",
            ),
        ]
    return rows


def _recall(found: np.ndarray, best: np.ndarray) -> float:
    pairs = zip(found.tolist(), best.tolist(), strict=False)
    return float(np.mean([len(set(mine) & set(theirs)) / len(set(theirs)) for mine, theirs in pairs]))


def _asked(clone: Path, place: Place, way: str) -> dict[str, Any]:
    found = place.home / f"{way}.npz"
    arguments = (str(place.home), str(clone.absolute()), way, str(QUESTIONS), str(found))
    done = run(
        (sys.executable, "-m", "tests.bench.vector_search_process", *arguments), home=place.home, memory=False
    )
    said: dict[str, Any] = json.loads(done.out)
    return said | {"found": dict(np.load(found))}


def _built(name: str, clone: Path, place: Place) -> Row:
    arguments = (str(place.home), str(clone.absolute()))
    done = run((sys.executable, "-m", "tests.bench.hnsw", *arguments), home=place.home)
    said = json.loads(done.out)
    return Row(
        name,
        "building the graph, seconds",
        said["seconds"],
        None,
        f"{said['processor']:.1f} s of processors; {said['bytes'] / 1e6:.0f} MB, "
        f"peak memory {done.peak_bytes / 1e6:.0f} MB",
    )


def _copied(clone: Path, home: Path | None, folder: Path) -> Place:
    if home is None:
        home = folder / "first"
        lineage(home, "index", clone.absolute(), "--no-progress")
    place = place_of(home.absolute(), open_repository(clone))
    shutil.copytree(place.folder, folder / "home" / place.folder.name)
    return place_of(folder / "home", open_repository(clone))


if __name__ == "__main__":
    main()
