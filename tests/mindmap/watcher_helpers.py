"""Maps whose workspaces are watched, and what is attached to them in time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from mindmap.document import FileTouch, Mindmap
from mindmap.git import Git
from mindmap.map_store import Maps
from mindmap.watcher import Watcher
from pipeline.git.errors import NotARepository
from tests.mindmap.sample_maps import a_map, id_of
from tests.mindmap.workspaces import git_of

# How long a batch may take to arrive on a machine with other work.
PATIENCE = 20.0


def git_for(path: str) -> Git | None:
    try:
        return git_of(Path(path))
    except NotARepository:
        return None


def watched(maps: Maps, watcher: Watcher, path: Path) -> str:
    """A map whose workspace is watched, with a task in progress."""
    document = a_map({"label": "Task", "status": "in_progress"}, workspace=str(path))
    maps.create(document)
    assert watcher.watch(document.id, str(path)).is_on
    return document.id


def files(document: Mindmap, label: str = "Task") -> dict[str, FileTouch]:
    return {touch.path: touch for touch in document.nodes[id_of(document, label)].files}


def actions(document: Mindmap) -> dict[str, str]:
    return {path: touch.action for path, touch in files(document).items()}


def until(maps: Maps, mindmap_id: str, holds: Callable[[Mindmap], bool]) -> Mindmap:
    end = time.monotonic() + PATIENCE
    while True:
        document = maps.read(mindmap_id)
        if holds(document) or time.monotonic() > end:
            assert holds(document), actions(document)
            return document
        time.sleep(0.05)
