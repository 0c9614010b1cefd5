"""Fixtures: a data directory, a map in it, and a client of a viewer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mindmap.document import Mindmap
from mindmap.map_store import MapStore
from tests.mindmap.sample_maps import create_map
from tests.serve.viewer.helpers import ViewerClient, start_viewer, write_page_files


@pytest.fixture
def maps(tmp_path: Path) -> MapStore:
    (tmp_path / "maps").mkdir()
    return MapStore(tmp_path / "maps")


@pytest.fixture
def document(maps: MapStore) -> Mindmap:
    document = create_map(
        {
            "label": "Parse headers",
            "status": "in_progress",
            "children": [{"label": "Lexer", "status": "completed"}],
        }
    )
    maps.create(document)
    return document


@pytest.fixture
def client(tmp_path: Path, maps: MapStore) -> Iterator[ViewerClient]:
    with start_viewer(maps.path, write_page_files(tmp_path / "page")) as client:
        yield client
