"""What tests of watched workspaces share: maps, a repository with some files, a watcher."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mindmap.map_store import Maps
from mindmap.watcher import Watcher
from tests.mindmap.watcher_helpers import git_for
from tests.repos import Repo


@pytest.fixture
def maps(tmp_path: Path) -> Maps:
    return Maps(tmp_path / "maps")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.write("old.py", "old\n")
    repo.write("saved.py", "old\n")
    repo.write("deep/er/gone.py", "old\n")
    repo.write(".gitignore", "*.log\n")
    repo.commit("All")
    return repo


@pytest.fixture
def watcher(maps: Maps) -> Iterator[Watcher]:
    watcher = Watcher(maps, git_for)
    yield watcher
    watcher.stop()
