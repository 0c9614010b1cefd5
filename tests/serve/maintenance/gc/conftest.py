"""Fixture of the `lineage gc` tests: an indexed repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repos import Repo
from tests.serve import commands, sample_index


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:
    repo = commands.create_one_commit_repo(tmp_path / "repo")
    sample_index.build_index(repo, home)
    return repo
