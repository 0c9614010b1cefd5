"""Rejected requests: foreign hosts and origins, path tricks, oversized and malformed requests, idle clients."""

from __future__ import annotations

import random
import socket
import time
from contextlib import suppress
from http.client import HTTPException

import pytest
from tornado.httputil import HTTPHeaders

from mindmap.document import Mindmap
from mindmap.map_store import MapStore
from serve.viewer import handlers, server
from serve.viewer.handlers import MAX_BODY_BYTES
from serve.viewer.responses import ForeignHost, ForeignOrigin, RequestOriginPolicy
from tests.mindmap.sample_maps import create_map
from tests.serve.viewer.helpers import ViewerClient, start_viewer, wait_until, write_page_files

ALL_TARGETS = [
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


@pytest.mark.parametrize(("method", "target"), ALL_TARGETS)
def test_foreign_host(client: ViewerClient, method: str, target: str) -> None:
    """Every route rejects another host, another port and an empty host before any other check."""
    port = client.port
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
        answer = client.request(target, method, Host=host)
        assert answer.status in ((403,) if host else (400, 403)), host
        if method != "HEAD" and host:
            assert answer.error == (403, "foreign_host"), host


def test_accepted_hosts(client: ViewerClient) -> None:
    """The three loopback names are accepted in any case."""
    for name in ("localhost", "LocalHost", "127.0.0.1", "[::1]"):
        assert client.request("/api/mindmaps", Host=f"{name}:{client.port}").status == 200
    assert (
        "localhost" in RequestOriginPolicy(80).allowed_hosts
        and "localhost" not in RequestOriginPolicy(8080).allowed_hosts
    )


@pytest.mark.parametrize("port", [80, 4870])
def test_hosts_that_resemble_an_accepted_one(port: int) -> None:
    """A host is compared as a whole: one that begins or ends with an accepted name or port is rejected."""
    policy = RequestOriginPolicy(port)
    for name in ("localhost", "127.0.0.1", "[::1]"):
        policy.check_host(HTTPHeaders({"Host": f"{name}:{port}"}))
        resembling = [
            *(f"{name}{end}" for end in (".evil.example", "x", "@evil.example", ":", "/", ":x", " ")),
            *(f"{begin}{name}" for begin in ("evil.example.", "x", "evil.example@", ":", "/", " ")),
        ]
        hosts = [*resembling, *(f"{host}:{port}" for host in resembling)]
        hosts += [
            f"{name}:{port}{end}" for end in ("0", ".evil.example", "@evil.example", "/", " ", f":{port}")
        ]
        hosts += [f"{name}:0{port}", f"{name}:-{port}", f"{name.strip('[]')}:{port}x"]
        for host in hosts:
            with pytest.raises(ForeignHost):
                policy.check_host(HTTPHeaders({"Host": host}))


def test_origins_that_resemble_the_own_one() -> None:
    """An origin is compared as a whole too."""
    policy = RequestOriginPolicy(4870)
    for host in ("localhost:4870", "127.0.0.1:4870", "[::1]:4870"):
        policy.check_origin(HTTPHeaders({"Host": host, "Origin": f"http://{host}"}))
        for origin in (
            *(f"http://{host}{end}" for end in ("0", ".evil.example", "@evil.example", "/", "/x")),
            *(f"{begin}{host}" for begin in ("http://x", "http://evil.example@", "https://", "xhttp://", "")),
        ):
            with pytest.raises(ForeignOrigin):
                policy.check_origin(HTTPHeaders({"Host": host, "Origin": origin}))
        for site in ("same-origin-x", "same-site", "cross-site", "none-x", "x-none", ""):
            with pytest.raises(ForeignOrigin):
                policy.check_origin(HTTPHeaders({"Host": host, "Sec-Fetch-Site": site}))


def test_missing_or_repeated_host(client: ViewerClient) -> None:
    """Requests without a host or with two are rejected, in every HTTP version."""
    ours = b"Host: localhost:%d\r\n" % client.port
    for head in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + ours + ours + b"\r\n",
        b"GET / HTTP/1.1\r\n" + ours + b"Host: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost:%d, evil.example\r\n\r\n" % client.port,
    ):
        assert client.send_raw(head, seconds=2).split(b" ", 2)[1] in (b"400", b"403"), head


