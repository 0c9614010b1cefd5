"""Who is answered, and what becomes of those who are not: foreign hosts and origins, path tricks, floods, idlers."""

from __future__ import annotations

import random
import socket
import time
from contextlib import suppress
from http.client import HTTPException

import pytest

from mindmap.document import Mindmap
from mindmap.map_store import Maps
from serve.viewer import handlers, server
from serve.viewer.handlers import LARGEST_BODY
from serve.viewer.responses import Doors
from tests.mindmap.sample_maps import a_map
from tests.serve.viewer.helpers import Asking, page, until, viewing

EVERYWHERE = [
    ("GET", "/"),
    ("GET", "/app.js"),
    ("GET", "/logo.png"),
    ("GET", "/favicon.png"),
    ("GET", "/api/mindmaps"),
    ("GET", "/api/mindmaps/mm_1"),
    ("GET", "/api/mindmaps/mm_1/export"),
    ("GET", "/api/why"),
    ("GET", "/api/status"),
    ("POST", "/api/sync-git"),
    ("GET", "/events"),
    ("GET", "/nothing"),
    ("HEAD", "/"),
    ("PUT", "/"),
    ("STRANGE", "/"),
    ("GET", "/api/mindmaps/%ff"),
]


@pytest.mark.parametrize(("method", "target"), EVERYWHERE)
def test_foreign_host(asking: Asking, method: str, target: str) -> None:
    """No route answers for another host, another port, or none, whatever else is wrong with the request."""
    port = asking.port
    foreign = [
        "evil.example",
        f"evil.example:{port}",
        f"localhost:{port + 1}",
        "localhost",
        "127.0.0.1",
        f"127.0.0.1.evil.example:{port}",
        f"localhost.:{port}",
        f"127.0.0.2:{port}",
        f"0.0.0.0:{port}",
        f"[::]:{port}",
        "",
    ]
    for host in foreign:
        answer = asking.ask(target, method, Host=host)
        assert answer.status in ((403,) if host else (400, 403)), host
        if method != "HEAD" and host:
            assert answer.error == (403, "foreign_host"), host


def test_our_hosts(asking: Asking) -> None:
    """The three names of this machine are answered, however they are written."""
    for name in ("localhost", "LocalHost", "127.0.0.1", "[::1]"):
        assert asking.ask("/api/mindmaps", Host=f"{name}:{asking.port}").status == 200
    assert "localhost" in Doors(80).hosts and "localhost" not in Doors(8080).hosts


def test_hosts_that_are_none(asking: Asking) -> None:
    """A request without a host, or with two, is refused, in every version of the protocol."""
    ours = b"Host: localhost:%d\r\n" % asking.port
    for head in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + ours + ours + b"\r\n",
        b"GET / HTTP/1.1\r\n" + ours + b"Host: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost:%d, evil.example\r\n\r\n" % asking.port,
    ):
        assert asking.raw(head, seconds=2).split(b" ", 2)[1] in (b"400", b"403"), head


