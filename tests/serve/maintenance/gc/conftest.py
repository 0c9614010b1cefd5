"""Fixture of the `lineage gc` tests: an indexed repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repos import Repo
from tests.serve import sample_index


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("src/tcp.py", "def connect():\n    timeout()\n", "Add a timeout to connect")
    sample_index.build_index(repo, home)
    return repo
