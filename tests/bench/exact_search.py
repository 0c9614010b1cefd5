"""Benchmark of exact search, relative to `git log -S` and `git log -G`.

python -m tests.bench.exact_search CLONE...

The index has no vectors, which exact search does not use. A search in this process includes opening the index; the
whole process also includes starting Python.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from serve.commit_types import ChangeSearchRequest
from serve.search.exact_search import search_changes
from tests.bench.histories import clone_history
from tests.bench.programs import run_git_bytes, run_lineage
from tests.bench.report import BenchmarkOptions, Row, compute_median, main
from tests.eval.exact_search import SampledPattern, sample_patterns

PATTERNS: Final = 20
SEED: Final = 7
# Upper bound of a search. A whole process has none: Python and the database take 0.3 s to start, whatever the history.
SEARCH_RATIO: Final = 0.5


def measure(clone: Path, folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    """Return the rows of one clone: texts, expressions, and texts as whole processes."""
    history = clone_history(clone, folder / "clone", options.commits)
    home = folder / "home"
    run_lineage(home, "index", history.path, "--skip-vectors", "--no-progress")
    patterns = sample_patterns(history.path, PATTERNS * 5, SEED)
    texts = [pattern for pattern in patterns if not pattern.is_regex]
    random.Random(SEED).shuffle(texts)  # noqa: S311 - repeatable choice, nothing secret
    expressions = [pattern for pattern in patterns if pattern.is_regex]

    def run_git(pattern: SampledPattern) -> None:
        option = f"-{'G' if pattern.is_regex else 'S'}{pattern.text}"
        run_git_bytes(history.path, "log", option, "--format=%H")

    def search(pattern: SampledPattern) -> None:
        search_changes(ChangeSearchRequest(pattern.text, pattern.is_regex), history.path, home)

    def run_command(pattern: SampledPattern) -> None:
        run_lineage(home, "grep", "--", pattern.text, history.path, memory=False)

    search(texts[0])  # imports what the first search needs
    cases = (
        ("lineage grep TEXT in this process, x git log -S", search, texts, SEARCH_RATIO),
        ("lineage grep --regex in this process, x git log -G", search, expressions, SEARCH_RATIO),
        ("lineage grep TEXT, whole process, x git log -S", run_command, texts, None),
    )
    return [
        _compare(history.name, title, run, run_git, sample[:PATTERNS], bound)
        for title, run, sample, bound in cases
    ]


def _compare(
    name: str,
    title: str,
    run: Callable[[SampledPattern], None],
    run_git: Callable[[SampledPattern], None],
    patterns: Sequence[SampledPattern],
    bound: float | None,
) -> Row:
    """Return the row of a case: the ratio of the medians, timed in turns."""
    seconds: list[float] = []
    git_seconds: list[float] = []
    for pattern in patterns:
        for timed, times in ((run, seconds), (run_git, git_seconds)):
            started = time.perf_counter()
            timed(pattern)
            times.append(time.perf_counter() - started)
    median, git_median = compute_median(seconds), compute_median(git_seconds)
    detail = f"{median * 1000:.0f} ms, git {git_median * 1000:.0f} ms; {len(patterns)} patterns"
    return Row(name, title, median / git_median, bound, detail)


if __name__ == "__main__":
    main(measure, __doc__ or "")
