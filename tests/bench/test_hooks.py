"""The measure of hooks: what it compares is what it says."""

from __future__ import annotations

from pathlib import Path

from tests.bench import hooks
from tests.bench.report import Asked
from tests.repos import Repo


def test_hooks_run_where_they_are_measured(tmp_path: Path) -> None:
    """Every commit that is made, with hooks and without, is in the index when the measure ends."""
    repo = Repo.create(tmp_path / "small")
    repo.commit_file("a.py", "x = 1\n", "First")
    rows = hooks.measure(repo.path, tmp_path / "work", Asked((repo.path,), runs=1, commits=10))
    assert [row.what for row in rows] == [
        "git commit, seconds more with hooks",
        "the same, commits in a row",
        "a run that leaves, processor seconds",
    ]
    made = Repo(tmp_path / "work" / "clone").git("rev-list", "--count", "HEAD")
    assert int(made) == 1 + 2 * hooks.ROUNDS + 2 * hooks.IN_A_ROW
    assert 0 < rows[-1].value < 5
