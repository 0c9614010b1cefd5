"""Fixtures of the `lineage doctor` tests: an indexed repository and its index location."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from serve.repositories import locate_index
from stores.index_location import IndexLocation
from tests.repos import Repo
from tests.serve import sample_index


@pytest.fixture
def repo(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """Indexed repository, and a HOME without configured MCP clients."""
    (tmp_path / "user").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("src/tcp.py", "def connect():\n    timeout()\n", "Add a timeout to connect")
    sample_index.build_index(repo, home)
    return repo


@pytest.fixture
def location(repo: Repo, home: Path) -> IndexLocation:
    return locate_index(home, open_repository(repo.path))
