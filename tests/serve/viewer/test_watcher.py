"""Watcher of the data directory, with file events and with polling."""

from __future__ import annotations

import asyncio
import errno
import logging
from dataclasses import replace
from pathlib import Path

import pytest
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from mindmap.map_store import MapStore
from mindmap.nodes import add_note
from serve.viewer import watcher
from serve.viewer.watcher import Debouncer, FileSignature
from tests.mindmap.sample_maps import create_map, create_timestamp
from tests.serve.viewer.helpers import start_viewer, wait_until, write_page_files


def raise_no_watches_error() -> BaseObserver:
    raise OSError(errno.EMFILE, "Too many open files")


def test_no_watches_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without available watches the directory is polled, with one warning, until watches are available again."""
    monkeypatch.setattr(watcher, "create_observer", raise_no_watches_error)
    monkeypatch.setattr(watcher, "RETRY_SECONDS", 0.5)
    maps = MapStore(tmp_path / "maps")
    with (
        caplog.at_level(logging.WARNING),
        start_viewer(maps.path, write_page_files(tmp_path / "page")) as client,
    ):
        document = create_map()
        with client.listen() as listener:
            listener.receive_event()
            maps.create(document)
            assert listener.receive_event()["id"] == document.id
            maps.change(document.id, lambda current: add_note(current, "Something new", create_timestamp(1)))
            assert listener.receive_event()["id"] == document.id
            maps.delete(document.id)
            assert listener.receive_event()["id"] == document.id
        assert client.request("/api/status").json["watching"] == "polling"
        monkeypatch.setattr(watcher, "create_observer", Observer)
        wait_until(lambda: client.request("/api/status").json["watching"] == "events")
    (message,) = [record.getMessage() for record in caplog.records if "event=polling" in record.getMessage()]
    assert "Too many open files" in message


def test_directory_is_replaced(tmp_path: Path) -> None:
    """A directory that replaces the watched one is watched from then on, and differences are reported."""
    maps = MapStore(tmp_path / "maps")
    maps.path.mkdir()
    moved, missing = create_map(), create_map()
    for document in (moved, missing):
        maps.create(document)
    with (
        start_viewer(maps.path, write_page_files(tmp_path / "page")) as client,
        client.listen() as listener,
    ):
        listener.receive_event()
        maps.path.rename(tmp_path / "before")
        (tmp_path / "before" / f"{moved.id}.json").rename(tmp_path / "kept.json")
        maps.path.mkdir()
        (tmp_path / "kept.json").rename(maps.path / f"{moved.id}.json")
        while listener.receive_event()["id"] != missing.id:
            pass
        maps.create(new := create_map())
        while listener.receive_event()["id"] != new.id:
            pass
        assert client.request("/api/status").json["watching"] == "events"


def test_directory_behind_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data directory that is a symbolic link is watched at its target."""
    monkeypatch.setattr(watcher, "SCAN_SECONDS", 600.0)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with (
        start_viewer(tmp_path / "link", write_page_files(tmp_path / "page")) as client,
        client.listen() as listener,
    ):
        listener.receive_event()
        document = create_map()
        MapStore(tmp_path / "real").create(document)
        assert listener.receive_event()["id"] == document.id


def test_changes_with_equal_signatures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a write within the timestamp resolution, the next write is reported although the file looks the same."""
    monkeypatch.setattr(watcher, "SCAN_SECONDS", 600.0)
    signature = FileSignature(1, 2, 3, 4, is_settled=False)
    monkeypatch.setattr(watcher, "read_signature", lambda *_: signature)

    async def run() -> None:
        nonlocal signature
        changed_ids = asyncio.Queue[str]()
        directory_watcher = watcher.DirectoryWatcher(tmp_path, changed_ids.put_nowait)
        await directory_watcher.start()
        for is_settled in (False, False, True):
            signature = replace(signature, is_settled=is_settled)
            (tmp_path / "mm_1.json").write_text("{}")
            assert await asyncio.wait_for(changed_ids.get(), 10) == "mm_1"
        # The signature is settled now, so this write did not happen after it was read.
        (tmp_path / "mm_1.json").touch()
        await asyncio.sleep(watcher.QUIET_SECONDS)
        (tmp_path / "mm_2.json").touch()
        assert await asyncio.wait_for(changed_ids.get(), 10) == "mm_2"
        await directory_watcher.stop()

    asyncio.run(run())


def test_stop_during_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A watcher that is stopped shortly after a write starts no new task, and reports nothing."""

    async def run() -> None:
        changed_ids: list[str] = []
        triggered = asyncio.Event()

        class ObservedDebouncer(Debouncer):
            def trigger(self, name: str) -> None:
                Debouncer.trigger(self, name)
                triggered.set()

        monkeypatch.setattr(watcher, "Debouncer", ObservedDebouncer)
        directory_watcher = watcher.DirectoryWatcher(tmp_path, changed_ids.append)
        await directory_watcher.start()
        (tmp_path / "mm_1.json").write_text("{}")
        await asyncio.wait_for(triggered.wait(), 10)
        await directory_watcher.stop()
        await asyncio.sleep(watcher.QUIET_SECONDS)  # the debouncer's timer, which is due earlier, has run
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert changed_ids == []

    asyncio.run(run())
