"""Fixtures: a map store, an in-memory MCP server for it, and a repository."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mindmap.map_store import MapStore
from serve.mcp.mindmap_server import MindmapServer, create_mindmap_server
from tests.repos import Repo


@pytest.fixture
def store(tmp_path: Path) -> MapStore:
    return MapStore(tmp_path / "maps")


@pytest.fixture
def mindmap_server(store: MapStore) -> Iterator[MindmapServer]:
    server = create_mindmap_server(store.path)
    yield server
    server.close()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "one\n", "Begin")
    return repo
