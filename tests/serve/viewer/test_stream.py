"""Those who listen: what they are told, when, and what becomes of the slow, the sleeping and the many."""

from __future__ import annotations

import re
import socket
import threading
import time
from pathlib import Path

import pytest

from mindmap.document import Mindmap, now
from mindmap.map_store import Maps
from mindmap.nodes import note
from serve.viewer import handlers
from serve.viewer.watcher import MOST_SECONDS, QUIET_SECONDS
from tests.mindmap.sample_maps import a_map
from tests.serve.viewer.helpers import Asking, until

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
# What a loaded machine takes for what an idle one does in a few milliseconds.
SLACK = 2.0


def write(maps: Maps, document: Mindmap, message: str = "Something new") -> None:
    maps.change(document.id, lambda found: note(found, message, now()))


def test_connected(asking: Asking) -> None:
    """A listener is told at once that it is one, when to come back, and where it stands."""
    with asking.listening() as listener:
        assert listener.response.getheader("Content-Type") == "text/event-stream; charset=utf-8"
        assert listener.response.getheader("Cache-Control") == "no-store"
        event = listener.next()
        assert set(event) == {"type", "timestamp"} and event["type"] == "connected"
        assert TIMESTAMP.fullmatch(event["timestamp"])
        assert listener.lines[0] == "retry: 1000" and listener.lines[1].startswith("id: ")
    head = asking.ask("/events", "HEAD")
    assert (head.status, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")


def test_updates(asking: Asking, maps: Maps, tmp_path: Path) -> None:
    """Every map that is made, changed, replaced, or deleted is told of once; what is no map is not."""
    with asking.listening() as listener:
        listener.next()
        document = a_map()
        maps.create(document)
        event = listener.next()
        assert set(event) == {"type", "id", "timestamp"}
        assert (event["type"], event["id"]) == ("mindmap_updated", document.id)
        assert TIMESTAMP.fullmatch(event["timestamp"])
        write(maps, document)
        assert listener.next()["id"] == document.id
        (tmp_path / "elsewhere").write_bytes(maps.folder.read(document.id))
        (tmp_path / "elsewhere").rename(maps.path / "moved-in.json")
        assert listener.next()["id"] == "moved-in"
        (maps.path / "moved-in.json").rename(maps.path / "renamed.json")
        assert {listener.next()["id"], listener.next()["id"]} == {"moved-in", "renamed"}
        maps.delete(document.id)
        assert listener.next()["id"] == document.id
        (maps.path / "notes.txt").write_text("no map")
        (maps.path / ".mm_1.tmp").write_text("no map")
        (maps.path / "no map.json").write_text("{}")
        asking.ask("/api/mindmaps/renamed")
        assert listener.drained(QUIET_SECONDS + 2.5) == []


def test_a_pause_is_awaited(asking: Asking, maps: Maps) -> None:
    """Writes that follow each other are told of once, after the last; writes without end, now and then."""
    document = a_map()
    maps.create(document)
    with asking.listening() as listener:
        listener.next()
        listener.drained(0.5)
        writing = threading.Event()
        began = time.monotonic()

        def steadily() -> None:
            while not writing.is_set():
                write(maps, document)
                time.sleep(0.02)

        thread = threading.Thread(target=steadily)
        thread.start()
        time.sleep(3)
        writing.set()
        thread.join()
        ended = time.monotonic()
        said = []
        while not listener.events.empty() or time.monotonic() < ended + QUIET_SECONDS + SLACK:
            if not listener.events.empty():
                said.append(listener.events.get()[0])
            time.sleep(0.01)
    gaps = [later - earlier for earlier, later in zip([began, *said], said, strict=False)]
    assert max(gaps) < MOST_SECONDS + SLACK
    assert len(said) <= (ended - began) / QUIET_SECONDS / 2 + 1
    assert said[-1] > ended - MOST_SECONDS


def test_maps_have_their_own_pauses(asking: Asking, maps: Maps) -> None:
    """A map that is written without end does not hold back what is to be told of another."""
    busy, calm = a_map(), a_map()
    for one in (busy, calm):
        maps.create(one)
    with asking.listening() as listener:
        listener.next()
        listener.drained(0.5)
        for turn in range(30):
            write(maps, busy)
            if turn == 10:
                write(maps, calm)
            time.sleep(0.03)
        ids = [event["id"] for event in listener.drained(1)]
    assert ids.count(calm.id) == 1 and ids.count(busy.id) >= 2


def test_every_listener_is_told(asking: Asking, maps: Maps) -> None:
    """Fifty listeners are all told of the last of many writes to several maps."""
    documents = [a_map() for _ in range(3)]
    for one in documents:
        maps.create(one)
    listeners = [asking.listening() for _ in range(50)]
    opened = [listener.__enter__() for listener in listeners]
    try:
        for listener in opened:
            assert listener.next()["type"] == "connected"
        for turn in range(10):
            write(maps, documents[turn % 3], str(turn))
        for listener in opened:
            waited = {one.id for one in documents}
            while waited:
                waited.discard(listener.next()["id"])
    finally:
        for entered in listeners:
            entered.__exit__(None, None, None)


def test_coming_back(asking: Asking, maps: Maps) -> None:
    """Who comes back is told of each map that changed meanwhile, once; who comes anew, of what follows."""
    one, two = a_map(), a_map()
    with asking.listening() as listener:
        listener.next()
        maps.create(one)
        listener.next()
        last = asking_id(listener.lines)
    for turn in range(3):
        write(maps, one, str(turn))
        time.sleep(0.3)
    maps.create(two)
    with asking.listening() as other:
        other.next()
        assert other.next()["id"] == two.id or other.next()["id"] == two.id
    for heard in ("", "x", "0-0", f"{last}9999", last.replace("-", "-x"), last + "\u00b2"):
        with asking.listening(heard.encode().decode("latin-1")) as other:
            assert [event["type"] for event in other.drained(0.5)] == ["connected"], heard
    with asking.listening(last) as back:
        assert [event.get("id") for event in back.drained(1)] == [None, one.id, two.id]


def test_heartbeat(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener with nothing to hear is told that it is still listened to, in a comment."""
    monkeypatch.setattr(handlers, "HEARTBEAT_SECONDS", 0.1)
    with asking.listening() as listener:
        until(lambda: listener.lines.count(": still here") >= 3)
        assert [event["type"] for event in listener.drained(0.1)] == ["connected"]


def test_listeners_leave(asking: Asking) -> None:
    """Those who leave are forgotten at once."""
    assert asking.viewer
    for _ in range(3):
        with asking.listening() as listener:
            listener.next()
            assert asking.viewer.listeners == 1
        until(lambda: asking.viewer is not None and asking.viewer.listeners == 0)


def test_listeners_are_bounded(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more than can listen is told so, and when to try again."""
    monkeypatch.setattr(handlers, "MOST_LISTENERS", 2)
    with asking.listening() as one, asking.listening() as two:
        one.next()
        two.next()
        answer = asking.ask("/events")
        assert (answer.error, answer.headers["retry-after"]) == ((503, "too_busy"), "5")


def test_one_who_does_not_read(asking: Asking, maps: Maps) -> None:
    """A listener that never reads takes no room that grows, and is told of the last state when it reads again."""
    documents = [a_map() for _ in range(200)]
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        slow.connect(("127.0.0.1", asking.port))
        slow.sendall(f"GET /events HTTP/1.1\r\nHost: localhost:{asking.port}\r\n\r\n".encode())
        until(lambda: asking.viewer is not None and asking.viewer.listeners == 1)
        assert asking.viewer and asking.loop
        news = asking.viewer.news

        def tell_all() -> None:
            for one in documents:
                news.tell(one.id)

        for _ in range(200):  # 40,000 changes: 6 MB, were each of them kept for it
            asking.loop.call_soon_threadsafe(tell_all)
            time.sleep(0.005)
        last = a_map()
        maps.create(last)
        until(lambda: asking.ask("/api/status").status == 200 and news.number == 40_001)
        slow.settimeout(3)
        said = b""
        while last.id.encode() not in said:
            said += slow.recv(1 << 20)
        # What the system's own buffers took, and once each what changed since.
        assert len(said) < 1_000_000, len(said)


def asking_id(lines: list[str]) -> str:
    """The last id that was told."""
    return [line for line in lines if line.startswith("id: ")][-1].removeprefix("id: ")
