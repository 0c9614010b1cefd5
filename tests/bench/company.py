"""Two questions a second while a full index runs: is every one answered?

python -m tests.bench.company CLONE...
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.everyday import QUESTION
from tests.bench.histories import History, cut
from tests.bench.programs import LINEAGE, start
from tests.bench.report import Asked, Row, main, seconds

EVERY_SECONDS: Final = 0.5
# A query holds a model: more at once than this would measure the machine's memory and not the locks.
MOST_AT_ONCE: Final = 12


@dataclass(frozen=True, slots=True)
class Answered:
    """One question's process: `hits` is None where no answer came, `error` then says why."""

    seconds: float
    hits: int | None
    error: str


def measure(clone: Path, folder: Path, asked: Asked) -> Sequence[Row]:
    """One index, and the questions asked from its first to its last second."""
    history = cut(clone, folder / "clone", asked.commits)
    answers, took = _ask_during(history, folder / "home")
    failed = [answer.error.strip().splitlines()[0] for answer in answers if answer.hits is None]
    answered = [answer for answer in answers if answer.hits]
    detail = f"{len(answers)} asked in {took:.0f} s, {len(answered)} with hits; each {_latency(answers)}"
    row = Row(history.name, "queries that got no answer while an index ran", len(failed), 0, detail)
    return [row, *(Row(history.name, "the first error", 1, 0, error) for error in failed[:1])]


def _ask_during(history: History, home: Path) -> tuple[list[Answered], float]:
    began = time.perf_counter()
    index = start((*LINEAGE, "index", str(history.path), "--no-progress"), home=home)
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool, ThreadPoolExecutor(1) as listener:
        ended = listener.submit(index.communicate)
        asking = []
        while not ended.done():
            asking.append(pool.submit(_ask, history, home))
            time.sleep(EVERY_SECONDS)
        took = time.perf_counter() - began
        assert index.returncode == 0, ended.result()[1]
        return [answer.result() for answer in asking], took


def _ask(history: History, home: Path) -> Answered:
    began = time.perf_counter()
    process = start((*LINEAGE, "query", str(history.path), "--query", QUESTION), home=home)
    out, err = process.communicate()
    return Answered(time.perf_counter() - began, _hits(process, out), err)


def _hits(process: subprocess.Popen[str], out: str) -> int | None:
    return len(json.loads(out)["hits"]) if process.returncode == 0 else None


def _latency(answers: Sequence[Answered]) -> str:
    return seconds([answer.seconds for answer in answers])


if __name__ == "__main__":
    main(measure, __doc__ or "")
