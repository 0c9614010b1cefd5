"""Benchmark of questions to twenty indexes, compared with questions to one of them.

python -m tests.bench.many_repositories --commits 1000 CLONE...

The repositories are copies of the clone with slightly different numbers of commits, so each index is as large as the
one that the time is compared with. One command indexes all of them. Questions are commit subjects, asked through the
daemon with everything loaded, alternately to one index and to all, so the ratio is comparable between machines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from serve.api_types import NamedRepository
from serve.daemon.client import DaemonClient
from serve.daemon.process import DaemonPaths
from serve.find_types import FindRequest
from serve.repositories import ALL, resolve_repositories
from tests.bench.histories import clone_history
from tests.bench.programs import run_lineage
from tests.bench.report import BenchmarkOptions, Row, compute_median, main
from tests.bench.warm import sample_queries

REPOSITORIES: Final = 20
QUERIES: Final = 40
# Upper bound of the median over all indexes, reranked, as a multiple of that over one.
MAX_RATIO: Final = 3.0
# Each repository is shorter than the one before by this share of the commits.
LENGTH_STEP: Final = 0.005


def measure(clone: Path, folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    """Return the time of the command that indexes all, and a ratio for each way to ask."""
    home, repositories = folder / "home", folder / "repositories"
    histories = [
        clone_history(
            clone, repositories / f"{number:02}", round(options.commits * (1 - LENGTH_STEP * number))
        )
        for number in range(REPOSITORIES)
    ]
    history = histories[0]
    run = run_lineage(
        home, "index", "--recursive", repositories, "--encoder", "static", "--no-progress", memory=False
    )
    rows = [
        Row(history.name, f"index {REPOSITORIES} repositories, seconds", run.seconds, None, "static encoder")
    ]
    daemon = DaemonClient(DaemonPaths(home))
    indexed_repositories = resolve_repositories(home, [ALL], folder)
    with ExitStack() as stack:
        stack.callback(daemon.stop)
        for label, rerank in (("reranked", True), ("without the cross-encoder", False)):
            ask_one = partial(_ask_one, daemon, history.path, rerank=rerank)
            ask_all = partial(_ask_all, daemon, indexed_repositories, rerank=rerank)
            rows.append(
                _compare(
                    history.name,
                    label,
                    ask_one,
                    ask_all,
                    sample_queries(history, QUERIES),
                    MAX_RATIO if rerank else None,
                )
            )
    return rows


def _ask_one(daemon: DaemonClient, path: Path, text: str, *, rerank: bool) -> object:
    return daemon.find(FindRequest(text, rerank=rerank), path)


def _ask_all(
    daemon: DaemonClient, repositories: Sequence[NamedRepository], text: str, *, rerank: bool
) -> object:
    return daemon.find_in_repositories(FindRequest(text, rerank=rerank), repositories)


def _compare(
    history: str,
    label: str,
    ask_one: Callable[[str], object],
    ask_all: Callable[[str], object],
    queries: Sequence[str],
    limit: float | None,
) -> Row:
    for text in queries[:2]:  # the first two load the indexes and their diffs
        ask_one(text)
        ask_all(text)
    pairs = [(_time(ask_one, text), _time(ask_all, text)) for text in queries]
    one, all_together = (compute_median(times) for times in zip(*pairs, strict=True))
    detail = f"{1000 * one:.0f} ms one index, {1000 * all_together:.0f} ms all, {len(queries)} questions"
    return Row(
        history, f"question to {REPOSITORIES} indexes, {label}, x one", all_together / one, limit, detail
    )


def _time(ask: Callable[[str], object], text: str) -> float:
    start_time = time.perf_counter()
    ask(text)
    return time.perf_counter() - start_time


if __name__ == "__main__":
    main(measure, __doc__ or "")
