"""Tests of `tests.bench.histories`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.histories import (
    add_commit,
    clone_history,
    create_uniform_history,
    create_wide_history,
    measure_pack,
)
from tests.repos import Repo


def test_clone_history(tmp_path: Path) -> None:
    """A clone is reset to the newest first-parent commit that reaches at most the given commits."""
    repo = Repo.create(tmp_path / "project.git")
    for number in range(4):
        repo.commit_file("a.py", f"a = {number}\n")
    repo.branch("side")
    repo.commit_file("b.py", "b = 1\n")
    repo.switch("main")
    repo.merge("side")
    assert [
        clone_history(repo.path, tmp_path / f"{max_commits}", max_commits).commit_count
        for max_commits in (3, 5, 6)
    ] == [
        3,
        4,
        6,
    ]
    assert clone_history(repo.path, tmp_path / "whole").name == "project"
    assert measure_pack(repo.path, tmp_path / "fresh") > 0


def test_create_wide_history(tmp_path: Path) -> None:
    """The wide history has the given files, parses, and is deterministic."""
    first, second = (create_wide_history(tmp_path / name, files=60) for name in ("one", "two"))
    files = sorted(first.path.rglob("*.py"))
    assert len(files) == 60
    assert all(compile(file.read_bytes(), file, "exec") for file in files)
    assert Repo(first.path).head == Repo(second.path).head


def test_create_uniform_history(tmp_path: Path) -> None:
    """The uniform history keeps its file sizes, parses, and is deterministic."""
    short, long, again = (
        create_uniform_history(tmp_path / str(index), commits) for index, commits in enumerate((2, 30, 30))
    )
    sizes = [sum(file.stat().st_size for file in one.path.glob("*.py")) for one in (short, long)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.05)
    assert all(compile(file.read_bytes(), file, "exec") for file in long.path.glob("*.py"))
    assert Repo(long.path).git("rev-list", "--count", "HEAD") == "30"
    assert Repo(long.path).head == Repo(again.path).head


def test_add_commit(tmp_path: Path) -> None:
    """The added commit changes one source file."""
    history = create_wide_history(tmp_path, files=3)
    add_commit(history, 1)
    assert Repo(tmp_path).git("show", "--format=", "--name-only") == "part000/module0001.py"
