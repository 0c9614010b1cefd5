"""Cache of what git computes about whole histories."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from pipeline.git.releases import HistoryCache


def test_state() -> None:
    """A result counts for one state of one repository, and a failure is computed again."""
    cache: HistoryCache[int] = HistoryCache()
    results = iter([None, 1, 2, 3])
    requests = [("a", 1), ("a", 1), ("a", 1), ("a", 2), ("b", 2), ("a", 2)]
    found = [cache.get(Path(name), state, lambda: next(results)) for name, state in requests]
    assert found == [None, 1, 1, 2, 3, 2]


def test_other_repository_does_not_wait() -> None:
    """A computation for one repository does not block one for another."""
    cache: HistoryCache[int] = HistoryCache()
    is_running, may_end = Event(), Event()

    def compute() -> int:
        is_running.set()
        return int(may_end.wait(timeout=30))

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(cache.get, Path("a"), 1, compute)
        assert is_running.wait(timeout=30)
        assert cache.get(Path("b"), 1, lambda: 2) == 2
        assert not slow.done()
        may_end.set()
        assert slow.result(timeout=30) == 1
