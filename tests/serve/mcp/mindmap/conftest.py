"""A data directory, a server for it in memory, and a repository to work in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mindmap.map_store import Maps
from serve.mcp.mindmap_server import Serving, mindmap_server
from tests.repos import Repo


@pytest.fixture
def maps(tmp_path: Path) -> Maps:
    return Maps(tmp_path / "maps")


@pytest.fixture
def serving(maps: Maps) -> Iterator[Serving]:
    serving = mindmap_server(maps.path)
    yield serving
    serving.end()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "one\n", "Begin")
    return repo
