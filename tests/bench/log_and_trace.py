"""Benchmark of `lineage log`, `lineage grep --range`, `lineage trace` and `lineage show`, relative to git.

python -m tests.bench.log_and_trace CLONE...

- `lineage log RANGE` is compared with `git log --name-only RANGE`, which reads the same commits and names of files.
- `lineage grep TEXT --range RANGE` is compared with `git log -S TEXT RANGE`.
- `lineage trace SYMBOL` is compared with `git log -L` of the lines that the symbol has at HEAD.
- `lineage show COMMIT` is compared with `git show COMMIT`, also for one file of the commit.

lineage runs in this process, after a call that imports what it needs.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from serve.analysis.range_summary import summarize_range
from serve.commit_types import ChangeSearchRequest, ShowRequest, TraceRequest
from serve.explain.show_commit import show_commit
from serve.search.exact_search import search_changes
from serve.trace.trace_symbol import trace_symbol
from tests.bench.histories import History, clone_history
from tests.bench.indexes import open_index
from tests.bench.programs import run_git_bytes, run_lineage
from tests.bench.report import BenchmarkOptions, Row, compute_median, main

# Commits of HEAD's first-parent line in each range.
RANGE_LENGTHS: Final = (20, 100, 500)
SEARCHED_TEXT: Final = "return"
SYMBOLS: Final = 20
SHOWN_COMMITS: Final = 20
SEED: Final = 7

# Two functions to time: of lineage, and of git.
Pair = tuple[Callable[[], object], Callable[[], object]]


def measure(clone: Path, folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    """Return the rows of one clone: two for each range, one for symbols, and two for commits."""
    history = clone_history(clone, folder / "clone", options.commits)
    home = folder / "home"
    run_lineage(home, "index", history.path, "--skip-vectors", "--no-progress")
    rows: list[Row] = []
    first_parents = int(run_git_bytes(history.path, "rev-list", "--first-parent", "--count", "HEAD"))
    for length in (length for length in RANGE_LENGTHS if length < first_parents):
        commit_range = f"HEAD~{length}..HEAD"
        commits = int(run_git_bytes(history.path, "rev-list", "--count", commit_range))
        for title, pair in _build_range_pairs(history.path, home, commit_range):
            rows.append(_compare(history.name, f"{title}; {commits} commits", [pair] * options.runs))
    if symbols := list(_build_symbol_pairs(history, home)):
        rows.append(_compare(history.name, f"lineage trace, x git log -L; {len(symbols)} symbols", symbols))
    for title, pairs in _build_commit_pairs(history, home):
        rows.append(_compare(history.name, f"{title}; {len(pairs)} commits", pairs))
    return rows


def _build_range_pairs(path: Path, home: Path, commit_range: str) -> Iterator[tuple[str, Pair]]:
    git = partial(run_git_bytes, path, "log")
    summarize = partial(summarize_range, commit_range, path, home, limit=5)
    yield "lineage log, x git log --name-only", (summarize, partial(git, "--name-only", commit_range))
    search = partial(
        search_changes, ChangeSearchRequest(SEARCHED_TEXT, commit_range=commit_range), path, home
    )
    yield "lineage grep --range, x git log -S", (search, partial(git, f"-S{SEARCHED_TEXT}", commit_range))


def _build_symbol_pairs(history: History, home: Path) -> Iterator[Pair]:
    """Yield the functions for random symbols of HEAD, each the only one of its name in its file."""
    with open_index(history.path, home) as index:
        symbols = index.sql(
            "SELECT file_path, name, any_value(start_line), any_value(end_line) FROM head_symbols "
            "WHERE parent = '' GROUP BY file_path, name HAVING count(*) = 1 ORDER BY ALL"
        ).fetchall()
    sample = random.Random(SEED).sample(symbols, min(SYMBOLS, len(symbols)))  # noqa: S311 - repeatable choice
    for file, name, start, end in sample:
        request = TraceRequest(f"{file}:{name}")
        yield (
            partial(trace_symbol, request, history.path, home),
            partial(run_git_bytes, history.path, "log", "--format=%H", f"-L{start},{end}:{file}"),
        )


def _build_commit_pairs(history: History, home: Path) -> Iterator[tuple[str, list[Pair]]]:
    """Yield the functions for random commits that change files, and for a random file of each of them."""
    git = partial(run_git_bytes, history.path)
    generator = random.Random(SEED)  # noqa: S311 - repeatable choice
    commits = git("rev-list", "--no-merges", "HEAD", "--", ".").decode().split()
    whole: list[Pair] = []
    single: list[Pair] = []
    for sha in generator.sample(commits, min(SHOWN_COMMITS, len(commits))):
        names = git("show", "--format=", "--name-only", "-z", sha).split(b"\0")
        file = os.fsdecode(generator.choice(names[:-1]))
        for pairs, request, options in (
            (whole, ShowRequest(sha), ()),
            (single, ShowRequest(sha, file), ("--", file)),
        ):
            pairs.append(
                (partial(show_commit, request, history.path, home=home), partial(git, "show", sha, *options))
            )
    yield "lineage show COMMIT, x git show", whole
    yield "lineage show COMMIT FILE, x git show", single


def _compare(name: str, title: str, pairs: Sequence[Pair]) -> Row:
    """Return a row with the ratio of the medians, timed in turns."""
    for run in pairs[0]:
        run()  # imports, and the caches of the system
    times = [(_time(run), _time(run_git)) for run, run_git in pairs]
    seconds, git_seconds = map(compute_median, zip(*times, strict=True))
    detail = f"{seconds * 1000:.0f} ms, git {git_seconds * 1000:.0f} ms"
    return Row(name, title, seconds / git_seconds, None, detail)


def _time(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


if __name__ == "__main__":
    main(measure, __doc__ or "")
