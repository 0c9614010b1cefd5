"""Benchmark of explanations of random line ranges: agreement with `git blame` and `git show`, and time.

python -m tests.bench.explain --pairs 200 CLONE...

Each clone is tested with a clean work tree, and with lines changed, added and removed in every file
tested. The time of a first answer is compared with `git blame --porcelain -L` of the same range; both start one
git process, and lineage's imports are done before. It is measured without an index, and with one, including
the commit-graph and related commits. With an index, the evolution of lines and related files are measured as ratios to
blame, too.
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
from serve.analysis.related_files import find_related_files
from serve.excerpts import truncate_line
from serve.explain.blame import BlameResult, find_main_origin, parse_porcelain
from serve.explain.cache import BoundedCache
from serve.explain.explain_change import Explainer
from serve.explain_types import ExplainAnswer, ExplainHit, ExplainRequest
from serve.related_types import RelatedRequest
from serve.repositories import locate_index
from tests.bench.histories import History, clone_history
from tests.bench.programs import run_git_bytes, run_lineage
from tests.bench.report import BenchmarkOptions, Row, compute_median, main

SEED: Final = 11
# Lines per range: a line, a function, a class.
MAX_LINES: Final = 120
# Upper bound of a first answer: a multiple of git's time plus a constant.
GIT_SHARE: Final = 1.3
ALLOWANCE_SECONDS: Final = 0.030
REPEATED_SECONDS: Final = 0.020
# Numbers of lines whose evolution is measured, and requests for each.
EVOLUTION_LINES: Final = (1, 40)
EVOLUTION_ROUNDS: Final = 20
# Files whose related files are measured.
RELATED_ROUNDS: Final = 10


@dataclass(frozen=True, slots=True)
class Comparison:
    """A request, git's answer and lineage's answer, with the seconds of both."""

    request: ExplainRequest
    git_blame: BlameResult
    git_seconds: float
    answer: ExplainAnswer
    seconds: float


def measure(clone: Path, folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    """Return the rows of one clone."""
    generator = random.Random(SEED)  # noqa: S311 - repeatable choice, nothing secret
    rows: list[Row] = []
    for state in ("clean", "dirty"):
        history = clone_history(clone, folder / state, options.commits)
        requests = list(_generate_requests(history, generator, options.pairs, dirty=state == "dirty"))
        rows += _measure_state(history, f"{state}: ", folder / "home", requests, generator)
    indexed_explainer = Explainer(_build_index(history, folder / "indexed"))
    related_requests = [replace(request, include_related=True) for request in requests]
    rows.append(
        _create_first_answer_row(
            history,
            "dirty, indexed: ",
            [_compare_with_git(history, indexed_explainer, request) for request in related_requests],
        )
    )
    rows += _measure_evolution(history, indexed_explainer.home, requests)
    rows.append(_measure_related_files(history, indexed_explainer.home, requests))
    return rows


def _measure_related_files(history: History, home: Path, requests: Sequence[ExplainRequest]) -> Row:
    """Compare the files related to a file, with its owners, with `git blame` of the whole file."""
    ratios: list[float] = []
    times: list[float] = []
    files = [request.file for request in requests[: RELATED_ROUNDS + 1]]
    for file in files:
        start_time = time.perf_counter()
        run_git_bytes(history.path, "blame", "--porcelain", "--", file)
        git_seconds = time.perf_counter() - start_time
        start_time = time.perf_counter()
        find_related_files(RelatedRequest(file), history.path, home)
        times.append(time.perf_counter() - start_time)
        ratios.append(times[-1] / git_seconds)
    del ratios[0], times[0]  # imports
    return Row(
        history.name,
        "dirty, indexed: related files / git blame of the file",
        compute_median(ratios),
        None,
        f"median {compute_median(times) * 1000:.0f} ms, slowest {max(times) * 1000:.0f} ms",
    )


def _measure_evolution(history: History, home: Path, requests: Sequence[ExplainRequest]) -> Iterator[Row]:
    """Compare a first answer with the evolution of lines with `git blame` of the same lines."""
    for count in EVOLUTION_LINES:
        ratios: list[float] = []
        times: list[float] = []
        for request in requests[:EVOLUTION_ROUNDS]:
            lines = replace(request, line_end=request.line_start + count - 1, include_evolution=True)
            last = _count_lines(history, request.file)
            blame_range = f"-L{lines.line_start},{min(lines.line_end, last)}"
            start_time = time.perf_counter()
            run_git_bytes(history.path, "blame", "--porcelain", blame_range, "--", request.file)
            git_seconds = time.perf_counter() - start_time
            _, seconds = _explain(history, Explainer(home), lines)
            ratios.append(seconds / git_seconds)
            times.append(seconds)
        yield Row(
            history.name,
            f"dirty, indexed: first answer with the evolution of {count} lines / git blame",
            compute_median(ratios),
            None,
            f"median {compute_median(times) * 1000:.0f} ms, slowest {max(times) * 1000:.0f} ms",
        )


def _count_lines(history: History, file: str) -> int:
    content = (history.path / file).read_bytes()
    return content.count(b"\n") + (not content.endswith(b"\n"))


def _measure_state(
    history: History, state: str, home: Path, requests: Sequence[ExplainRequest], generator: random.Random
) -> Iterator[Row]:
    explainer = Explainer(home)
    comparisons = [_compare_with_git(history, explainer, request) for request in requests]
    line_count = sum(len(comparison.git_blame.lines) for comparison in comparisons)
    hit_count = sum(len(comparison.answer.hits) for comparison in comparisons)
    yield Row(
        history.name,
        f"{state}lines with another commit than in git blame",
        sum(map(_count_disagreements, comparisons)),
        0,
        f"{len(comparisons)} ranges, {line_count} lines, {hit_count} hits",
    )
    yield Row(
        history.name,
        f"{state}hits in another order",
        sum(_count_unordered(history, comparison) for comparison in comparisons),
        0,
        "",
    )
    wrong = [
        hit
        for comparison in comparisons
        for hit in comparison.answer.hits
        if not _is_shown_by_git(history, comparison, hit)
    ]
    detail = ", ".join(f"{hit.commit_sha[:10]} {hit.file_path}" for hit in wrong[:3])
    yield Row(history.name, f"{state}paths or excerpts that git does not show", len(wrong), 0, detail)
    yield _create_first_answer_row(history, state, comparisons)
    yield from _measure_repeated_answers(history, state, explainer, comparisons, generator)


def _create_first_answer_row(history: History, state: str, comparisons: Sequence[Comparison]) -> Row:
    ratios = [
        comparison.seconds / (GIT_SHARE * comparison.git_seconds + ALLOWANCE_SECONDS)
        for comparison in comparisons
    ]
    answer_seconds, git_seconds = (
        compute_median([comparison.seconds for comparison in comparisons]),
        compute_median([comparison.git_seconds for comparison in comparisons]),
    )
    return Row(
        history.name,
        f"{state}first answer / ({GIT_SHARE} x git blame + 30 ms)",
        compute_median(ratios),
        1,
        f"{answer_seconds * 1000:.0f} ms, git blame {git_seconds * 1000:.0f} ms",
    )


def _measure_repeated_answers(
    history: History,
    state: str,
    explainer: Explainer,
    comparisons: Sequence[Comparison],
    generator: random.Random,
) -> Iterator[Row]:
    """Repeat every request twice in random order, with a cache large enough for all."""
    times: list[float] = []
    differences = 0
    cached_explainer = Explainer(explainer.home, _answers=BoundedCache(max_entries=len(comparisons)))
    for _ in range(3):
        for comparison in generator.sample(comparisons, len(comparisons)):
            answer, seconds = _explain(history, cached_explainer, comparison.request)
            times.append(seconds)
            differences += answer != comparison.answer
    yield Row(history.name, f"{state}repeated answers that differ", differences, 0, f"of {len(times)}")
    warm = compute_median(times[len(comparisons) :])
    yield Row(
        history.name, f"{state}repeated answer, seconds", warm, REPEATED_SECONDS, f"{warm * 1000:.1f} ms"
    )


def _generate_requests(
    history: History, generator: random.Random, count: int, *, dirty: bool
) -> Iterator[ExplainRequest]:
    files = [name for name in run_git_bytes(history.path, "ls-files", "-z").split(b"\0") if name]
    changed_files: set[bytes] = set()
    while count:
        name = generator.choice(files)
        file = history.path / os.fsdecode(name)
        content = file.read_bytes() if file.is_file() and not file.is_symlink() else b""
        if not content or b"\0" in content[:8000]:
            continue
        if dirty and name not in changed_files:
            content = _edit_randomly(content, generator)
            file.write_bytes(content)
            changed_files.add(name)
        line_count = content.count(b"\n") + (not content.endswith(b"\n"))
        start = generator.randint(1, line_count)
        count -= 1
        yield ExplainRequest(
            os.fsdecode(name), start, min(line_count, start + generator.randrange(MAX_LINES))
        )


def _edit_randomly(content: bytes, generator: random.Random) -> bytes:
    """Change, delete or insert a line at every tenth line."""
    lines = content.split(b"\n")
    for index in sorted(generator.sample(range(len(lines)), max(1, len(lines) // 10)), reverse=True):
        lines[index : index + 1] = generator.choice(
            ([], [lines[index] + b" changed"], [lines[index], b"a new line"])
        )
    return b"\n".join(lines) or b"\n"


def _compare_with_git(history: History, explainer: Explainer, request: ExplainRequest) -> Comparison:
    lines = f"-L{request.line_start},{request.line_end}"
    start_time = time.perf_counter()
    porcelain = run_git_bytes(history.path, "blame", "--porcelain", lines, "--", request.file)
    git_seconds = time.perf_counter() - start_time
    answer, seconds = _explain(history, explainer, request)
    return Comparison(request, parse_porcelain(porcelain), git_seconds, answer, seconds)


def _explain(history: History, explainer: Explainer, request: ExplainRequest) -> tuple[ExplainAnswer, float]:
    start_time = time.perf_counter()
    answer = explainer.explain(request, history.path)
    return answer, time.perf_counter() - start_time


def _count_disagreements(comparison: Comparison) -> int:
    git_shas = {
        line.number: line.origin.commit_sha if line.is_committed else None
        for line in comparison.git_blame.lines
    }
    answer_shas = {line.number: line.commit_sha for line in comparison.answer.lines}
    hit_shas = {number: hit.commit_sha for hit in comparison.answer.hits for number in hit.blame_lines}
    unique_count = len({sha for sha in git_shas.values() if sha})
    wrong = sum(answer_shas.get(number) != sha for number, sha in git_shas.items())
    wrong += sum(git_shas.get(number) != sha for number, sha in hit_shas.items())
    return (
        wrong
        + (len(answer_shas) != len(git_shas))
        + (comparison.answer.meta.explain.commits_unique != unique_count)
    )


def _count_unordered(history: History, comparison: Comparison) -> int:
    """Count adjacent hits that are not newest first, or with equal dates have a parent before its child."""
    pairs = list(pairwise(comparison.answer.hits))
    wrong = sum(earlier.commit_date < later.commit_date for earlier, later in pairs)
    tied = [(one, other) for one, other in pairs if one.commit_date == other.commit_date]
    return wrong + sum(_is_ancestor(history, one.commit_sha, other.commit_sha) for one, other in tied)


def _is_ancestor(history: History, older: str, newer: str) -> bool:
    return not run_git_bytes(history.path, "rev-list", "-1", older, f"^{newer}")


def _is_shown_by_git(history: History, comparison: Comparison, hit: ExplainHit) -> bool:
    """Check that every part of the excerpt is in the commit's diff of that file as printed by `git show`."""
    lines = [line for line in comparison.git_blame.lines if line.origin.commit_sha == hit.commit_sha]
    origin = find_main_origin(lines)
    if os.fsencode(hit.file_path) != origin.path or tuple(line.number for line in lines) != hit.blame_lines:
        return False
    diff = run_git_bytes(
        history.path, "show", "--format=", "-m", "-M", "--no-ext-diff", "--no-textconv", hit.commit_sha
    )
    if origin.previous:  # `git show` may not report a rename that blame follows
        before, path = origin.previous
        diff += run_git_bytes(
            history.path,
            "diff",
            before + ":" + os.fsdecode(path),
            hit.commit_sha + ":" + os.fsdecode(origin.path),
        )
    text = "\n".join(truncate_line(line) for line in diff.decode("utf-8", "replace").split("\n"))
    runs = (hit.diff_excerpt or "").removesuffix("\n").split("\n@@ ")
    bodies = [run.partition("\n")[2] for run in runs]
    return bool(hit.diff_excerpt) and all(f"\n{body}" in text for body in bodies)


def _build_index(history: History, home: Path) -> Path:
    """Create a LINEAGE_HOME with the index (without vectors, which explanations do not use) and the commit-graph."""
    run_lineage(home, "index", history.path, "--no-progress", "--skip-vectors", memory=False)
    repository = open_repository(history.path)
    commit_graph.refresh(repository, locate_index(home, repository).git_directory)
    return home


if __name__ == "__main__":
    main(measure, __doc__ or "")
