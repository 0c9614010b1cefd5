"""Where a running viewer is found: by what it leaves in the folder, which is no map, and names it while it runs."""

from __future__ import annotations

import os
import threading

import pytest

from mindmap.map_store import Maps
from serve.viewer import discovery


def test_running_viewer_is_found(maps: Maps) -> None:
    """A viewer is found while it runs, by what it left in the folder, and not any longer."""
    assert discovery.address(maps.path) is None
    with discovery.announced(maps.path, 4321):
        assert discovery.address(maps.path) == "http://127.0.0.1:4321/"
        assert discovery.address(maps.path, "mm_1") == "http://127.0.0.1:4321/#/map/mm_1"
    assert discovery.address(maps.path) is None
    assert maps.listed().problems == []
    assert maps.folder.ids() == []


@pytest.mark.parametrize("odd", ["pipe", "link", "folder", "nonsense"])
def test_what_is_no_announcement(maps: Maps, odd: str) -> None:
    """Whatever else stands in its place names nobody, and keeps nobody waiting."""
    place = maps.path / discovery.PLACE
    match odd:
        case "pipe":
            os.mkfifo(place)
        case "link":
            place.symlink_to("/etc/passwd")
        case "folder":
            place.mkdir()
        case _:
            place.write_text("[" * 200)
    answers: list[str | None] = []
    asking = threading.Thread(target=lambda: answers.append(discovery.address(maps.path)), daemon=True)
    asking.start()
    asking.join(10)
    assert answers == [None]
