"""Filtered lanes on a little real index."""

from __future__ import annotations

from pathlib import Path

from tests.eval import filters
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder, index

SUBJECTS = ("Close the socket on errors", "Read the header of a file", "Write the header of a socket")


def test_filtered_lanes_equal_filtered_rankings(tmp_path: Path, home: Path) -> None:
    """Every lane under every filter gives what the exhaustive ranking has, filtered."""
    repo = Repo.create(tmp_path / "repo")
    for number in range(24):
        author = f"{('Ada', 'Grace')[number % 2]} <someone{number % 3}@example.org>"
        repo.write(("src/a.py", "src/b.rs", "docs/c.md")[number % 3], f"def close_{number}(socket): header\n")
        repo.commit(f"{SUBJECTS[number % 3]}, {number}", author=author)
    index(repo, home)

    found = filters.compared(repo.path, home, WordEncoder())

    assert all(comparison.equal for comparison in found), filters.table(found)
    assert {comparison.expected > 0 for comparison in found} == {True, False}
