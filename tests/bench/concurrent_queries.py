"""Two questions a second while a full index runs: is every one answered?

python -m tests.bench.concurrent_queries CLONE...

They are asked in two ways: by processes of their own, which each read the index file while the run writes it and rank
without the cross-encoder, and through the daemon, as they are unless asked otherwise. Where the machine answers fewer
beside an index, fewer are asked: `MOST_AT_ONCE` are under way at most.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from serve.daemon.client import Remote
from serve.daemon.process import Address
from tests.bench.everyday import QUESTION
from tests.bench.histories import History, cut
from tests.bench.programs import LINEAGE, start
from tests.bench.report import Asked, Row, main, seconds

EVERY_SECONDS: Final = 0.5
# A query holds a model: more at once than this would measure the machine's memory and not the locks.
MOST_AT_ONCE: Final = 12


@dataclass(frozen=True, slots=True)
class Way:
    """One way to ask: what the command line says besides the question, and whether the daemon answers."""

    name: str
    arguments: tuple[str, ...] = ()
    daemon: bool = False


WAYS: Final = (Way("by processes of their own", ("--no-rerank",)), Way("through the daemon", daemon=True))


@dataclass(frozen=True, slots=True)
class Answered:
    """One question's process: `hits` is None where no answer came, `error` then says why, in a line."""

    seconds: float
    hits: int | None
    error: str


def measure(clone: Path, folder: Path, asked: Asked) -> Sequence[Row]:
    """One index for each way, and the questions asked from its first to its last second."""
    history = cut(clone, folder / "clone", asked.commits)
    return [row for number, way in enumerate(WAYS) for row in _rows(history, way, folder / f"home-{number}")]


def _rows(history: History, way: Way, home: Path) -> Iterator[Row]:
    try:
        answers, took = _ask_during(history, way, home)
    finally:
        Remote(Address(home)).stop()
    failed = [answer.error for answer in answers if answer.hits is None]
    answered = [answer for answer in answers if answer.hits]
    rate = f"{len(answers)} asked in {took:.0f} s, {len(answers) / took:.1f} a second"
    detail = f"{rate}; {len(answered)} with hits; each {_latency(answers)}"
    yield Row(
        history.name, f"queries {way.name} that got no answer while an index ran", len(failed), 0, detail
    )
    yield from (Row(history.name, "the first error", 1, 0, error) for error in failed[:1])


def _ask_during(history: History, way: Way, home: Path) -> tuple[list[Answered], float]:
    began = time.perf_counter()
    index = start((*LINEAGE, "index", str(history.path), "--no-progress"), home=home)
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool, ThreadPoolExecutor(1) as listener:
        ended = listener.submit(index.communicate)
        asking: list[Future[Answered]] = []
        try:
            while not ended.done():
                if sum(not answer.done() for answer in asking) < MOST_AT_ONCE:
                    asking.append(pool.submit(_ask, history, way, home))
                time.sleep(EVERY_SECONDS)
        except BaseException:
            os.killpg(index.pid, signal.SIGTERM)  # or leaving the pools would wait for its end
            raise
        took = time.perf_counter() - began
        assert index.returncode == 0, ended.result()[1]
        return [answer.result() for answer in asking], took


def _ask(history: History, way: Way, home: Path) -> Answered:
    began = time.perf_counter()
    command = (*LINEAGE, "query", str(history.path), "--query", QUESTION, *way.arguments)
    process = start(command, home=home, daemon=way.daemon)
    out, err = process.communicate()
    error = [*err.strip().splitlines(), f"exit status {process.returncode}"][0]
    return Answered(time.perf_counter() - began, _hits(process, out), error)


def _hits(process: subprocess.Popen[str], out: str) -> int | None:
    return len(json.loads(out)["hits"]) if process.returncode == 0 else None


def _latency(answers: Sequence[Answered]) -> str:
    return seconds([answer.seconds for answer in answers])


if __name__ == "__main__":
    main(measure, __doc__ or "")
