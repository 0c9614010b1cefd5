"""Where the program starts: a run that a hook started and nobody needs leaves before anything is loaded."""

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
from serve.cli.entry import HOOKS_WORDS, LEAVES, another_waits
from serve.setup.git_hooks import BLOCK
from stores import database, history, locks
from stores.index_location import Place
from stores.locks import closing, opened, took
from tests.pipeline.histories import place
from tests.repos import Repo

ROOT = Path(__file__).parents[3]


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:  # noqa: ARG001 - no test may meet the person's own indexes
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "x = 1\n", "First")
    main(["index", str(repo.path)])
    return repo


@pytest.fixture
def awaited(repo: Repo, home: Path) -> Iterator[Place]:
    """The index, while somebody waits for the run at work."""
    here = place(repo, home)
    with closing(opened(locks.waiting_place(here, git_dir(repo)))) as waiting:
        assert took(waiting, fcntl.LOCK_EX)
        yield here


def git_dir(repo: Repo) -> Path:
    return open_repository(repo.path).git_dir


def start(repo: Repo, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "serve.cli.entry", *arguments],
        cwd=repo.path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


@pytest.mark.usefixtures("awaited")
def test_a_run_that_is_not_needed_loads_nothing(repo: Repo) -> None:
    """Where another waits it says so and is gone, without the command line's library or git's."""
    done = start(repo, *HOOKS_WORDS)
    assert done.stdout == f"{LEAVES}\n"
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not loaded & {"typer", "pygit2", "duckdb", "numpy", "serve.cli.app"}


def test_otherwise_it_is_the_command(repo: Repo) -> None:
    """With nobody waiting, or with other words, the command runs as ever."""
    assert start(repo, *HOOKS_WORDS).stdout == f"index up-to-date at {repo.head}\n"
    assert start(repo, "--version").stdout.startswith("lineage ")


def test_it_knows_the_index_of_every_kind_of_work_tree(repo: Repo, home: Path, tmp_path: Path) -> None:
    """A linked work tree and one whose git directory is elsewhere are found as the command finds them."""
    repo.git("worktree", "add", "--quiet", str(tmp_path / "linked"))
    (tmp_path / "apart").mkdir()
    Repo(tmp_path / "apart").git("init", "--quiet", "--separate-git-dir", str(tmp_path / "git"))
    Repo(tmp_path / "apart").commit_file("b.py", "y = 1\n")
    main(["index", str(tmp_path / "apart")])
    for root in (repo.path, tmp_path / "linked", tmp_path / "apart"):
        assert not another_waits(root)
        one = Repo(root)
        with closing(opened(locks.waiting_place(place(one, home), git_dir(one)))) as waiting:
            assert took(waiting, fcntl.LOCK_EX)
            assert another_waits(root)


def test_who_waits_elsewhere_is_not_waited_for(repo: Repo, home: Path, tmp_path: Path) -> None:
    """A run that waits in one work tree takes up nothing of another, whose own run waits beside it."""
    linked = Repo(tmp_path / "linked")
    repo.git("worktree", "add", "--quiet", "-b", "linked", str(linked.path))
    linked.commit_file("b.py", "y = 1\n", "In the linked work tree")
    with ExitStack() as stack:
        with locks.sole_run(place(repo, home)):
            waiting = [stack.enter_context(waits(linked))]
            repo.commit_file("c.py", "z = 1\n", "In the main one")
            waiting.append(stack.enter_context(waits(repo)))
            assert start(repo, *HOOKS_WORDS).stdout == start(linked, *HOOKS_WORDS).stdout == f"{LEAVES}\n"
        assert [process.communicate(timeout=60)[0][:10] for process in waiting] == ["indexed in"] * 2
    with database.reading(place(repo, home)) as connection:
        assert {repo.head, linked.head} <= set(history.all_recorded(connection))


@contextmanager
def waits(repo: Repo) -> Iterator[subprocess.Popen[str]]:
    """A hook's run that has said that it waits."""
    command = [sys.executable, "-m", "serve.cli.entry", *HOOKS_WORDS]
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


def test_where_it_cannot_tell_nobody_waits(repo: Repo, tmp_path: Path) -> None:
    """Without a repository, without an index, with a `.git` that says nothing: the command has to look."""
    assert not another_waits(tmp_path)
    assert not another_waits(Repo.create(tmp_path / "new").path)
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / ".git").write_bytes(b"\xff")
    assert not another_waits(tmp_path / "odd")
    assert not another_waits(repo.path)


def test_the_hooks_say_these_words() -> None:
    """What it listens for is what the hooks' block calls."""
    assert f"lineage {' '.join(HOOKS_WORDS)}\n".encode() in BLOCK
