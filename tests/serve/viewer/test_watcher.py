"""The data directory is watched by whatever the system offers, and looked through where it offers nothing."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import time
from pathlib import Path

import pytest
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from mindmap.map_store import Maps
from mindmap.nodes import note
from serve.viewer import watcher
from tests.mindmap.sample_maps import a_map, moment
from tests.serve.viewer.helpers import page, until, viewing


def refuse() -> BaseObserver:
    raise OSError(errno.EMFILE, "Too many open files")


def test_no_watches_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the system has no watches left the folder is looked through, which is said once, and given up again."""
    monkeypatch.setattr(watcher, "observer", refuse)
    monkeypatch.setattr(watcher, "RETRY_SECONDS", 0.5)
    maps = Maps(tmp_path / "maps")
    with caplog.at_level(logging.WARNING), viewing(maps.path, page(tmp_path / "page")) as asking:
        document = a_map()
        with asking.listening() as listener:
            listener.next()
            maps.create(document)
            assert listener.next()["id"] == document.id
            maps.change(document.id, lambda found: note(found, "Something new", moment(1)))
            assert listener.next()["id"] == document.id
            maps.delete(document.id)
            assert listener.next()["id"] == document.id
        assert asking.ask("/api/status").json["watching"] == "polling"
        monkeypatch.setattr(watcher, "observer", Observer)
        until(lambda: asking.ask("/api/status").json["watching"] == "events")
    (said,) = [record.getMessage() for record in caplog.records if "event=polling" in record.getMessage()]
    assert "Too many open files" in said


def test_folder_is_replaced(tmp_path: Path) -> None:
    """A folder that another takes the place of is watched from then on, and what differs is told of."""
    maps = Maps(tmp_path / "maps")
    maps.path.mkdir()
    kept, gone = a_map(), a_map()
    for one in (kept, gone):
        maps.create(one)
    with viewing(maps.path, page(tmp_path / "page")) as asking, asking.listening() as listener:
        listener.next()
        maps.path.rename(tmp_path / "before")
        (tmp_path / "before" / f"{kept.id}.json").rename(tmp_path / "kept.json")
        maps.path.mkdir()
        (tmp_path / "kept.json").rename(maps.path / f"{kept.id}.json")
        assert gone.id in {event["id"] for event in listener.drained(4)}
        maps.create(new := a_map())
        assert new.id in {event["id"] for event in listener.drained(1)}
        assert asking.ask("/api/status").json["watching"] == "events"


def test_folder_behind_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data directory that is a link is watched where it leads."""
    monkeypatch.setattr(watcher, "LOOK_SECONDS", 600.0)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with viewing(tmp_path / "link", page(tmp_path / "page")) as asking, asking.listening() as listener:
        listener.next()
        document = a_map()
        Maps(tmp_path / "real").create(document)
        assert listener.next()["id"] == document.id


def test_changes_that_look_alike(tmp_path: Path) -> None:
    """A file that was written just now is known for nothing: the next change is told of, and its end too."""
    file = tmp_path / "mm_1.json"

    async def run() -> list[str]:
        told: list[str] = []
        watched = watcher.Watching(tmp_path, told.append)
        for age in (0, 0, 1):  # the first two within a tick, the third a second ago
            file.write_text("{}")
            now = time.time_ns() - age * 1_000_000_000
            os.utime(file, ns=(now, now))
            await watched._tell("mm_1")
        await watched._tell("mm_1")
        file.write_text("{}")
        await watched._tell("mm_1")
        file.unlink()
        await watched._tell("mm_1")
        await watched._tell("mm_1")
        return told

    assert asyncio.run(run()) == ["mm_1"] * 5


def test_an_end_amid_writes(tmp_path: Path) -> None:
    """A watch that ends while maps are written begins nothing more."""

    async def run() -> list[str]:
        told: list[str] = []
        watched = watcher.Watching(tmp_path, told.append)
        await watched.begin()
        watched._heard({"mm_1.json"})
        await watched.end()
        (tmp_path / "mm_1.json").write_text("{}")
        await asyncio.sleep(0.3)
        assert not watched._tasks
        return told

    assert asyncio.run(run()) == []
