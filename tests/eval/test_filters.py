"""Test of `tests.eval.filters` on a small real index."""

from __future__ import annotations

from pathlib import Path

from tests.eval import filters
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder, build_index

SUBJECTS = ("Close the socket on errors", "Read the header of a file", "Write the header of a socket")


def test_filtered_lanes_equal_filtered_rankings(tmp_path: Path, home: Path) -> None:
    """Every lane with every filter equals the filtered exhaustive ranking."""
    repo = Repo.create(tmp_path / "repo")
    for number in range(24):
        author = f"{('Ada', 'Grace')[number % 2]} <someone{number % 3}@example.org>"
        repo.write(("src/a.py", "src/b.rs", "docs/c.md")[number % 3], f"def close_{number}(socket): header\n")
        repo.commit(f"{SUBJECTS[number % 3]}, {number}", author=author)
    build_index(repo, home)

    comparisons = filters.compare_lanes(repo.path, home, WordEncoder())

    assert all(comparison.is_equal for comparison in comparisons), filters.summarize(comparisons)
    assert {comparison.expected > 0 for comparison in comparisons} == {True, False}
