"""Cache of what git computes about whole histories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final, Generic, TypeVar

from cachetools import LRUCache

# What is known about a million commits takes 300 MB, so only the last repositories stay in memory.
MAX_REPOSITORIES: Final = 4

Value = TypeVar("Value")


class _Entry(Generic[Value]):
    def __init__(self) -> None:
        self.lock = Lock()
        self.state: object = None
        self.value: Value | None = None


class HistoryCache(Generic[Value]):
    """Result of the newest state of each of the last repositories. Thread-safe.

    Concurrent requests for one repository wait for one computation; those for others do not wait.
    """

    def __init__(self) -> None:
        self._entries: LRUCache[Path, _Entry[Value]] = LRUCache(MAX_REPOSITORIES)
        self._lock = Lock()

    def get(self, objects_dir: Path, state: object, compute: Callable[[], Value | None]) -> Value | None:
        """Return what `compute` returned for this state of the repository; None, a failure, is not cached."""
        with self._lock:
            entry = self._entries.setdefault(objects_dir, _Entry())
        with entry.lock:
            if entry.value is None or entry.state != state:
                entry.value = None  # free it before the next one is computed
                entry.value, entry.state = compute(), state
            return entry.value
