"""Tests of `tests.bench.indexes`."""

from __future__ import annotations

from pathlib import Path

import pytest

from stores import database
from tests.bench import indexes
from tests.repos import Repo
from tests.serve.sample_index import build_index


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    for number in range(6):
        repo.commit_file("a.py", f"def number_{number}():\n    return {number}\n")
    return repo


def test_index_fingerprint(repo: Repo, tmp_path: Path) -> None:
    """Fingerprints are equal for an index built in two steps or one, and differ for other content."""
    build_index(repo, tmp_path / "once")
    build_index(repo, tmp_path / "steps", revision="HEAD~3")
    before = indexes.compute_fingerprint(repo.path, tmp_path / "steps")
    build_index(repo, tmp_path / "steps")
    once, steps = (indexes.compute_fingerprint(repo.path, tmp_path / name) for name in ("once", "steps"))
    assert once == steps
    assert {name for name in once if before[name] != once[name]} >= {"commits", "hunks", "hunk_postings"}


def test_table_sizes_and_symbol_shares(repo: Repo, tmp_path: Path) -> None:
    """Table sizes sum to at most the index size; hunks are counted by language, and equal texts once."""
    build_index(repo, tmp_path / "home")
    with database.open_for_writing(indexes.find_location(repo.path, tmp_path / "home")) as connection:
        connection.execute("CHECKPOINT")
    sizes = indexes.measure_tables(repo.path, tmp_path / "home")
    assert 0 < sizes["bytes"].sum() <= indexes.measure_index(repo.path, tmp_path / "home")
    shares = indexes.compute_symbol_shares(repo.path, tmp_path / "home")
    assert shares.row(0) == ("python", 6, 100.0, 0.0, 0.0)
    # Six hunks and the message all commits have.
    assert len(indexes.load_embedded_texts(repo.path, tmp_path / "home")) == 7
