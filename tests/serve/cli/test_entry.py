"""Entry point of `lineage`: the fast path for index runs started by git hooks."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import PIPE

import pytest

from pipeline.git.repository import open_repository
from serve.cli.app import main
from serve.cli.entry import ALREADY_QUEUED_MESSAGE, HOOK_ARGUMENTS, is_index_run_queued
from serve.setup.git_hooks import HOOK_SNIPPET
from stores import database, history, locks
from stores.index_location import IndexLocation
from stores.locks import close_finally, open_lock_file, try_lock
from tests.pipeline.histories import get_location
from tests.repos import Repo

ROOT = Path(__file__).parents[3]


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:  # noqa: ARG001 - isolates the user's indexes
    """Indexed repository; `home` keeps the tests out of the user's indexes."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "x = 1\n", "First")
    main(["index", str(repo.path)])
    return repo


@pytest.fixture
def queued_run(repo: Repo, home: Path) -> Iterator[IndexLocation]:
    """Hold the queue lock of the index, as a waiting index run does."""
    location = get_location(repo, home)
    with close_finally(open_lock_file(locks.get_queue_lock_path(location, get_git_dir(repo)))) as queue_lock:
        assert try_lock(queue_lock, fcntl.LOCK_EX)
        yield location


def get_git_dir(repo: Repo) -> Path:
    """Return the git directory of the work tree."""
    return open_repository(repo.path).git_dir


def run_entry(repo: Repo, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the entry point with these arguments."""
    return subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "serve.cli.entry", *arguments],
        cwd=repo.path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


@pytest.mark.usefixtures("queued_run")
def test_queued_run_exits_light(repo: Repo) -> None:
    """If another run is queued, the entry point says so and imports neither typer nor pygit2."""
    result = run_entry(repo, *HOOK_ARGUMENTS)
    assert result.stdout == f"{ALREADY_QUEUED_MESSAGE}\n"
    loaded = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert not loaded & {"typer", "pygit2", "duckdb", "numpy", "serve.cli.app"}


def test_command_runs_otherwise(repo: Repo) -> None:
    """Without a queued run, or with other arguments, the command runs as usual."""
    assert run_entry(repo, *HOOK_ARGUMENTS).stdout == f"index up-to-date at {repo.head}\n"
    assert run_entry(repo, "--version").stdout.startswith("lineage ")


def test_finds_index_of_linked_and_separate_work_trees(repo: Repo, home: Path, tmp_path: Path) -> None:
    """The index is found from a linked work tree, and from a work tree with a separate git directory."""
    repo.git("worktree", "add", "--quiet", str(tmp_path / "linked"))
    (tmp_path / "apart").mkdir()
    Repo(tmp_path / "apart").git("init", "--quiet", "--separate-git-dir", str(tmp_path / "git"))
    Repo(tmp_path / "apart").commit_file("b.py", "y = 1\n")
    main(["index", str(tmp_path / "apart")])
    for root in (repo.path, tmp_path / "linked", tmp_path / "apart"):
        assert not is_index_run_queued(root)
        work_tree = Repo(root)
        with close_finally(
            open_lock_file(locks.get_queue_lock_path(get_location(work_tree, home), get_git_dir(work_tree)))
        ) as queue_lock:
            assert try_lock(queue_lock, fcntl.LOCK_EX)
            assert is_index_run_queued(root)


def test_queue_is_per_work_tree(repo: Repo, home: Path, tmp_path: Path) -> None:
    """A run queued in one work tree does not stop a run in another one."""
    linked = Repo(tmp_path / "linked")
    repo.git("worktree", "add", "--quiet", "-b", "linked", str(linked.path))
    linked.commit_file("b.py", "y = 1\n", "In the linked work tree")
    with ExitStack() as stack:
        with locks.acquire_run_lock(get_location(repo, home)):
            processes = [stack.enter_context(start_queued_run(linked))]
            repo.commit_file("c.py", "z = 1\n", "In the main one")
            processes.append(stack.enter_context(start_queued_run(repo)))
            assert (
                run_entry(repo, *HOOK_ARGUMENTS).stdout
                == run_entry(linked, *HOOK_ARGUMENTS).stdout
                == f"{ALREADY_QUEUED_MESSAGE}\n"
            )
        assert [process.communicate(timeout=60)[0][:10] for process in processes] == ["indexed in"] * 2
    with database.open_for_reading(get_location(repo, home)) as connection:
        assert {repo.head, linked.head} <= set(history.list_recorded_commits(connection))


@contextmanager
def start_queued_run(repo: Repo) -> Iterator[subprocess.Popen[str]]:
    """Run a hook's command until it says that it waits."""
    command = [sys.executable, "-m", "serve.cli.entry", *HOOK_ARGUMENTS]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=repo.path, env=environment, stdout=PIPE, stderr=PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            assert "Waiting for it" in process.stderr.readline()
            yield process
        finally:
            process.kill()


def test_unclear_state_counts_as_not_queued(repo: Repo, tmp_path: Path) -> None:
    """Without a repository or an index, or with a broken `.git` file, no run counts as queued."""
    assert not is_index_run_queued(tmp_path)
    assert not is_index_run_queued(Repo.create(tmp_path / "new").path)
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / ".git").write_bytes(b"\xff")
    assert not is_index_run_queued(tmp_path / "odd")
    assert not is_index_run_queued(repo.path)


def test_hooks_use_these_arguments() -> None:
    """The installed hooks call exactly the command line that the fast path expects."""
    assert f"lineage {' '.join(HOOK_ARGUMENTS)}\n".encode() in HOOK_SNIPPET
