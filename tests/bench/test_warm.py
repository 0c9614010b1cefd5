"""Test of `tests.bench.warm` on a small history."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import warm
from tests.bench.report import BenchmarkOptions
from tests.repos import Repo


def test_rows_of_small_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole queries and both precisions of the cross-encoder have limits, and the daemon is stopped."""
    monkeypatch.setattr(warm, "QUERIES", 4)
    repo = Repo.create(tmp_path / "repo")
    for number in range(warm.QUERIES):
        repo.commit_file(
            f"{number % 5}.py", f"def close_{number}(socket): ...\n", f"Close the socket of number {number}"
        )
    rows = warm.measure(repo.path, tmp_path / "measure", BenchmarkOptions((repo.path,), runs=1, commits=500))
    limited = [row.measure for row in rows[::2] if row.limit is not None]
    assert limited == [
        f"warm query of {warm.QUERIES} hunks, seconds",
        "the same through the daemon, seconds",
        "reranked, full, through the daemon, seconds",
        "reranked, int8, through the daemon, seconds",
        "its reranking, full, alone, seconds",
        "its reranking, int8, alone, seconds",
    ]
    assert len(rows) == 18 and all(row.limit is not None for row in rows[:8])
    assert all(0 < row.value < 10 for row in rows)
    assert not (tmp_path / "measure" / "home" / "daemon" / "socket").exists()
