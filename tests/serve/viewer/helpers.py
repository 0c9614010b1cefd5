"""Viewers for tests, in this process or as a program, and a client that sends real HTTP requests."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import serve
from serve.backend import Backend, InProcessBackend
from serve.viewer.responses import PAGE_FILES
from serve.viewer.server import bind_port, start_server, stop_server
from serve.viewer.state import ViewerState

ROOT = Path(serve.__file__).parent.parent


@dataclass(frozen=True)
class Response:
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def error(self) -> tuple[int, str]:
        assert set(self.json) == {"error"} and set(self.json["error"]) == {"code", "message", "hint"}
        assert self.headers["content-type"] == "application/json; charset=utf-8"
        return self.status, self.json["error"]["code"]


@dataclass(frozen=True)
class ViewerClient:
    """HTTP client of a viewer; `viewer` and `loop` are set if it runs in this process."""

    port: int
    viewer: ViewerState | None = None
    loop: asyncio.AbstractEventLoop | None = None

    def request(
        self, target: str, method: str = "GET", body: bytes | None = None, /, **headers: str | None
    ) -> Response:
        """Send a request and return the response. A header that is None is not sent, not even `Host`."""
        all_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.putrequest(method, target, skip_host="Host" in all_headers, skip_accept_encoding=True)
            if body is not None:
                all_headers.setdefault("Content-Length", str(len(body)))
            for name, value in all_headers.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            response_headers = {name.lower(): value for name, value in response.getheaders()}
            return Response(response.status, response_headers, response.read())
        finally:
            connection.close()

    def post(self, target: str, content: object, **headers: str | None) -> Response:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return self.request(target, "POST", body, **{"Content_Type": "application/json", **headers})

    def send_raw(self, *pieces: bytes, seconds: float = 10, pause: float = 0) -> bytes:
        """Send bytes as they are; return what arrives until the viewer closes or is silent for `seconds`."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
            received = b""
            try:
                while chunk := connection.recv(65_536):
                    received += chunk
            except (TimeoutError, ConnectionResetError):
                pass
            return received

    @contextmanager
    def listen(self, last_event_id: str = "") -> Iterator[EventListener]:
        """Open the event stream; close it at the end of the block."""
        listener = EventListener(self.port, last_event_id)
        try:
            yield listener
        finally:
            listener.close()


@dataclass
class EventListener:
    """Client of the event stream; collects lines, and events as (time, id, data)."""

    port: int
    last_event_id: str = ""
    lines: list[str] = field(default_factory=list)
    events: queue.Queue[tuple[float, str, dict[str, str]]] = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        self.connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        self.connection.request(
            "GET", "/events", headers={"Last-Event-ID": self.last_event_id} if self.last_event_id else {}
        )
        self._socket = self.connection.sock
        self.response = self.connection.getresponse()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def receive_event(self, seconds: float = 10) -> dict[str, str]:
        return self.events.get(timeout=seconds)[2]

    def drain(self, seconds: float) -> list[dict[str, str]]:
        """Return the events that arrive, until no event arrives for this many seconds."""
        events = []
        while True:
            try:
                events.append(self.events.get(timeout=seconds)[2])
            except queue.Empty:
                return events

    def close(self) -> None:
        # Shut down, not closed: the thread is still reading from the socket.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self.thread.join(5)
        self.response.close()
        self.connection.close()

    def _read(self) -> None:
        event_id = ""
        try:
            for raw in self.response:
                line = raw.decode().rstrip("\n")
                self.lines.append(line)
                if line.startswith("id: "):
                    event_id = line.removeprefix("id: ")
                if line.startswith("data: "):
                    self.events.put((time.monotonic(), event_id, json.loads(line.removeprefix("data: "))))
        except (OSError, ValueError):
            pass


def write_page_files(directory: Path) -> Path:
    """Create a page of four small files, and return its directory."""
    directory.mkdir()
    for name, _ in PAGE_FILES.values():
        (directory / name).write_bytes(f"this is {name}\n".encode() * 300)
    return directory


@contextmanager
def start_viewer(
    data_directory: Path, page_directory: Path, backend: Backend | None = None
) -> Iterator[ViewerClient]:
    """Run a viewer in a thread of this process, on a free port."""
    clients: queue.Queue[ViewerClient] = queue.Queue()
    thread = threading.Thread(
        target=asyncio.run,
        args=(
            _run_viewer(data_directory, page_directory, backend or InProcessBackend(data_directory), clients),
        ),
        daemon=True,
    )
    thread.start()
    client = clients.get(timeout=20)
    try:
        yield client
    finally:
        assert client.viewer and client.loop
        client.loop.call_soon_threadsafe(client.viewer.shutdown.set)
        thread.join(20)
        assert not thread.is_alive()


async def _run_viewer(
    data_directory: Path, page_directory: Path, backend: Backend, clients: queue.Queue[ViewerClient]
) -> None:
    bound_socket = bind_port(0)
    viewer = ViewerState(data_directory, bound_socket.port, backend, page_directory)
    await viewer.watcher.start()
    server = start_server(viewer, bound_socket)
    clients.put(ViewerClient(bound_socket.port, viewer, asyncio.get_running_loop()))
    await viewer.shutdown.wait()
    assert await stop_server(viewer, server)


@contextmanager
def start_viewer_process(
    data_directory: Path, *arguments: str, **environment: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `mindmap viewer`; yield the process and the first line of its output."""
    full_environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MINDMAP_DATA_DIR": str(data_directory),
        "LINEAGE_NO_DAEMON": "1",
        **environment,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "serve.cli.mindmap", "viewer", *arguments],
        env=full_environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.02)
