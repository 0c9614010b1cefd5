"""Benchmark of queries with models and index loaded.

python -m tests.bench.warm --commits 20000 CLONE...

Queries are commit subjects of the repository. Whole queries are timed without reranking, in this process
and through the daemon, and with reranking through the daemon, with both precisions of the cross-encoder. Parts are
timed for the same queries: the hunk-text lane with its term lookup, the encoder,
and reranking of given candidates by features alone and with both precisions of the
cross-encoder. The index has zero vectors: the time of a query does not depend on their values.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from pipeline.encoders.base import OnnxEncoder
from pipeline.encoders.cross_encoder import CrossEncoder
from pipeline.options import Precision
from pipeline.text import count_terms
from serve.daemon.client import DaemonClient
from serve.daemon.process import DaemonPaths
from serve.find_types import FindRequest
from serve.search import query, retrieval
from serve.search.cache import LoadedSnapshot, load_snapshot_with_vectors
from serve.search.find_pattern import PatternSearcher, rank_candidates
from serve.search.query_hints import EMPTY_CONTEXT
from serve.search.rerank import CrossEncoderReranker, FeatureReranker, Reranker
from stores import fulltext
from stores.filters import QueryFilter
from stores.history import ReachabilityDelta
from stores.hunk_details import Connection
from stores.snapshot import apply_filter
from tests.bench import indexes
from tests.bench.histories import History, clone_history
from tests.bench.programs import run_git, run_lineage
from tests.bench.report import BenchmarkOptions, Row, main

QUERIES: Final = 120
SEED: Final = 3
# Shorter subjects are too vague.
MIN_QUERY_LENGTH: Final = 20
# Upper bounds of the median and the 95th percentile, without reranking.
MEDIAN_SECONDS: Final = 0.050
SLOW_SECONDS: Final = 0.120
# Upper bound of the median for 50 candidates, by precision of the cross-encoder.
CROSS_ENCODER_SECONDS: Final = {Precision.FULL: 0.500, Precision.INT8: 0.250}

QueryFunction = Callable[[str], object]


def measure(clone: Path, folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    """Return two rows for each way to run a query."""
    history, home = clone_history(clone, folder / "clone", options.commits), folder / "home"
    run_lineage(home, "index", history.path, "--no-progress", memory=False)
    queries = sample_queries(history, QUERIES)
    with ExitStack() as stack:
        connection = stack.enter_context(indexes.open_index(history.path, home))
        stack.callback(DaemonClient(DaemonPaths(home)).stop)
        snapshot, encoder = (
            load_snapshot_with_vectors(connection, ReachabilityDelta()).with_all_texts(connection),
            OnnxEncoder(),
        )
        functions = {
            f"warm query of {len(snapshot.snapshot.hunks):,} hunks": _query_in_process(history, home, stack),
            "the same through the daemon": _query_daemon(history, home),
            **{
                _format_daemon_label(precision): _query_daemon(history, home, precision)
                for precision in Precision
            },
            "its text lane alone": _search_hunk_text(connection, snapshot),
            "its encoder alone": lambda text: encoder.encode_queries([text]),
            "its evidence alone": _rerank_candidates(
                connection, snapshot, encoder, queries, FeatureReranker()
            ),
            **{
                _format_cross_encoder_label(precision): _rerank_candidates(
                    connection, snapshot, encoder, queries, _create_cross_encoder_reranker(precision)
                )
                for precision in Precision
            },
        }
        return [
            row
            for label, run_query in functions.items()
            for row in _measure_latency(history.name, label, run_query, queries)
        ]


def _query_in_process(history: History, home: Path, stack: ExitStack) -> QueryFunction:
    encoder = OnnxEncoder()
    searcher = stack.enter_context(closing(PatternSearcher(home, load_encoder=lambda _: encoder)))
    return lambda text: searcher.find(FindRequest(text, rerank=False), history.path)


def _query_daemon(history: History, home: Path, precision: Precision | None = None) -> QueryFunction:
    """Return a function that queries the daemon; with reranking where a precision is given."""
    daemon = DaemonClient(DaemonPaths(home), precision or Precision.FULL)
    request = partial(FindRequest, rerank=precision is not None)
    return lambda text: daemon.find(request(text), history.path)


def _search_hunk_text(connection: Connection, snapshot: LoadedSnapshot) -> QueryFunction:
    no_filter = apply_filter(connection, snapshot.snapshot, QueryFilter())

    def ask(question: str) -> object:
        lookup = fulltext.look_up_terms(connection, snapshot.snapshot, count_terms(question))
        return fulltext.search_hunk_text(snapshot.snapshot, lookup, no_filter)

    return ask


def _create_cross_encoder_reranker(precision: Precision) -> Reranker:
    model = CrossEncoder(precision)
    return CrossEncoderReranker(lambda: model)


def _rerank_candidates(
    connection: Connection,
    snapshot: LoadedSnapshot,
    encoder: OnnxEncoder,
    queries: Sequence[str],
    reranker: Reranker,
) -> QueryFunction:
    parsed_queries = {
        text: query.parse_query(FindRequest(text), datetime.now(UTC), EMPTY_CONTEXT) for text in queries
    }
    results = {
        text: retrieval.run_retrievers(connection, lambda: snapshot, parsed_query, encoder)
        for text, parsed_query in parsed_queries.items()
    }
    candidates = {text: retrieval.select_candidates(results[text], parsed_queries[text]) for text in queries}
    return lambda text: rank_candidates(
        connection, parsed_queries[text], results[text], candidates[text], reranker
    )


def _measure_latency(
    history: str, label: str, query_function: QueryFunction, queries: Sequence[str]
) -> Iterator[Row]:
    """Yield the median and the 95th percentile of the query times."""
    for text in queries[:3]:  # the first two load the index and its diffs
        query_function(text)
    times = sorted(_time_query(query_function, text) for text in queries)
    p50, p95 = times[len(times) // 2], times[int(len(times) * 0.95)]
    p50_limit, p95_limit = _get_limits(label)
    detail = f"{1000 * p50:.1f} ms, {len(times)} queries, slowest {1000 * times[-1]:.1f} ms"
    yield Row(history, f"{label}, seconds", p50, p50_limit, detail)
    yield Row(history, "the same, p95, seconds", p95, p95_limit, f"{1000 * p95:.1f} ms")


def _get_limits(label: str) -> tuple[float | None, float | None]:
    """Return the upper bounds of the median and of the 95th percentile."""
    for precision, seconds in CROSS_ENCODER_SECONDS.items():
        if label == _format_cross_encoder_label(precision):
            return seconds, None
        if label == _format_daemon_label(precision):
            return MEDIAN_SECONDS + seconds, SLOW_SECONDS + seconds
    return (None, None) if "alone" in label else (MEDIAN_SECONDS, SLOW_SECONDS)


def _format_cross_encoder_label(precision: Precision) -> str:
    return f"its reranking, {precision}, alone"


def _format_daemon_label(precision: Precision) -> str:
    return f"reranked, {precision}, through the daemon"


def sample_queries(history: History, count: int) -> list[str]:
    """Return random commit subjects of the history."""
    generator = random.Random(SEED)  # noqa: S311 - repeatable choice, nothing secret
    subjects = run_git(history.path, "log", "--no-merges", "--format=%s").splitlines()
    return generator.sample([subject for subject in subjects if len(subject) >= MIN_QUERY_LENGTH], count)


def _time_query(run_query: QueryFunction, text: str) -> float:
    start_time = time.perf_counter()
    run_query(text)
    return time.perf_counter() - start_time


if __name__ == "__main__":
    main(measure, __doc__ or "")
