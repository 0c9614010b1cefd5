"""A data directory, a map in it, and a viewer that shows both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mindmap.document import Mindmap
from mindmap.map_store import Maps
from tests.mindmap.sample_maps import a_map
from tests.serve.viewer.helpers import Asking, page, viewing


@pytest.fixture
def maps(tmp_path: Path) -> Maps:
    (tmp_path / "maps").mkdir()
    return Maps(tmp_path / "maps")


@pytest.fixture
def document(maps: Maps) -> Mindmap:
    document = a_map(
        {
            "label": "Parse headers",
            "status": "in_progress",
            "children": [{"label": "Lexer", "status": "completed"}],
        }
    )
    maps.create(document)
    return document


@pytest.fixture
def asking(tmp_path: Path, maps: Maps) -> Iterator[Asking]:
    with viewing(maps.path, page(tmp_path / "page")) as asking:
        yield asking
