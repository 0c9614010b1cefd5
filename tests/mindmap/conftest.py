"""Fixtures: a map store, a repository with some files, a watcher."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mindmap.map_store import MapStore
from mindmap.watcher import Watcher
from tests.mindmap.watcher_helpers import find_git
from tests.repos import Repo


@pytest.fixture
def store(tmp_path: Path) -> MapStore:
    return MapStore(tmp_path / "maps")


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
def watcher(store: MapStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watcher]:
    watcher = Watcher(store, find_git)
    yield watcher
    monkeypatch.setattr("mindmap.watcher.EVENT_DELAY_SECONDS", 0.0)  # no test reads the last events
    watcher.stop()
