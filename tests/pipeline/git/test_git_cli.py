"""The git program as this project runs it, and the commit-graph lent to it."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from pipeline.git import commit_graph
from pipeline.git.git_cli import GitMissing
from pipeline.git.repository import open_repository
from tests.repos import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / 'with "quotes": and \\')
    for number in range(5):
        repo.commit_file("a.py", f"{number}\n")
    return repo


def test_graph_is_lent(repo: Repo, tmp_path: Path) -> None:
    """The graph is git's own, holds all of HEAD's history, and leaves the repository as it was."""
    before = sorted((repo.path / ".git").rglob("*"))
    repository, folder = open_repository(repo.path), tmp_path / "lent"
    commit_graph.refresh(repository, folder)
    git = commit_graph.program(repository, folder)
    assert git.output("commit-graph", "verify", f"--object-dir={folder}").code == 0
    assert (folder / "info" / "commit-graph").stat().st_size > 1_000
    assert git.output("rev-list", "HEAD").out.decode().split() == repo.git("rev-list", "HEAD").split()
    assert git.output("cat-file", "-p", "HEAD:a.py").out == b"4\n"
    assert sorted((repo.path / ".git").rglob("*")) == before


def test_graph_is_made_again_when_it_lacks_much(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few commits more change nothing; many, or a tip that is gone, do."""
    folder, tip = tmp_path / "lent", tmp_path / "lent" / "tip"
    commit_graph.refresh(open_repository(repo.path), folder)
    old = repo.head
    new = repo.commit_file("a.py", "new\n")
    commit_graph.refresh(open_repository(repo.path), folder)
    assert tip.read_text() == old
    monkeypatch.setattr(commit_graph, "STALE_AFTER", 1)
    commit_graph.refresh(open_repository(repo.path), folder)
    assert tip.read_text() == new
    tip.write_text("0" * 40)
    commit_graph.refresh(open_repository(repo.path), folder)
    assert tip.read_text() == new


def test_a_lock_that_was_left_behind(repo: Repo, tmp_path: Path) -> None:
    """git's lock stops the making for as long as another git may be at work, and not for good."""
    folder = tmp_path / "lent"
    lock = folder / "info" / "commit-graph.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    commit_graph.refresh(open_repository(repo.path), folder)
    assert lock.exists() and not (folder / "info" / "commit-graph").exists()
    before = time.time() - commit_graph.ABANDONED_SECONDS - 1
    os.utime(lock, (before, before))
    commit_graph.refresh(open_repository(repo.path), folder)
    assert not lock.exists() and (folder / "info" / "commit-graph").exists()


def test_a_graph_that_git_never_finishes(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git is ended with all it started, leaves no lock, and is not asked again for the same history."""
    folder, asked = tmp_path / "lent", tmp_path / "asked"
    script = tmp_path / "bin" / "git"
    script.parent.mkdir()
    script.write_text(
        f"#!/bin/sh\ntouch '{folder}/info/commit-graph.lock'\nsleep 300 &\necho $! >> '{asked}'\nwait\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(commit_graph, "SMALL_SECONDS", 1.0)
    began = time.monotonic()
    for _ in range(2):
        commit_graph.refresh(open_repository(repo.path), folder)
    assert time.monotonic() - began < 10
    [child] = asked.read_text().split()
    assert _ended(int(child))
    assert not (folder / "info" / "commit-graph.lock").exists()


def _ended(number: int) -> bool:
    """Whether a process is no more, or waits for nothing but to be buried."""
    for _ in range(100):
        state = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(number)], capture_output=True, check=False
        ).stdout
        if not state.strip() or state.startswith(b"Z"):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("content", [b"", b"nonsense", b"CGPH" + b"\xff" * 3_000])
def test_damaged_graph(repo: Repo, tmp_path: Path, content: bytes) -> None:
    """A graph that is damaged costs its speed and nothing else."""
    repository, folder = open_repository(repo.path), tmp_path / "lent"
    commit_graph.refresh(repository, folder)
    (folder / "info" / "commit-graph").chmod(0o600)
    (folder / "info" / "commit-graph").write_bytes(content)
    done = commit_graph.program(repository, folder).output("blame", "--porcelain", "--", "a.py")
    assert (done.code, done.out[:40].decode()) == (0, repo.head)


def test_graph_of_a_shallow_clone(repo: Repo, tmp_path: Path) -> None:
    """Where git makes no graph, there is none, and git works without."""
    shallow = repo.clone(tmp_path / "shallow", "--depth=2")
    repository, folder = open_repository(shallow.path), tmp_path / "lent"
    commit_graph.refresh(repository, folder)
    assert commit_graph.program(repository, folder).output("rev-list", "--count", "HEAD").out == b"2\n"


def test_graph_without_commits(tmp_path: Path) -> None:
    """An empty repository has nothing to make a graph of."""
    repo = Repo.create(tmp_path / "repo")
    commit_graph.refresh(open_repository(repo.path), tmp_path / "lent")
    assert not (tmp_path / "lent").exists()


def test_git_is_missing(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a git program the error says so."""
    git = commit_graph.program(open_repository(repo.path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GitMissing, match="git was not found"):
        git.output("version")


def test_the_program_does_not_outlive_its_use(repo: Repo) -> None:
    """Whoever loses interest leaves no process behind."""
    git = commit_graph.program(open_repository(repo.path))
    began = time.monotonic()
    with (
        pytest.raises(KeyboardInterrupt),
        git.started("cat-file", "--batch-all-objects", "--batch") as running,
    ):
        raise KeyboardInterrupt
    assert running.process.returncode is not None
    assert time.monotonic() - began < 5
