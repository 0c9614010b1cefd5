"""Address file of the running viewer."""

from __future__ import annotations

import fcntl
import os
import threading

import pytest

from mindmap.map_store import MapStore
from serve.viewer import discovery


def test_running_viewer_is_found(maps: MapStore) -> None:
    """The address is published while the viewer runs, and the file is not taken for a map."""
    assert discovery.read_address(maps.path) is None
    with discovery.publish_address(maps.path, 4321):
        assert discovery.read_address(maps.path) == "http://127.0.0.1:4321/"
        assert discovery.read_address(maps.path, "mm_1") == "http://127.0.0.1:4321/#/map/mm_1"
    assert discovery.read_address(maps.path) is None
    assert maps.list_maps().problems == []
    assert maps.directory.list_ids() == []


def test_address_file_that_is_deleted_before_it_is_locked(
    maps: MapStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A viewer whose file another viewer deletes before the lock is taken does not count as published."""
    address_file = discovery.AddressFile(maps.path, 4321)
    lock = fcntl.flock

    def delete_then_lock(descriptor: int, operation: int) -> None:
        (maps.path / discovery.ADDRESS_FILE).unlink()
        lock(descriptor, operation)

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", delete_then_lock)
        address_file.publish_if_free()
    assert discovery.read_address(maps.path) is None
    address_file.publish_if_free()
    assert discovery.read_address(maps.path) == "http://127.0.0.1:4321/"
    address_file.withdraw()


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "nonsense"])
def test_invalid_address_file(maps: MapStore, kind: str) -> None:
    """Anything else at the file's path gives no address, and reading it does not block."""
    path = maps.path / discovery.ADDRESS_FILE
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to("/etc/passwd")
        case "folder":
            path.mkdir()
        case _:
            path.write_text("[" * 200)
    addresses: list[str | None] = []
    thread = threading.Thread(target=lambda: addresses.append(discovery.read_address(maps.path)), daemon=True)
    thread.start()
    thread.join(10)
    assert addresses == [None]
