"""Helpers for watcher tests: maps with a watched workspace, and waiting for attached files."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from mindmap.document import FileTouch, Mindmap
from mindmap.git import GitRunner
from mindmap.map_store import MapStore
from mindmap.watcher import Watcher
from pipeline.git.errors import NotARepository
from tests.mindmap.sample_maps import create_map, find_id
from tests.mindmap.workspaces import open_git

# Longest wait for a batch on a busy machine.
TIMEOUT_SECONDS = 20.0


def find_git(path: str) -> GitRunner | None:
    """Return the git runner of a directory; None outside repositories."""
    try:
        return open_git(Path(path))
    except NotARepository:
        return None


def create_watched_map(store: MapStore, watcher: Watcher, path: Path) -> str:
    """Create a map with a task in progress, watch its workspace, and return its id."""
    document = create_map({"label": "Task", "status": "in_progress"}, workspace=str(path))
    store.create(document)
    assert watcher.watch(document.id, str(path)).is_watched
    return document.id


def read_files_by_path(document: Mindmap, label: str = "Task") -> dict[str, FileTouch]:
    """Return the files of the node with this label."""
    return {touch.path: touch for touch in document.nodes[find_id(document, label)].files}


def read_actions_by_path(document: Mindmap) -> dict[str, str]:
    """Return the action of each file of the node `Task`."""
    return {path: touch.action for path, touch in read_files_by_path(document).items()}


def wait_until(store: MapStore, mindmap_id: str, condition: Callable[[Mindmap], bool]) -> Mindmap:
    """Wait until a map fulfils the condition, and return it."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while True:
        document = store.read(mindmap_id)
        if condition(document) or time.monotonic() > end:
            assert condition(document), read_actions_by_path(document)
            return document
        time.sleep(0.05)
