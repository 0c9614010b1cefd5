"""A question asked of a running engine: everything it needs is at hand, and nothing is ranked again.

python -m tests.bench.warm --commits 20000 CLONE...

Questions are subjects of the history's own commits. Beside the whole answer stand two of its parts, asked the same
questions: the text lane alone, its SQL included, and the encoder alone. The index is made without an encoder: how long
a question takes does not depend on what the vectors say.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

from pipeline.encoder import OnnxEncoder
from pipeline.text import words
from serve.daemon.address import Address
from serve.daemon.client import Remote
from serve.find.search import Finder
from serve.questions import FindRequest
from stores import filters, lexical, snapshot
from stores.filters import Where
from stores.reach import Reach
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

Ask = Callable[[str], object]


def measure(clone: Path, folder: Path, asked: Asked) -> Sequence[Row]:
    """The rows of one history."""
    history, home = cut(clone, folder / "clone", asked.commits), folder / "home"
    run(zeros_command(history.path), home=home, memory=False)
    questions = _questions(history)
    with ExitStack() as open_ways:
        ways = _ways(history, home, open_ways)
        return [row for way, ask in ways.items() for row in _rows(history.name, way, ask, questions)]


def _ways(history: History, home: Path, open_ways: ExitStack) -> dict[str, Ask]:
    """What is asked, by what it is called. The daemon answers over its socket, from a process of its own."""
    encoder = OnnxEncoder()
    finder = open_ways.enter_context(closing(Finder(home, encoder=lambda _: encoder)))
    daemon = Remote(Address(home))
    open_ways.callback(daemon.stop)
    connection = open_ways.enter_context(indexes.opened(history.path, home))
    seen = snapshot.load(connection, Reach())
    everything = filters.chosen(connection, seen, Where())

    def text_lane(question: str) -> object:
        return lexical.hunk_text(seen, lexical.look_up(connection, seen, words(question)), everything)

    return {
        f"warm query of {len(seen.hunks):,} hunks": lambda text: finder.find(_request(text), history.path),
        "the same through the daemon": lambda text: daemon.find(_request(text), history.path),
        "its text lane alone": text_lane,
        "its encoder alone": lambda text: encoder.encode([text]),
    }


def _rows(history: str, way: str, ask: Ask, questions: Sequence[str]) -> Iterator[Row]:
    """The median, and the time that nineteen of twenty questions take at most."""
    for question in questions[:3]:  # the first reads, the second reads diffs
        ask(question)
    took = sorted(_seconds(ask, question) for question in questions)
    median, slow = took[len(took) // 2], took[int(len(took) * 0.95)]
    whole = "alone" not in way
    detail = f"{1000 * median:.1f} ms, {len(took)} questions, the slowest {1000 * took[-1]:.1f} ms"
    yield Row(history, f"{way}, seconds", median, MEDIAN_SECONDS if whole else None, detail)
    yield Row(history, "the same, 95 in 100", slow, SLOW_SECONDS if whole else None, f"{1000 * slow:.1f} ms")


def _questions(history: History) -> list[str]:
    chance = random.Random(SEED)  # noqa: S311 - repeatable choice, nothing secret
    subjects = git(history.path, "log", "--no-merges", "--format=%s").splitlines()
    return chance.sample([subject for subject in subjects if len(subject) >= SHORTEST], QUESTIONS)


def _request(text: str) -> FindRequest:
    return FindRequest(text, rerank=False)


def _seconds(ask: Ask, question: str) -> float:
    started = time.perf_counter()
    ask(question)
    return time.perf_counter() - started


if __name__ == "__main__":
    main(measure, __doc__ or "")
