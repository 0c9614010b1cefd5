"""Histories to measure are what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.histories import add_commit, cut, even, pack_bytes, wide
from tests.repos import Repo


def test_cut(tmp_path: Path) -> None:
    """A clone is cut to the newest first-parent commit that reaches no more than asked for."""
    repo = Repo.create(tmp_path / "project.git")
    for number in range(4):
        repo.commit_file("a.py", f"a = {number}\n")
    repo.branch("side")
    repo.commit_file("b.py", "b = 1\n")
    repo.switch("main")
    repo.merge("side")
    assert [cut(repo.path, tmp_path / f"{most}", most).commits for most in (3, 5, 6)] == [3, 4, 6]
    assert cut(repo.path, tmp_path / "whole").name == "project"
    assert pack_bytes(repo.path, tmp_path / "fresh") > 0


def test_wide(tmp_path: Path) -> None:
    """A made history has the files asked for at HEAD, parses, and is the same every time."""
    first, second = (wide(tmp_path / name, files=60) for name in ("one", "two"))
    files = sorted(first.path.rglob("*.py"))
    assert len(files) == 60
    assert all(compile(file.read_bytes(), file, "exec") for file in files)
    assert Repo(first.path).head == Repo(second.path).head


def test_even(tmp_path: Path) -> None:
    """Files are as large at the end of a long history as of a short one, and parse; it is the same every time."""
    short, long, again = (even(tmp_path / str(place), commits) for place, commits in enumerate((2, 30, 30)))
    sizes = [sum(file.stat().st_size for file in one.path.glob("*.py")) for one in (short, long)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.05)
    assert all(compile(file.read_bytes(), file, "exec") for file in long.path.glob("*.py"))
    assert Repo(long.path).git("rev-list", "--count", "HEAD") == "30"
    assert Repo(long.path).head == Repo(again.path).head


def test_one_more_commit(tmp_path: Path) -> None:
    """A commit more changes one source file."""
    history = wide(tmp_path, files=3)
    add_commit(history, 1)
    assert Repo(tmp_path).git("show", "--format=", "--name-only") == "part000/module0001.py"
