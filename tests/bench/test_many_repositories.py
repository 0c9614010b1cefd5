"""Test of `tests.bench.many_repositories` on a small history."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import many_repositories
from tests.bench.report import BenchmarkOptions
from tests.repos import Repo


def test_rows_of_small_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One command indexes the copies, both ways to ask have a ratio and a limit, and the daemon is stopped."""
    monkeypatch.setattr(many_repositories, "REPOSITORIES", 2)
    monkeypatch.setattr(many_repositories, "QUERIES", 3)
    repo = Repo.create(tmp_path / "repo")
    for number in range(5):
        repo.commit_file(
            f"{number}.py", f"def close_{number}(): ...\n", f"Close the socket of number {number}"
        )
    options = BenchmarkOptions((repo.path,), runs=1, commits=5)
    rows = many_repositories.measure(repo.path, tmp_path / "measure", options)
    assert [(row.measure, row.limit) for row in rows] == [
        ("index 2 repositories, seconds", None),
        ("question to 2 indexes, reranked, x one", 3.0),
        ("question to 2 indexes, without the cross-encoder, x one", None),
    ]
    assert all(0 < row.value < 100 for row in rows)
    assert not (tmp_path / "measure" / "home" / "daemon" / "socket").exists()
