"""The whole way: git, its hooks, the program; the index is at HEAD afterwards, and few processes saw to it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from serve.index_status import of_path
from serve.setup.init import Wishes, initialize
from tests.repos import Repo
from tests.serve.setup.hook_helpers import git, indexed_head, real, running, soon

PICKS = 30


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:  # noqa: ARG001 - no test may meet the person's own indexes
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "x = 1\n", "First")
    initialize(repo.path, Wishes())
    return repo


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return real(tmp_path / "bin").parent


def test_a_commit_is_indexed(repo: Repo, home: Path, program: Path) -> None:
    """A commit, an amended one, a switch and a merge: after each the index comes to where HEAD is."""
    repo.branch("side")
    repo.switch("main")
    for command in (
        ("commit", "--allow-empty", "--message=Second"),
        ("commit", "--allow-empty", "--amend", "--message=Again"),
        ("switch", "side"),
        ("merge", "--no-ff", "main"),
    ):
        git(repo, *command, path=program)
        assert soon(lambda: indexed_head(repo, home)), command
    assert soon(lambda: not running(program))


def test_a_rebase_leaves_two_processes_and_an_index_at_head(repo: Repo, home: Path, program: Path) -> None:
    """However many commits a rebase picks, two runs at most are there at any time, and HEAD is indexed at the end."""
    repo.branch("side")
    for number in range(PICKS):
        repo.commit_file(f"b{number}.py", f"def f{number}():\n    pass\n")
    repo.switch("main")
    repo.commit_file("c.py", "z = 1\n", "Third")
    repo.switch("side")
    with _most_at_once(program) as most:
        git(repo, "rebase", "--quiet", "main", path=program)
        assert soon(lambda: indexed_head(repo, home) and not running(program))
    assert 1 <= max(most) <= 2
    assert of_path(repo.path, home)[1].behind == 0


def test_commits_in_a_row(repo: Repo, home: Path, program: Path) -> None:
    """Commits while a run is at work are all found afterwards, by whichever run took them up."""
    for number in range(8):
        git(repo, "commit", "--quiet", "--allow-empty", f"--message=Number {number}", path=program)
    assert soon(lambda: indexed_head(repo, home) and not running(program))
    assert of_path(repo.path, home)[1].commits == 9


def test_the_one_that_waits_goes_on_after_a_kill(repo: Repo, home: Path, program: Path) -> None:
    """`kill -9` of the run that a commit started loses nothing: the next commit's run indexes both."""
    git(repo, "commit", "--quiet", "--allow-empty", "--message=Second", path=program)
    seen: list[int] = []

    def has_begun() -> bool:
        seen.extend(running(program))
        return bool(seen)

    assert soon(has_begun)
    first = seen[0]
    os.kill(first, signal.SIGSTOP)  # or it might be done before the next one is there
    try:
        git(repo, "commit", "--quiet", "--allow-empty", "--message=Third", path=program)
        assert soon(lambda: len(running(program)) == 2)
    finally:
        os.kill(first, signal.SIGKILL)
    assert soon(lambda: indexed_head(repo, home) and not running(program))
    assert of_path(repo.path, home)[1].commits == 3


@contextmanager
def _most_at_once(program: Path) -> Iterator[list[int]]:
    """How many runs there were, looked at again and again."""
    seen, ended = [0], threading.Event()

    def look() -> None:
        while not ended.is_set():
            seen.append(len(running(program)))
            time.sleep(0.01)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        ended.set()
        looking.join()
