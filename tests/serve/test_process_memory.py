"""Memory of a process: its size, and imports without garbage collection."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from serve import process


def test_objects_of_an_import_are_not_searched() -> None:
    """Garbage collection is off in the context. Later it skips the objects of the context, and deletes others."""
    try:
        with pytest.raises(ImportError), process.pause_garbage_collection():
            assert not gc.isenabled()
            created: list[object] = []
            raise ImportError
        assert gc.isenabled()
        assert all(item is not created for item in gc.get_objects())
        later: list[object] = []
        assert any(item is later for item in gc.get_objects())
    finally:
        gc.unfreeze()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system has no /proc/self/statm")
def test_resident_memory() -> None:
    """A Python process has some megabytes."""
    assert 5_000_000 < (process.measure_resident_bytes() or 0) < 50_000_000_000
