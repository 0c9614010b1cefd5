"""Random ranges of files, explained: is every line git's own, is every excerpt in `git show`, how long does it take?

python -m tests.bench.explain --pairs 200 CLONE...

Each history is asked in a clean work tree and in one with lines changed, added and removed in every file asked
about. The time of a first answer is compared with `git blame --porcelain -L` of the same range; both start one
git program, and the answer's own imports are done. It is taken without an index, and with one, as `lineage index`
leaves it: with git's commit-graph, and related commits asked for.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from pipeline.git import commit_graph
from pipeline.git.repository import open_repository
from serve.api_types import ExplainAnswer, ExplainHit, ExplainRequest
from serve.explain.blame import Blame, parsed
from serve.explain.cache import Warm
from serve.explain.excerpts import main_origin
from serve.explain.explain_change import Explainer
from serve.index_status import narrowed
from serve.repositories import place_of
from tests.bench.histories import History, cut
from tests.bench.indexing import zeros_command
from tests.bench.programs import git_bytes, run
from tests.bench.report import Asked, Row, main, median

SEED: Final = 11
# As long as what people ask about: a line, a function, a class.
LONGEST: Final = 120
# Of a first answer: what the table promises beside git's own time.
SHARE: Final = 1.3
ALLOWANCE_SECONDS: Final = 0.030
REPEATED_SECONDS: Final = 0.020


@dataclass(frozen=True, slots=True)
class Asking:
    """One question, git's own answer to it, and ours with the seconds of both."""

    request: ExplainRequest
    theirs: Blame
    git_seconds: float
    ours: ExplainAnswer
    seconds: float


def measure(clone: Path, folder: Path, asked: Asked) -> Sequence[Row]:
    """The rows of one history."""
    chance = random.Random(SEED)  # noqa: S311 - repeatable choice, nothing secret
    rows: list[Row] = []
    for state in ("clean", "dirty"):
        history = cut(clone, folder / state, asked.commits)
        requests = list(_requests(history, chance, asked.pairs, dirty=state == "dirty"))
        rows += _rows(history, f"{state}: ", folder / "home", requests, chance)
    indexed = Explainer(_indexed(history, folder / "indexed"))
    related = [replace(request, include_related=True) for request in requests]
    rows.append(_first(history, "dirty, indexed: ", [_ask(history, indexed, one) for one in related]))
    return rows


def _rows(
    history: History, state: str, home: Path, requests: Sequence[ExplainRequest], chance: random.Random
) -> Iterator[Row]:
    explainer = Explainer(home)
    done = [_ask(history, explainer, request) for request in requests]
    lines = sum(len(asking.theirs.lines) for asking in done)
    yield Row(
        history.name,
        f"{state}lines blamed on another commit than git's",
        sum(map(_disagreeing, done)),
        0,
        f"{len(done)} ranges, {lines} lines, {sum(len(asking.ours.hits) for asking in done)} hits",
    )
    yield Row(
        history.name, f"{state}hits in another order", sum(_unordered(history, one) for one in done), 0, ""
    )
    wrong = [hit for asking in done for hit in asking.ours.hits if not _shown_by_git(history, asking, hit)]
    detail = ", ".join(f"{hit.commit_sha[:10]} {hit.file_path}" for hit in wrong[:3])
    yield Row(history.name, f"{state}paths or excerpts git does not show", len(wrong), 0, detail)
    yield _first(history, state, done)
    yield from _again(history, state, explainer, done, chance)


def _first(history: History, state: str, done: Sequence[Asking]) -> Row:
    ratios = [one.seconds / (SHARE * one.git_seconds + ALLOWANCE_SECONDS) for one in done]
    ours, theirs = median([one.seconds for one in done]), median([one.git_seconds for one in done])
    return Row(
        history.name,
        f"{state}first answer / ({SHARE} x git blame + 30 ms)",
        median(ratios),
        1,
        f"{ours * 1000:.0f} ms, git blame {theirs * 1000:.0f} ms",
    )


def _again(
    history: History, state: str, explainer: Explainer, done: Sequence[Asking], chance: random.Random
) -> Iterator[Row]:
    """Every question twice more, shuffled, of an engine that remembers as many."""
    took: list[float] = []
    other = 0
    roomy = Explainer(explainer.home, Warm(most=len(done)))
    for _ in range(3):
        for asking in chance.sample(done, len(done)):
            answer, seconds = _answer(history, roomy, asking.request)
            took.append(seconds)
            other += answer != asking.ours
    yield Row(history.name, f"{state}repeated answers that differ", other, 0, f"of {len(took)}")
    warm = median(took[len(done) :])
    yield Row(
        history.name, f"{state}repeated answer, seconds", warm, REPEATED_SECONDS, f"{warm * 1000:.1f} ms"
    )


