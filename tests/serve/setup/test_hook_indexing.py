"""End-to-end test of git, its hooks and the real program: the index follows HEAD with few processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from serve.index_status import load_status_at_path
from serve.setup.init import InitOptions, initialize
from tests.repos import Repo
from tests.serve.setup.hook_helpers import (
    find_index_runs,
    install_real_lineage,
    is_head_indexed,
    run_git,
    wait_until,
)

REBASED_COMMITS = 30


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:  # noqa: ARG001 - keeps tests away from the user's indexes
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "x = 1\n", "First")
    initialize(repo.path, InitOptions())
    return repo


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return install_real_lineage(tmp_path / "bin").parent


def test_each_git_operation_is_indexed(repo: Repo, home: Path, program: Path) -> None:
    """After a commit, an amended commit, a switch and a merge the index is at HEAD."""
    repo.branch("side")
    repo.switch("main")
    for command in (
        ("commit", "--allow-empty", "--message=Second"),
        ("commit", "--allow-empty", "--amend", "--message=Again"),
        ("switch", "side"),
        ("merge", "--no-ff", "main"),
    ):
        run_git(repo, *command, path=program)
        assert wait_until(lambda: is_head_indexed(repo, home)), command
    assert wait_until(lambda: not find_index_runs(program))


def test_rebase_starts_at_most_three_runs(repo: Repo, home: Path, program: Path) -> None:
    """However many commits a rebase picks, it starts at most three runs, and HEAD is indexed at the end.

    These runs follow the first checkout of the rebase, its last checkout, and its end.
    """
    repo.branch("side")
    for number in range(REBASED_COMMITS):
        repo.commit_file(f"b{number}.py", f"def f{number}():\n    pass\n")
    repo.switch("main")
    repo.commit_file("c.py", "z = 1\n", "Third")
    repo.switch("side")
    with _collect_runs(program) as process_ids:
        run_git(repo, "rebase", "--quiet", "main", path=program)
        assert wait_until(lambda: is_head_indexed(repo, home) and not find_index_runs(program))
    assert 1 <= len(process_ids) <= 3
    assert load_status_at_path(repo.path, home)[1].commits_behind == 0


def test_consecutive_commits_are_all_indexed(repo: Repo, home: Path, program: Path) -> None:
    """Commits made during a run are all indexed in the end."""
    for number in range(8):
        run_git(repo, "commit", "--quiet", "--allow-empty", f"--message=Number {number}", path=program)
    assert wait_until(lambda: is_head_indexed(repo, home) and not find_index_runs(program))
    assert load_status_at_path(repo.path, home)[1].commits == 9


def test_waiting_run_continues_after_a_kill(repo: Repo, home: Path, program: Path) -> None:
    """If the run of a commit is killed with -9, the run of the next commit indexes both."""
    run_git(repo, "commit", "--quiet", "--allow-empty", "--message=Second", path=program)
    pids: list[int] = []

    def has_started() -> bool:
        pids.extend(find_index_runs(program))
        return bool(pids)

    assert wait_until(has_started)
    first_pid = pids[0]
    os.kill(first_pid, signal.SIGSTOP)  # so that it does not finish before the next run starts
    try:
        run_git(repo, "commit", "--quiet", "--allow-empty", "--message=Third", path=program)
        assert wait_until(lambda: len(find_index_runs(program)) == 2)
    finally:
        os.kill(first_pid, signal.SIGKILL)
    assert wait_until(lambda: is_head_indexed(repo, home) and not find_index_runs(program))
    assert load_status_at_path(repo.path, home)[1].commits == 3


@contextmanager
def _collect_runs(program: Path) -> Iterator[set[int]]:
    """Look for index runs every 10 ms, and collect their process ids."""
    process_ids: set[int] = set()
    stopped = threading.Event()

    def sample() -> None:
        while not stopped.is_set():
            process_ids.update(find_index_runs(program))
            time.sleep(0.01)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield process_ids
    finally:
        stopped.set()
        thread.join()
