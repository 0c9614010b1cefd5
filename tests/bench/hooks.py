"""Benchmark of `git commit` with and without the hooks of `lineage init`.

python -m tests.bench.hooks CLONE...

Pairs of commits without and with hooks are timed; the next pair starts when the index run has ended. Then
consecutive commits are made, as by a script, while the index run of the first is active. Last, a run that finds
another one queued is timed.
"""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pipeline.git.repository import open_repository
from serve.cli.entry import HOOK_ARGUMENTS
from serve.repositories import locate_index
from serve.setup.init import InitOptions, initialize
from stores import locks
from stores.locks import close_finally, open_lock_file, try_lock
from tests.bench.histories import History, clone_history
from tests.bench.programs import build_program_environment, run_lineage
from tests.bench.report import BenchmarkOptions, Row, compute_median, main
from tests.repos import Repo
from tests.serve.setup.hook_helpers import find_index_runs, install_real_lineage, is_head_indexed

MAX_ADDED_SECONDS: Final = 0.05
# A commit takes a few milliseconds, so a stable median needs more rounds.
ROUNDS_PER_RUN: Final = 4
CONSECUTIVE_COMMITS: Final = 20
# Processor time, about as long as Python takes to start.
MAX_QUEUED_SECONDS: Final = 0.15
# Limit on the time without an index run until HEAD is indexed. A hook returns before its run is in the process list.
MAX_START_SECONDS: Final = 60
MAX_RUN_SECONDS: Final = 600
POLL_SECONDS: Final = 0.05

NO_HOOKS: Final = ("-c", f"core.hooksPath={os.devnull}")
COMMIT: Final = ("commit", "--quiet", "--allow-empty", "--message=One more")


def measure(clone: Path, folder: Path, options: BenchmarkOptions) -> Sequence[Row]:
    """Return the rows of one clone; its index is built first, untimed."""
    history, home = clone_history(clone, folder / "clone", options.commits), folder / "home"
    run_lineage(home, "index", history.path, "--no-progress")
    initialize(history.path, InitOptions())
    program_folder = install_real_lineage(folder / "bin").parent
    return [
        measure_single_commits(history, home, program_folder, options.runs * ROUNDS_PER_RUN),
        measure_consecutive_commits(history, home, program_folder),
        measure_queued_run(history, home, options.runs),
    ]


def measure_single_commits(history: History, home: Path, program_folder: Path, rounds: int) -> Row:
    """Measure the time that hooks add to a commit while nothing else runs."""
    without_hooks, with_hooks = [], []
    for _ in range(rounds):
        without_hooks.append(_commit(history, home, program_folder, *NO_HOOKS))
        with_hooks.append(_commit(history, home, program_folder))
        _wait_until_indexed(history, home, program_folder)
    median_with, median_without = compute_median(with_hooks), compute_median(without_hooks)
    detail = f"{1000 * median_with:.1f} ms with, {1000 * median_without:.1f} ms without, {rounds} of each"
    return Row(
        history.name,
        "git commit, seconds more with hooks",
        median_with - median_without,
        MAX_ADDED_SECONDS,
        detail,
    )


def measure_consecutive_commits(history: History, home: Path, program_folder: Path) -> Row:
    """Measure the time that hooks add to consecutive commits, each of which starts a run."""
    without_hooks = compute_median(
        [_commit(history, home, program_folder, *NO_HOOKS) for _ in range(CONSECUTIVE_COMMITS)]
    )
    with_hooks = compute_median([_commit(history, home, program_folder) for _ in range(CONSECUTIVE_COMMITS)])
    _wait_until_indexed(history, home, program_folder)
    detail = f"{1000 * with_hooks:.1f} ms with, {1000 * without_hooks:.1f} ms without, {CONSECUTIVE_COMMITS} in a row"
    return Row(
        history.name, "the same, commits in a row", with_hooks - without_hooks, MAX_ADDED_SECONDS, detail
    )


def measure_queued_run(history: History, home: Path, rounds: int) -> Row:
    """Measure the processor time of a run that exits because another is queued."""
    repository = open_repository(history.path)
    lock_path = locks.get_queue_lock_path(locate_index(home, repository), repository.git_dir)
    with close_finally(open_lock_file(lock_path)) as queue_lock:
        assert try_lock(queue_lock, fcntl.LOCK_EX)
        times = [_run_queued_hook(history, home) for _ in range(rounds)]
    return Row(
        history.name,
        "a run that finds another queued, processor seconds",
        compute_median(times),
        MAX_QUEUED_SECONDS,
        f"{min(times):.2f}-{max(times):.2f} s",
    )


def _run_queued_hook(history: History, home: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = (sys.executable, "-P", "-m", "serve.cli.entry", *HOOK_ARGUMENTS)
    environment = build_program_environment(home)
    subprocess.run(command, cwd=history.path, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _commit(history: History, home: Path, program_folder: Path, *options: str) -> float:
    environment = build_program_environment(home)
    environment["PATH"] = os.pathsep.join([str(program_folder), environment["PATH"]])
    start_time = time.perf_counter()
    subprocess.run(["git", *options, *COMMIT], cwd=history.path, env=environment, check=True)
    return time.perf_counter() - start_time


def _wait_until_indexed(history: History, home: Path, program_folder: Path) -> None:
    """Wait until HEAD is indexed and no index run is active."""
    repo, start_time = Repo(history.path), time.monotonic()
    quiet_since = start_time
    while (is_running := bool(find_index_runs(program_folder))) or not is_head_indexed(repo, home):
        now = time.monotonic()
        quiet_since = now if is_running else quiet_since
        assert now - quiet_since < MAX_START_SECONDS, "HEAD was not indexed"
        assert now - start_time < MAX_RUN_SECONDS, "a run did not end"
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    main(measure, __doc__ or "")
