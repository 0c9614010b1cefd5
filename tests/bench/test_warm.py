"""The measure of warm questions on a little history."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import warm
from tests.bench.report import Asked
from tests.repos import Repo


def test_rows_of_a_little_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole answers and both forms of the cross-encoder have limits, and the daemon has ended afterwards."""
    monkeypatch.setattr(warm, "QUESTIONS", 20)
    repo = Repo.create(tmp_path / "repo")
    for number in range(warm.QUESTIONS):
        repo.commit_file(
            f"{number % 5}.py", f"def close_{number}(socket): ...\n", f"Close the socket of number {number}"
        )
    rows = warm.measure(repo.path, tmp_path / "measure", Asked((repo.path,), runs=1, commits=500))
    limited = [row.what for row in rows[::2] if row.limit is not None]
    assert limited == [
        f"warm query of {warm.QUESTIONS} hunks, seconds",
        "the same through the daemon, seconds",
        "reranked, full, through the daemon, seconds",
        "reranked, int8, through the daemon, seconds",
        "its reranking, full, alone, seconds",
        "its reranking, int8, alone, seconds",
    ]
    assert len(rows) == 18 and all(row.limit is not None for row in rows[:8])
    assert all(0 < row.value < 10 for row in rows)
    assert not (tmp_path / "measure" / "home" / "daemon" / "socket").exists()
