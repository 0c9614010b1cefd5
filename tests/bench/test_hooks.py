"""Test of `tests.bench.hooks`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import hooks
from tests.bench.report import BenchmarkOptions
from tests.repos import Repo


def test_all_commits_are_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All commits are in the index when the benchmark ends."""
    monkeypatch.setattr(hooks, "ROUNDS_PER_RUN", 1)
    monkeypatch.setattr(hooks, "CONSECUTIVE_COMMITS", 3)
    repo = Repo.create(tmp_path / "small")
    repo.commit_file("a.py", "x = 1\n", "First")
    rows = hooks.measure(repo.path, tmp_path / "work", BenchmarkOptions((repo.path,), runs=1, commits=10))
    assert [row.measure for row in rows] == [
        "git commit, seconds more with hooks",
        "the same, commits in a row",
        "a run that finds another queued, processor seconds",
    ]
    count = Repo(tmp_path / "work" / "clone").git("rev-list", "--count", "HEAD")
    assert int(count) == 1 + 2 * hooks.ROUNDS_PER_RUN + 2 * hooks.CONSECUTIVE_COMMITS
    assert 0 < rows[-1].value < 5