def test_foreign_origin(asking: Asking, document: Mindmap) -> None:
    """No page of another site syncs, reads or listens; ours does, and so do programs that have no origin."""
    said = {"mindmapId": document.id}
    ours = f"http://127.0.0.1:{asking.port}"
    foreign = [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://localhost:{asking.port}"},  # ours, by a name that this request does not use
        {"Origin": f"https://127.0.0.1:{asking.port}"},
        {"Origin": f"{ours}1"},
        {"Origin": ours, "Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ]
    for headers in foreign:
        assert asking.post("/api/sync-git", said, **headers).error == (403, "foreign_origin"), headers
        for target in ("/api/mindmaps", f"/api/mindmaps/{document.id}", "/events", "/api/why"):
            assert asking.ask(target, **headers).error == (403, "foreign_origin"), headers
    for headers in ({}, {"Origin": ours}, {"Origin": ours, "Sec_Fetch_Site": "same-origin"}):
        assert asking.post("/api/sync-git", said, **headers).error == (409, "no_workspace")
        assert asking.ask("/api/mindmaps", **headers).status == 200
    # A link to the viewer in a chat or a mail is followed.
    assert asking.ask("/", Sec_Fetch_Site="cross-site").status == 200


@pytest.mark.parametrize(
    "target",
    [
        "/api/mindmaps/%2e%2e",
        "/api/mindmaps/%2e%2e%2fsecret",
        "/api/mindmaps/..%2fsecret",
        "/api/mindmaps/%2fetc%2fpasswd",
        "/api/mindmaps/..%5csecret",
        "/api/mindmaps/mm_1%00.json",
        "/api/mindmaps/mm_1.json",
        "/api/mindmaps/%F0%9F%98%80",
        "/api/mindmaps/%ff",
        "/api/mindmaps/mm_1%0a",
        "/api/mindmaps/" + "a" * 129,
        "/api/mindmaps/%2e%2e/export",
        "/api/why?mindmap=..%2fsecret&path=x",
    ],
)
def test_ids_that_are_none(asking: Asking, maps: Maps, target: str) -> None:
    """No id leads out of the directory, however it is written."""
    (maps.path.parent / "secret.json").write_text("{}")
    assert asking.ask(target).status == 400


@pytest.mark.parametrize(
    "target",
    [
        "/../secret.json",
        "/api/mindmaps/../secret",
        "/api/mindmaps/mm_1/../../secret",
        "//etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/app.js%00.html",
        "/app.js/../../pyproject.toml",
        "/logo.png?../../etc/passwd/..",
        "*",
        "http://evil.example/api/mindmaps",
        "http://127.0.0.1/api/mindmaps",
        "secret",
    ],
)
def test_paths_that_are_none(asking: Asking, target: str) -> None:
    """No path leads to any other file, nor does a whole address in place of a path."""
    head = f"GET {target} HTTP/1.1\r\nHost: localhost:{asking.port}\r\nConnection: close\r\n\r\n"
    said = asking.raw(head.encode(), seconds=5)
    assert said.split(b" ", 2)[1] in (b"404", b"400") or b"this is logo.png" in said
    assert b"root:" not in said


def test_oversized_bodies(asking: Asking, document: Mindmap) -> None:
    """More than a request may have is refused as such, whole or in pieces, announced or not, on every route."""
    for size in (LARGEST_BODY + 1, 1 << 20):
        assert asking.post("/api/sync-git", b" " * size).error == (413, "too_large")
    head = "POST /api/sync-git HTTP/1.1\r\nHost: localhost:{}\r\nContent-Type: application/json\r\n{}\r\n\r\n"
    huge = head.format(asking.port, "Content-Length: 10000000000").encode()
    assert asking.raw(huge).startswith(b"HTTP/1.1 413 ")
    piece = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    chunked = head.format(asking.port, "Transfer-Encoding: chunked\r\nConnection: close").encode()
    assert asking.raw(chunked, *[piece] * 4, b"0\r\n\r\n").startswith(b"HTTP/1.1 413 ")
    assert asking.ask("/api/mindmaps", "GET", b" " * (LARGEST_BODY + 1)).error == (413, "too_large")
    assert asking.ask("/api/mindmaps").json[0]["id"] == document.id


def test_oversized_heads(asking: Asking) -> None:
    """A head without end is cut off."""
    begin = b"GET / HTTP/1.1\r\nHost: localhost:%d\r\n" % asking.port
    said = asking.raw(begin, b"X-Long: " + b"a" * 100_000, seconds=5)
    assert said == b"" or said.startswith(b"HTTP/1.1 4")
    assert asking.ask("/api/mindmaps").status == 200


def test_lies_about_length(asking: Asking) -> None:
    """Lengths that are none, or two, are refused, and nothing is read into the next request."""
    begin = b"POST /api/sync-git HTTP/1.1\r\nHost: localhost:%d\r\n" % asking.port
    for lie in (
        b"Content-Length: -1\r\n",
        b"Content-Length: " + b"9" * 10_000 + b"\r\n",
        b"Content-Length: 1e3\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: \xc2\xb2\r\n",
    ):
        said = asking.raw(begin + lie + b"Content-Type: application/json\r\n\r\n{}", seconds=2)
        assert said == b"" or said.startswith(b"HTTP/1.1 4"), lie
        assert said.count(b"HTTP/1.1") <= 2, lie
    assert asking.ask("/api/mindmaps").status == 200


def test_idlers(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes forever to ask, or to send, is left; others are answered meanwhile."""
    monkeypatch.setattr(server, "HEADER_SECONDS", 1.0)
    monkeypatch.setattr(server, "BODY_SECONDS", 1.0)
    place = tmp_path_factory.mktemp("idle")
    with viewing(place, page(place / "page")) as asking:
        slow = []
        for head in (b"", b"GET / HTTP/1.1\r\nHost: ", _half_a_body(asking.port)):
            for _ in range(20):
                connection = socket.create_connection(("127.0.0.1", asking.port), timeout=10)
                connection.sendall(head)
                slow.append(connection)
        assert asking.ask("/api/mindmaps").status == 200
        began = time.monotonic()
        for connection in slow:
            while connection.recv(1_000):
                pass
            connection.close()
        assert time.monotonic() - began < 8


def test_drip(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that comes byte by byte gains no time by it."""
    monkeypatch.setattr(server, "HEADER_SECONDS", 1.0)
    place = tmp_path_factory.mktemp("drip")
    with viewing(place, page(place / "page")) as asking:
        began = time.monotonic()
        with suppress(BrokenPipeError, ConnectionResetError):
            assert asking.raw(*[b"G"] * 100, seconds=5, pause=0.1) == b""
        assert time.monotonic() - began < 8


def test_connections_are_bounded(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More connections than are taken are closed at once, and the viewer goes on when they have gone."""
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 10)
    place = tmp_path_factory.mktemp("many")
    with viewing(place, page(place / "page")) as asking:
        many = [socket.create_connection(("127.0.0.1", asking.port), timeout=5) for _ in range(30)]
        closed = 0
        for connection in many[10:]:
            closed += connection.recv(1) == b""
        assert closed == 20
        for connection in many:
            connection.close()
        until(lambda: _is_answered(asking))


def test_readers_who_do_not_read(asking: Asking, maps: Maps, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who ask for large maps and read nothing keep nobody waiting, and are left after a while."""
    document = a_map(*({"label": f"{number} " + "x" * 10_000} for number in range(900)))
    maps.create(document)
    monkeypatch.setattr(handlers, "SENDING_SECONDS", 2.0)
    stalled = []
    for _ in range(50):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        connection.settimeout(5)
        connection.connect(("127.0.0.1", asking.port))
        head = f"GET /api/mindmaps/{document.id} HTTP/1.1\r\nHost: localhost:{asking.port}\r\n\r\n"
        connection.sendall(head.encode())
        stalled.append(connection)
    whole = len(asking.ask(f"/api/mindmaps/{document.id}").content)
    assert whole > 9_000_000
    time.sleep(3)
    for connection in stalled:
        said = 0
        with suppress(ConnectionResetError):
            while some := len(connection.recv(1 << 20)):
                said += some
        assert said < whole  # cut off, and not merely late
        connection.close()
    assert asking.ask("/api/mindmaps").status == 200


def test_anything_at_all(asking: Asking, document: Mindmap, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever bytes are sent, the viewer finds no fault with itself, and goes on."""
    chance = random.Random(7)  # noqa: S311 - repeatable noise, nothing secret
    ours = b"Host: localhost:%d\r\nConnection: close\r\n\r\n" % asking.port
    alphabet = b'/.%2e%2f%00?=&;:*\\ \t\r\n\x00\x7f\xff\xc3\xa9abcGETPOST{}[]"0123456789-_'
    begin = [
        b"GET /api/mindmaps/",
        b"GET /api/why?mindmap=" + document.id.encode() + b"&path=",
        b"GET /api/mindmaps/" + document.id.encode() + b"/export?format=",
        b"HEAD /",
        b"POST /api/sync-git",
        b"",
    ]
    for number in range(300):
        noise = bytes(chance.choices(alphabet, k=chance.randrange(1, 60)))
        said = asking.raw(begin[number % len(begin)] + noise + b" HTTP/1.1\r\n" + ours, seconds=5)
        assert said == b"" or said.split(b" ", 2)[1][:1] in (b"2", b"4"), noise
    assert "failed" not in caplog.text and "Traceback" not in caplog.text
    assert asking.ask("/api/mindmaps").status == 200


def _is_answered(asking: Asking) -> bool:
    with suppress(OSError, HTTPException):
        return asking.ask("/api/mindmaps").status == 200
    return False


def _half_a_body(port: int) -> bytes:
    return (
        f"POST /api/sync-git HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n"
        "Content-Length: 100\r\n\r\n{"
    ).encode()
