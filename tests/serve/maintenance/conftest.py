"""An indexed repository of a person without any client."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from serve.repositories import place_of
from stores.index_location import Place
from tests.repos import Repo
from tests.serve import sample_index


@pytest.fixture
def repo(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """An indexed repository, and a person without any client."""
    (tmp_path / "person").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("src/tcp.py", "def connect():\n    timeout()\n", "Add a timeout to connect")
    sample_index.index(repo, home)
    return repo


@pytest.fixture
def place(repo: Repo, home: Path) -> Place:
    return place_of(home, open_repository(repo.path))