def _requests(
    history: History, chance: random.Random, pairs: int, *, dirty: bool
) -> Iterator[ExplainRequest]:
    files = [name for name in git_bytes(history.path, "ls-files", "-z").split(b"\0") if name]
    changed: set[bytes] = set()
    while pairs:
        name = chance.choice(files)
        file = history.path / os.fsdecode(name)
        content = file.read_bytes() if file.is_file() and not file.is_symlink() else b""
        if not content or b"\0" in content[:8000]:
            continue
        if dirty and name not in changed:
            content = _disturbed(content, chance)
            file.write_bytes(content)
            changed.add(name)
        count = content.count(b"\n") + (not content.endswith(b"\n"))
        start = chance.randint(1, count)
        pairs -= 1
        yield ExplainRequest(os.fsdecode(name), start, min(count, start + chance.randrange(LONGEST)))


def _disturbed(content: bytes, chance: random.Random) -> bytes:
    """The file with a line in ten changed, gone, or followed by another."""
    lines = content.split(b"\n")
    for place in sorted(chance.sample(range(len(lines)), max(1, len(lines) // 10)), reverse=True):
        lines[place : place + 1] = chance.choice(
            ([], [lines[place] + b" changed"], [lines[place], b"a new line"])
        )
    return b"\n".join(lines) or b"\n"


def _ask(history: History, explainer: Explainer, request: ExplainRequest) -> Asking:
    lines = f"-L{request.line_start},{request.line_end}"
    started = time.perf_counter()
    porcelain = git_bytes(history.path, "blame", "--porcelain", lines, "--", request.file)
    git_seconds = time.perf_counter() - started
    answer, seconds = _answer(history, explainer, request)
    return Asking(request, parsed(porcelain), git_seconds, answer, seconds)


def _answer(history: History, explainer: Explainer, request: ExplainRequest) -> tuple[ExplainAnswer, float]:
    started = time.perf_counter()
    answer = explainer.explain(request, history.path)
    return answer, time.perf_counter() - started


def _disagreeing(asking: Asking) -> int:
    theirs = {line.number: line.origin.commit_sha if line.committed else None for line in asking.theirs.lines}
    ours = {line.number: line.commit_sha for line in asking.ours.lines}
    found = {number: hit.commit_sha for hit in asking.ours.hits for number in hit.blame_lines}
    unique = len({sha for sha in theirs.values() if sha})
    wrong = sum(ours.get(number) != sha for number, sha in theirs.items())
    wrong += sum(theirs.get(number) != sha for number, sha in found.items())
    return wrong + (len(ours) != len(theirs)) + (asking.ours.meta.explain.commits_unique != unique)


def _unordered(history: History, asking: Asking) -> int:
    """Neighbouring hits that are not newest first, or of one date with a parent before its child."""
    pairs = list(pairwise(asking.ours.hits))
    wrong = sum(earlier.commit_date < later.commit_date for earlier, later in pairs)
    tied = [(one, other) for one, other in pairs if one.commit_date == other.commit_date]
    return wrong + sum(_is_ancestor(history, one.commit_sha, other.commit_sha) for one, other in tied)


def _is_ancestor(history: History, older: str, newer: str) -> bool:
    return not git_bytes(history.path, "rev-list", "-1", older, f"^{newer}")


def _shown_by_git(history: History, asking: Asking, hit: ExplainHit) -> bool:
    """Whether every run of the excerpt stands in the commit's diff of that file, as `git show` prints it."""
    lines = [line for line in asking.theirs.lines if line.origin.commit_sha == hit.commit_sha]
    origin = main_origin(lines)
    if os.fsencode(hit.file_path) != origin.path or tuple(line.number for line in lines) != hit.blame_lines:
        return False
    shown = git_bytes(
        history.path, "show", "--format=", "-m", "-M", "--no-ext-diff", "--no-textconv", hit.commit_sha
    )
    if origin.previous:  # what blame calls a rename, `show` may not
        before, path = origin.previous
        shown += git_bytes(
            history.path,
            "diff",
            before + ":" + os.fsdecode(path),
            hit.commit_sha + ":" + os.fsdecode(origin.path),
        )
    text = "\n".join(narrowed(line) for line in shown.decode("utf-8", "replace").split("\n"))
    runs = (hit.diff_excerpt or "").removesuffix("\n").split("\n@@ ")
    bodies = [run.partition("\n")[2] for run in runs]
    return bool(hit.diff_excerpt) and all(f"\n{body}" in text for body in bodies)


def _indexed(history: History, home: Path) -> Path:
    """A home with the history's index, whose vectors no explanation asks for, and the commit-graph beside it."""
    run(zeros_command(history.path), home=home, memory=False)
    repository = open_repository(history.path)
    commit_graph.refresh(repository, place_of(home, repository).graph)
    return home


if __name__ == "__main__":
    main(measure, __doc__ or "")
