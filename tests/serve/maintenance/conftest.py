"""Fixtures of the `lineage doctor` tests: an indexed repository and its index location."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from serve.repositories import locate_index
from stores.index_location import IndexLocation
from tests.repos import Repo
from tests.serve import commands, sample_index


@pytest.fixture
def repo(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """Indexed repository, and a HOME without configured MCP clients."""
    (tmp_path / "user").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    repo = commands.create_one_commit_repo(tmp_path / "repo")
    sample_index.build_index(repo, home)
    return repo


@pytest.fixture
def location(repo: Repo, home: Path) -> IndexLocation:
    return locate_index(home, open_repository(repo.path))
