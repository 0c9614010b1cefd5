"""Runs of the git program, and the commit-graph that it uses."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from pipeline.git import commit_graph
from pipeline.git.git_cli import GitNotFound
from pipeline.git.repository import open_repository
from tests.repos import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / 'with "quotes": and \\')
    for number in range(5):
        repo.commit_file("a.py", f"{number}\n")
    return repo


def test_git_uses_the_commit_graph(repo: Repo, tmp_path: Path) -> None:
    """The graph is valid and covers HEAD's history, and the repository is unchanged."""
    before = sorted((repo.path / ".git").rglob("*"))
    repository, folder = open_repository(repo.path), tmp_path / "graph"
    commit_graph.refresh(repository, folder)
    git = commit_graph.create_git_program(repository, folder)
    assert git.run("commit-graph", "verify", f"--object-dir={folder}").exit_code == 0
    assert (folder / "info" / "commit-graph").stat().st_size > 1_000
    assert git.run("rev-list", "HEAD").stdout.decode().split() == repo.git("rev-list", "HEAD").split()
    assert git.run("cat-file", "-p", "HEAD:a.py").stdout == b"4\n"
    assert sorted((repo.path / ".git").rglob("*")) == before


def test_a_stale_graph_is_rewritten(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph is rewritten if it lacks many commits or its tip is gone, but not if it lacks a few."""
    folder, tip = tmp_path / "graph", tmp_path / "graph" / "tip"
    commit_graph.refresh(open_repository(repo.path), folder)
    old = repo.head
    new = repo.commit_file("a.py", "new\n")
    commit_graph.refresh(open_repository(repo.path), folder)
    assert tip.read_text() == old
    monkeypatch.setattr(commit_graph, "MAX_MISSING_COMMITS", 1)
    commit_graph.refresh(open_repository(repo.path), folder)
    assert tip.read_text() == new
    tip.write_text("0" * 40)
    commit_graph.refresh(open_repository(repo.path), folder)
    assert tip.read_text() == new


def test_a_stale_lock_is_removed(repo: Repo, tmp_path: Path) -> None:
    """git's lock file prevents writing only until it is old."""
    folder = tmp_path / "graph"
    lock = folder / "info" / "commit-graph.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    commit_graph.refresh(open_repository(repo.path), folder)
    assert lock.exists() and not (folder / "info" / "commit-graph").exists()
    before = time.time() - commit_graph.STALE_LOCK_SECONDS - 1
    os.utime(lock, (before, before))
    commit_graph.refresh(open_repository(repo.path), folder)
    assert not lock.exists() and (folder / "info" / "commit-graph").exists()


def test_git_is_killed_after_the_timeout(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git and its child processes are killed, no lock is left, and the same history is not tried again."""
    folder, pids = tmp_path / "graph", tmp_path / "pids"
    script = tmp_path / "bin" / "git"
    script.parent.mkdir()
    script.write_text(
        f"#!/bin/sh\ncase $* in *commit-graph*) ;; *) exit 0 ;; esac\n"
        f"touch '{folder}/info/commit-graph.lock'\nsleep 300 &\necho $! >> '{pids}'\nwait\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(commit_graph, "SMALL_HISTORY_SECONDS", 1.0)
    started = time.monotonic()
    for _ in range(2):
        commit_graph.refresh(open_repository(repo.path), folder)
    assert time.monotonic() - started < 10
    [child] = pids.read_text().split()
    assert has_ended(int(child))
    assert not (folder / "info" / "commit-graph.lock").exists()


def has_ended(pid: int) -> bool:
    """Wait up to 5 seconds until a process has ended or is a zombie."""
    for _ in range(100):
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False).stdout
        if not state.strip() or state.startswith(b"Z"):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("content", [b"", b"nonsense", b"CGPH" + b"\xff" * 3_000])
def test_a_damaged_graph_changes_no_answer(repo: Repo, tmp_path: Path, content: bytes) -> None:
    """With a damaged graph git is only slower."""
    repository, folder = open_repository(repo.path), tmp_path / "graph"
    commit_graph.refresh(repository, folder)
    (folder / "info" / "commit-graph").chmod(0o600)
    (folder / "info" / "commit-graph").write_bytes(content)
    output = commit_graph.create_git_program(repository, folder).run("blame", "--porcelain", "--", "a.py")
    assert (output.exit_code, output.stdout[:40].decode()) == (0, repo.head)


def test_a_shallow_clone_has_no_graph(repo: Repo, tmp_path: Path) -> None:
    """If git writes no graph, git works without one."""
    shallow = repo.clone(tmp_path / "shallow", "--depth=2")
    repository, folder = open_repository(shallow.path), tmp_path / "graph"
    commit_graph.refresh(repository, folder)
    assert (
        commit_graph.create_git_program(repository, folder).run("rev-list", "--count", "HEAD").stdout
        == b"2\n"
    )


def test_an_empty_repository_has_no_graph(tmp_path: Path) -> None:
    """In a repository without commits no graph is written."""
    repo = Repo.create(tmp_path / "repo")
    commit_graph.refresh(open_repository(repo.path), tmp_path / "graph")
    assert not (tmp_path / "graph").exists()


def test_git_is_missing(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a git program the error says so."""
    git = commit_graph.create_git_program(open_repository(repo.path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GitNotFound, match="git was not found"):
        git.run("version")


def test_a_running_git_is_killed_on_exit(repo: Repo) -> None:
    """Leaving the `with` block kills git."""
    git = commit_graph.create_git_program(open_repository(repo.path))
    started = time.monotonic()
    with (
        pytest.raises(KeyboardInterrupt),
        git.start("cat-file", "--batch-all-objects", "--batch") as running,
    ):
        raise KeyboardInterrupt
    assert running.process.returncode is not None
    assert time.monotonic() - started < 5
