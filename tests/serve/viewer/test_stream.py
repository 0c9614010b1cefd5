"""Event stream: events, debouncing, reconnects, limits, slow listeners."""

from __future__ import annotations

import re
import socket
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from mindmap.document import Mindmap, utc_now
from mindmap.map_store import MapStore
from mindmap.nodes import add_note
from serve.viewer import handlers, watcher
from serve.viewer.watcher import MAX_DELAY_SECONDS, QUIET_SECONDS
from tests.mindmap.sample_maps import create_map
from tests.serve.viewer.helpers import ViewerClient, start_viewer, wait_until, write_page_files

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
# A loaded machine may need this many seconds for what takes an idle one milliseconds.
TIME_TOLERANCE = 2.0


def add_log_entry(maps: MapStore, document: Mindmap, message: str = "Something new") -> None:
    maps.change(document.id, lambda current: add_note(current, message, utc_now()))


def test_connected(client: ViewerClient) -> None:
    """A new listener gets the reconnect delay, an event id and a `connected` event at once."""
    with client.listen() as listener:
        assert listener.response.getheader("Content-Type") == "text/event-stream; charset=utf-8"
        assert listener.response.getheader("Cache-Control") == "no-store"
        event = listener.receive_event()
        assert set(event) == {"type", "timestamp"} and event["type"] == "connected"
        assert TIMESTAMP.fullmatch(event["timestamp"])
        assert listener.lines[0] == "retry: 1000" and listener.lines[1].startswith("id: ")
    head = client.request("/events", "HEAD")
    assert (head.status, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")


def test_updates(client: ViewerClient, maps: MapStore, tmp_path: Path) -> None:
    """Creating, changing, replacing or deleting a map sends one event; other files send none."""
    with client.listen() as listener:
        listener.receive_event()
        document = create_map()
        maps.create(document)
        event = listener.receive_event()
        assert set(event) == {"type", "id", "timestamp"}
        assert (event["type"], event["id"]) == ("mindmap_updated", document.id)
        assert TIMESTAMP.fullmatch(event["timestamp"])
        add_log_entry(maps, document)
        assert listener.receive_event()["id"] == document.id
        (tmp_path / "elsewhere").write_bytes(maps.directory.read(document.id))
        (tmp_path / "elsewhere").rename(maps.path / "moved-in.json")
        assert listener.receive_event()["id"] == "moved-in"
        (maps.path / "moved-in.json").rename(maps.path / "renamed.json")
        assert {listener.receive_event()["id"], listener.receive_event()["id"]} == {"moved-in", "renamed"}
        maps.delete(document.id)
        assert listener.receive_event()["id"] == document.id
        (maps.path / "notes.txt").write_text("no map")
        (maps.path / ".mm_1.tmp").write_text("no map")
        (maps.path / "no map.json").write_text("{}")
        client.request("/api/mindmaps/renamed")
        maps.create(document)
        assert listener.receive_event()["id"] == document.id


def test_debounced_updates(client: ViewerClient, maps: MapStore) -> None:
    """Consecutive writes send one event after the last; continuous writes send events at intervals."""
    document = create_map()
    maps.create(document)
    with client.listen() as listener:
        listener.receive_event()
        started_at = last_write_at = time.monotonic()
        while last_write_at < started_at + 4 * MAX_DELAY_SECONDS:
            last_write_at = time.monotonic()
            add_log_entry(maps, document)
            time.sleep(0.02)
        received_at = [started_at]
        while received_at[-1] < last_write_at:
            received_at.append(listener.events.get(timeout=10)[0])
    assert (
        max(later - earlier for earlier, later in pairwise(received_at)) < MAX_DELAY_SECONDS + TIME_TOLERANCE
    )
    assert len(received_at) <= (received_at[-1] - started_at) / QUIET_SECONDS / 2 + 2


def test_maps_are_debounced_separately(
    maps: MapStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A map that is written continuously does not delay the events of another."""
    monkeypatch.setattr(watcher, "SCAN_SECONDS", 600.0)  # a scan reports every change
    busy, calm = create_map(), create_map()
    with (
        start_viewer(maps.path, write_page_files(tmp_path / "page")) as client,
        client.listen() as listener,
    ):
        listener.receive_event()
        for document in (busy, calm):
            maps.create(document)
        assert {listener.receive_event()["id"], listener.receive_event()["id"]} == {busy.id, calm.id}
        add_log_entry(maps, calm)
        end = time.monotonic() + QUIET_SECONDS + TIME_TOLERANCE
        while listener.events.empty() or listener.receive_event()["id"] != calm.id:
            assert time.monotonic() < end
            add_log_entry(maps, busy)
            time.sleep(0.03)


def test_many_listeners(client: ViewerClient, maps: MapStore) -> None:
    """Fifty listeners all get the last of many changes of several maps."""
    documents = [create_map() for _ in range(3)]
    for document in documents:
        maps.create(document)
    listener_contexts = [client.listen() for _ in range(50)]
    opened_listeners = [listener.__enter__() for listener in listener_contexts]
    try:
        for listener in opened_listeners:
            assert listener.receive_event()["type"] == "connected"
        for turn in range(10):
            add_log_entry(maps, documents[turn % 3], str(turn))
        for listener in opened_listeners:
            missing_ids = {document.id for document in documents}
            while missing_ids:
                missing_ids.discard(listener.receive_event()["id"])
    finally:
        for listener_context in listener_contexts:
            listener_context.__exit__(None, None, None)


def test_reconnect(client: ViewerClient, maps: MapStore) -> None:
    """A reconnecting listener gets one event for each map changed meanwhile; a new one only later changes."""
    one, two, three = create_map(), create_map(), create_map()
    with client.listen() as listener:
        listener.receive_event()
        maps.create(one)
        listener.receive_event()
        last_id = find_last_event_id(listener.lines)
    with client.listen() as other:
        other.receive_event()
        for turn in range(3):
            add_log_entry(maps, one, str(turn))
            assert other.receive_event()["id"] == one.id
        maps.create(two)
        assert other.receive_event()["id"] == two.id
    invalid_ids = ("", "x", "0-0", f"{last_id}9999", last_id.replace("-", "-x"), last_id + "\u00b2")
    with ExitStack() as stack:
        new_listeners = [
            stack.enter_context(client.listen(invalid_id.encode().decode("latin-1")))
            for invalid_id in invalid_ids
        ]
        reconnected = stack.enter_context(client.listen(last_id))
        for listener in (*new_listeners, reconnected):
            assert listener.receive_event()["type"] == "connected"
        maps.create(three)
        assert [listener.receive_event()["id"] for listener in new_listeners] == [three.id] * len(invalid_ids)
        assert [reconnected.receive_event()["id"] for _ in range(3)] == [one.id, two.id, three.id]


def test_heartbeat(client: ViewerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener without events gets comments as heartbeats."""
    monkeypatch.setattr(handlers, "HEARTBEAT_SECONDS", 0.1)
    with client.listen() as listener:
        wait_until(lambda: listener.lines.count(": still here") >= 3)
        assert [event["type"] for event in listener.drain(0.1)] == ["connected"]


def test_disconnect(client: ViewerClient) -> None:
    """A disconnected listener is no longer counted."""
    assert client.viewer
    for _ in range(3):
        with client.listen() as listener:
            listener.receive_event()
            assert client.viewer.listener_count == 1
        wait_until(lambda: client.viewer is not None and client.viewer.listener_count == 0)


def test_listener_limit(client: ViewerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener above the limit gets 503 with `Retry-After`."""
    monkeypatch.setattr(handlers, "MAX_LISTENERS", 2)
    with client.listen() as one, client.listen() as two:
        one.receive_event()
        two.receive_event()
        answer = client.request("/events")
        assert (answer.error, answer.headers["retry-after"]) == ((503, "too_busy"), "5")


def test_listener_that_does_not_read(client: ViewerClient, maps: MapStore) -> None:
    """A listener that does not read uses bounded memory, and gets the latest state when it reads again."""
    documents = [create_map() for _ in range(200)]
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        slow.connect(("127.0.0.1", client.port))
        slow.sendall(f"GET /events HTTP/1.1\r\nHost: localhost:{client.port}\r\n\r\n".encode())
        wait_until(lambda: client.viewer is not None and client.viewer.listener_count == 1)
        assert client.viewer and client.loop
        changes = client.viewer.changes

        def record_all() -> None:
            for document in documents:
                changes.record(document.id)

        for _ in range(200):  # 40,000 changes, which would be 6 MB if each were queued
            client.loop.call_soon_threadsafe(record_all)
            time.sleep(0.005)
        last = create_map()
        maps.create(last)
        wait_until(lambda: client.request("/api/status").status == 200 and changes.last_number == 40_001)
        slow.settimeout(3)
        received = b""
        while last.id.encode() not in received:
            received += slow.recv(1 << 20)
        # The contents of the system's buffers, then one event for each map changed since.
        assert len(received) < 1_000_000, len(received)


def find_last_event_id(lines: list[str]) -> str:
    """Return the id of the last event."""
    return [line for line in lines if line.startswith("id: ")][-1].removeprefix("id: ")
