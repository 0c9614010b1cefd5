"""A question asked of a running engine: everything it needs is at hand, and nothing is ranked again.

python -m tests.bench.warm --commits 20000 CLONE...

Questions are subjects of the history's own commits. They are asked whole: not reranked, of the engine in this process
and through the daemon, and reranked through the daemon, with either form of the cross-encoder. Beside the whole answers
stand some of their parts, asked the same questions: the text lane alone, with looking its words up, and the encoder
alone; and what reranking adds, of candidates that were found before: by evidence alone, and with either form of the
cross-encoder. The index is made without an encoder: how long a question takes does not depend on what the vectors say.
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
from pipeline.text import words
from serve.api_types import FindRequest
from serve.daemon.client import Remote
from serve.daemon.process import Address
from serve.search import query, retrieval
from serve.search.cache import Seen, see
from serve.search.find_pattern import Finder, ordered
from serve.search.query_hints import NOTHING_HERE
from serve.search.rerank import EvidenceRanker, ReadingRanker, Reranker
from serve.search.retrieval import fuse
from stores import filters, fulltext
from stores.filters import Where
from stores.hunk_details import Connection
from stores.types import Reach
from tests.bench import indexes
from tests.bench.histories import History, cut
from tests.bench.indexing import zeros_command
from tests.bench.programs import git, run
from tests.bench.report import Asked, Row, main

QUESTIONS: Final = 120
SEED: Final = 3
# Shorter subjects say too little to be asked.
SHORTEST: Final = 20
MEDIAN_SECONDS: Final = 0.050
SLOW_SECONDS: Final = 0.120
# Of reading 50 candidates, by the form of the cross-encoder.
READING_SECONDS: Final = {Precision.FULL: 0.500, Precision.INT8: 0.250}

Ask = Callable[[str], object]


def measure(clone: Path, folder: Path, asked: Asked) -> Sequence[Row]:
    """The rows of one history."""
    history, home = cut(clone, folder / "clone", asked.commits), folder / "home"
    run(zeros_command(history.path), home=home, memory=False)
    questions = _questions(history)
    with ExitStack() as open_ways:
        connection = open_ways.enter_context(indexes.opened(history.path, home))
        open_ways.callback(Remote(Address(home)).stop)
        seen, encoder = see(connection, Reach()).ready(connection), OnnxEncoder()
        ways = {
            f"warm query of {len(seen.snapshot.hunks):,} hunks": _finder(history, home, open_ways),
            "the same through the daemon": _daemon(history, home),
            **{_reranked(precision): _daemon(history, home, precision) for precision in Precision},
            "its text lane alone": _text_lane(connection, seen),
            "its encoder alone": lambda text: encoder.encode([text]),
            "its evidence alone": _reranking(connection, seen, encoder, questions, EvidenceRanker()),
            **{
                _reading_alone(precision): _reranking(
                    connection, seen, encoder, questions, _reading(precision)
                )
                for precision in Precision
            },
        }
        return [row for way, ask in ways.items() for row in _rows(history.name, way, ask, questions)]


def _finder(history: History, home: Path, open_ways: ExitStack) -> Ask:
    encoder = OnnxEncoder()
    finder = open_ways.enter_context(closing(Finder(home, encoder=lambda _: encoder)))
    return lambda text: finder.find(FindRequest(text, rerank=False), history.path)


def _daemon(history: History, home: Path, reading: Precision | None = None) -> Ask:
    """It answers over its socket, from a process of its own; reranked where a form to read in is given."""
    daemon = Remote(Address(home), reading or Precision.FULL)
    request = partial(FindRequest, rerank=reading is not None)
    return lambda text: daemon.find(request(text), history.path)


def _text_lane(connection: Connection, seen: Seen) -> Ask:
    everything = filters.chosen(connection, seen.snapshot, Where())

    def ask(question: str) -> object:
        found = fulltext.look_up(connection, seen.snapshot, words(question))
        return fulltext.hunk_text(seen.snapshot, found, everything)

    return ask


def _reading(precision: Precision) -> Reranker:
    model = CrossEncoder(precision)
    return ReadingRanker(lambda: model)


def _reranking(
    connection: Connection, seen: Seen, encoder: OnnxEncoder, questions: Sequence[str], reranker: Reranker
) -> Ask:
    read = {text: query.parse_query(FindRequest(text), datetime.now(UTC), NOTHING_HERE) for text in questions}
    ranked = {text: retrieval.rank(connection, lambda: seen, asked, encoder) for text, asked in read.items()}
    fused = {text: fuse(ranked[text].lanes, read[text].profile.candidates) for text in questions}
    return lambda text: ordered(connection, read[text], ranked[text], fused[text], reranker)


def _rows(history: str, way: str, ask: Ask, questions: Sequence[str]) -> Iterator[Row]:
    """The median, and the time that nineteen of twenty questions take at most."""
    for question in questions[:3]:  # the first reads, the second reads diffs
        ask(question)
    took = sorted(_seconds(ask, question) for question in questions)
    median, slow = took[len(took) // 2], took[int(len(took) * 0.95)]
    limit, slow_limit = _limits(way)
    detail = f"{1000 * median:.1f} ms, {len(took)} questions, the slowest {1000 * took[-1]:.1f} ms"
    yield Row(history, f"{way}, seconds", median, limit, detail)
    yield Row(history, "the same, 95 in 100", slow, slow_limit, f"{1000 * slow:.1f} ms")


def _limits(way: str) -> tuple[float | None, float | None]:
    """Of the median, and of the slow ones."""
    for precision, seconds in READING_SECONDS.items():
        if way == _reading_alone(precision):
            return seconds, None
        if way == _reranked(precision):
            return MEDIAN_SECONDS + seconds, SLOW_SECONDS + seconds
    return (None, None) if "alone" in way else (MEDIAN_SECONDS, SLOW_SECONDS)


def _reading_alone(precision: Precision) -> str:
    return f"its reranking, {precision}, alone"


def _reranked(precision: Precision) -> str:
    return f"reranked, {precision}, through the daemon"


def _questions(history: History) -> list[str]:
    chance = random.Random(SEED)  # noqa: S311 - repeatable choice, nothing secret
    subjects = git(history.path, "log", "--no-merges", "--format=%s").splitlines()
    return chance.sample([subject for subject in subjects if len(subject) >= SHORTEST], QUESTIONS)


def _seconds(ask: Ask, question: str) -> float:
    started = time.perf_counter()
    ask(question)
    return time.perf_counter() - started


if __name__ == "__main__":
    main(measure, __doc__ or "")