def test_foreign_origin(client: ViewerClient, document: Mindmap) -> None:
    """Pages of other sites cannot sync, read or listen. The viewer's own page and programs without an origin can."""
    request = {"mindmapId": document.id}
    ours = f"http://127.0.0.1:{client.port}"
    foreign = [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://localhost:{client.port}"},  # the viewer, but under another name than `Host`
        {"Origin": f"https://127.0.0.1:{client.port}"},
        {"Origin": f"{ours}1"},
        {"Origin": ours, "Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ]
    for headers in foreign:
        assert client.post("/api/sync-git", request, **headers).error == (403, "foreign_origin"), headers
        for target in ("/api/mindmaps", f"/api/mindmaps/{document.id}", "/events", "/api/why"):
            assert client.request(target, **headers).error == (403, "foreign_origin"), headers
    for headers in ({}, {"Origin": ours}, {"Origin": ours, "Sec_Fetch_Site": "same-origin"}):
        assert client.post("/api/sync-git", request, **headers).error == (409, "no_workspace")
        assert client.request("/api/mindmaps", **headers).status == 200
    # Links to the viewer in a chat or mail work.
    assert client.request("/", Sec_Fetch_Site="cross-site").status == 200


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
def test_invalid_ids(client: ViewerClient, maps: MapStore, target: str) -> None:
    """No id leads out of the data directory, however it is encoded."""
    (maps.path.parent / "secret.json").write_text("{}")
    assert client.request(target).status == 400


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
def test_invalid_paths(client: ViewerClient, target: str) -> None:
    """No path gives access to other files, nor does a full URL in place of a path."""
    head = f"GET {target} HTTP/1.1\r\nHost: localhost:{client.port}\r\nConnection: close\r\n\r\n"
    received = client.send_raw(head.encode(), seconds=5)
    assert received.split(b" ", 2)[1] in (b"404", b"400") or b"this is logo.png" in received
    assert b"root:" not in received


def test_oversized_bodies(client: ViewerClient, document: Mindmap) -> None:
    """Oversized bodies are rejected on every route, with a content length or chunked."""
    for size in (MAX_BODY_BYTES + 1, 1 << 20):
        assert client.post("/api/sync-git", b" " * size).error == (413, "too_large")
    head = "POST /api/sync-git HTTP/1.1\r\nHost: localhost:{}\r\nContent-Type: application/json\r\n{}\r\n\r\n"
    huge = head.format(client.port, "Content-Length: 10000000000").encode()
    assert client.send_raw(huge).startswith(b"HTTP/1.1 413 ")
    piece = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    chunked = head.format(client.port, "Transfer-Encoding: chunked\r\nConnection: close").encode()
    assert client.send_raw(chunked, *[piece] * 4, b"0\r\n\r\n").startswith(b"HTTP/1.1 413 ")
    assert client.request("/api/mindmaps", "GET", b" " * (MAX_BODY_BYTES + 1)).error == (413, "too_large")
    assert client.request("/api/mindmaps").json[0]["id"] == document.id


def test_oversized_headers(client: ViewerClient) -> None:
    """An oversized request header is cut off."""
    begin = b"GET / HTTP/1.1\r\nHost: localhost:%d\r\n" % client.port
    received = client.send_raw(begin, b"X-Long: " + b"a" * 100_000, seconds=5)
    assert received == b"" or received.startswith(b"HTTP/1.1 4")
    assert client.request("/api/mindmaps").status == 200


def test_invalid_content_length(client: ViewerClient) -> None:
    """Invalid or repeated content lengths are rejected, and no rest is taken for the next request."""
    begin = b"POST /api/sync-git HTTP/1.1\r\nHost: localhost:%d\r\n" % client.port
    for headers in (
        b"Content-Length: -1\r\n",
        b"Content-Length: " + b"9" * 10_000 + b"\r\n",
        b"Content-Length: 1e3\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: \xc2\xb2\r\n",
    ):
        received = client.send_raw(begin + headers + b"Content-Type: application/json\r\n\r\n{}", seconds=2)
        assert received == b"" or received.startswith(b"HTTP/1.1 4"), headers
        assert received.count(b"HTTP/1.1") <= 2, headers
    assert client.request("/api/mindmaps").status == 200


def test_idle_clients(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections without a complete request are closed after a timeout; other clients are answered meanwhile."""
    monkeypatch.setattr(server, "HEADER_TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(server, "BODY_TIMEOUT_SECONDS", 1.0)
    directory = tmp_path_factory.mktemp("idle")
    with start_viewer(directory, write_page_files(directory / "page")) as client:
        slow = []
        for head in (b"", b"GET / HTTP/1.1\r\nHost: ", build_incomplete_request(client.port)):
            for _ in range(20):
                connection = socket.create_connection(("127.0.0.1", client.port), timeout=10)
                connection.sendall(head)
                slow.append(connection)
        assert client.request("/api/mindmaps").status == 200
        started_at = time.monotonic()
        for connection in slow:
            while connection.recv(1_000):
                pass
            connection.close()
        assert time.monotonic() - started_at < 8


def test_slow_request_header(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request header sent byte by byte does not extend the timeout."""
    monkeypatch.setattr(server, "HEADER_TIMEOUT_SECONDS", 1.0)
    directory = tmp_path_factory.mktemp("drip")
    with start_viewer(directory, write_page_files(directory / "page")) as client:
        started_at = time.monotonic()
        with suppress(BrokenPipeError, ConnectionResetError):
            assert client.send_raw(*[b"G"] * 100, seconds=5, pause=0.1) == b""
        assert time.monotonic() - started_at < 8


def test_connection_limit(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections above the limit are closed at once, and the viewer answers again when the others have ended."""
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 10)
    directory = tmp_path_factory.mktemp("many")
    with start_viewer(directory, write_page_files(directory / "page")) as client:
        connections = [socket.create_connection(("127.0.0.1", client.port), timeout=5) for _ in range(30)]
        closed = 0
        for connection in connections[10:]:
            closed += connection.recv(1) == b""
        assert closed == 20
        for connection in connections:
            connection.close()
        wait_until(lambda: is_responding(client))


def test_clients_that_do_not_read(
    client: ViewerClient, maps: MapStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that request large maps and do not read are disconnected after a while, and delay nobody."""
    document = create_map(*({"label": f"{number} " + "x" * 10_000} for number in range(900)))
    maps.create(document)
    monkeypatch.setattr(handlers, "SEND_TIMEOUT_SECONDS", 2.0)
    connections = []
    for _ in range(50):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        connection.settimeout(5)
        connection.connect(("127.0.0.1", client.port))
        head = f"GET /api/mindmaps/{document.id} HTTP/1.1\r\nHost: localhost:{client.port}\r\n\r\n"
        connection.sendall(head.encode())
        connections.append(connection)
    full_size = len(client.request(f"/api/mindmaps/{document.id}").content)
    assert full_size > 9_000_000
    time.sleep(3)
    for connection in connections:
        received = 0
        with suppress(ConnectionResetError):
            while size := len(connection.recv(1 << 20)):
                received += size
        assert received < full_size  # cut off, not just late
        connection.close()
    assert client.request("/api/mindmaps").status == 200


def test_random_requests(client: ViewerClient, document: Mindmap, caplog: pytest.LogCaptureFixture) -> None:
    """Random requests cause no internal error, and the viewer keeps answering."""
    generator = random.Random(7)  # noqa: S311 - reproducible test data
    end = b"Host: localhost:%d\r\nConnection: close\r\n\r\n" % client.port
    alphabet = b'/.%2e%2f%00?=&;:*\\ \t\r\n\x00\x7f\xff\xc3\xa9abcGETPOST{}[]"0123456789-_'
    beginnings = [
        b"GET /api/mindmaps/",
        b"GET /api/why?mindmap=" + document.id.encode() + b"&path=",
        b"GET /api/mindmaps/" + document.id.encode() + b"/export?format=",
        b"HEAD /",
        b"POST /api/sync-git",
        b"",
    ]
    for number in range(300):
        noise = bytes(generator.choices(alphabet, k=generator.randrange(1, 60)))
        received = client.send_raw(
            beginnings[number % len(beginnings)] + noise + b" HTTP/1.1\r\n" + end, seconds=5
        )
        assert received == b"" or received.split(b" ", 2)[1][:1] in (b"2", b"4"), noise
    assert "failed" not in caplog.text and "Traceback" not in caplog.text
    assert client.request("/api/mindmaps").status == 200


def is_responding(client: ViewerClient) -> bool:
    with suppress(OSError, HTTPException):
        return client.request("/api/mindmaps").status == 200
    return False


def build_incomplete_request(port: int) -> bytes:
    return (
        f"POST /api/sync-git HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n"
        "Content-Length: 100\r\n\r\n{"
    ).encode()
