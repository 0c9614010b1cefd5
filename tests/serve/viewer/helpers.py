"""Viewers for tests: in this process with a page of their own, or as the program; asked over real sockets."""

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
from serve.backend import Answering, Own
from serve.viewer.responses import FILES, Page
from serve.viewer.server import bound, started, stopped
from serve.viewer.state import Viewer

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
class Asking:
    """A viewer that is asked over HTTP; `viewer` is the one in this process, if it is."""

    port: int
    viewer: Viewer | None = None
    loop: asyncio.AbstractEventLoop | None = None

    def ask(
        self, target: str, method: str = "GET", body: bytes | None = None, /, **headers: str | None
    ) -> Response:
        """What comes back; a header that is None is not sent, not even `Host`."""
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.putrequest(method, target, skip_host="Host" in said, skip_accept_encoding=True)
            if body is not None:
                said.setdefault("Content-Length", str(len(body)))
            for name, value in said.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            lowered = {name.lower(): value for name, value in answer.getheaders()}
            return Response(answer.status, lowered, answer.read())
        finally:
            connection.close()

    def post(self, target: str, said: object, **headers: str | None) -> Response:
        body = said if isinstance(said, bytes) else json.dumps(said).encode()
        return self.ask(target, "POST", body, **{"Content_Type": "application/json", **headers})

    def raw(self, *pieces: bytes, seconds: float = 10, pause: float = 0) -> bytes:
        """Bytes as they are, and whatever comes back until the viewer closes or has said nothing for so long."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
            said = b""
            try:
                while some := connection.recv(65_536):
                    said += some
            except (TimeoutError, ConnectionResetError):
                pass
            return said

    @contextmanager
    def listening(self, last: str = "") -> Iterator[Listener]:
        listener = Listener(self.port, last)
        try:
            yield listener
        finally:
            listener.close()


@dataclass
class Listener:
    """A browser's end of the stream: each event as it came, with the time it came at."""

    port: int
    last: str = ""
    lines: list[str] = field(default_factory=list)
    events: queue.Queue[tuple[float, str, dict[str, str]]] = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        self.connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        self.connection.request("GET", "/events", headers={"Last-Event-ID": self.last} if self.last else {})
        self._socket = self.connection.sock
        self.response = self.connection.getresponse()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def next(self, seconds: float = 10) -> dict[str, str]:
        return self.events.get(timeout=seconds)[2]

    def drained(self, seconds: float) -> list[dict[str, str]]:
        """What comes until nothing has for so long."""
        found = []
        while True:
            try:
                found.append(self.events.get(timeout=seconds)[2])
            except queue.Empty:
                return found

    def close(self) -> None:
        # The thread is in the middle of reading: its socket is ended, not closed under it.
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


def page(folder: Path) -> Page:
    """A page of four small files."""
    folder.mkdir()
    for name, _ in FILES.values():
        (folder / name).write_bytes(f"this is {name}\n".encode() * 300)
    return Page(folder)


@contextmanager
def viewing(folder: Path, shown: Page, answering: Answering | None = None) -> Iterator[Asking]:
    """A viewer in this process, on a port of its own."""
    begun: queue.Queue[Asking] = queue.Queue()
    thread = threading.Thread(
        target=asyncio.run, args=(_run(folder, shown, answering or Own(folder), begun),), daemon=True
    )
    thread.start()
    asking = begun.get(timeout=20)
    try:
        yield asking
    finally:
        assert asking.viewer and asking.loop
        asking.loop.call_soon_threadsafe(asking.viewer.ending.set)
        thread.join(20)
        assert not thread.is_alive()


async def _run(folder: Path, shown: Page, answering: Answering, begun: queue.Queue[Asking]) -> None:
    taken = bound(0)
    viewer = Viewer(folder, taken.port, answering, shown)
    await viewer.watching.begin()
    server = started(viewer, taken)
    begun.put(Asking(taken.port, viewer, asyncio.get_running_loop()))
    await viewer.ending.wait()
    assert await stopped(viewer, server)


@contextmanager
def program(folder: Path, *arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`mindmap viewer` as a process, and the first line it prints."""
    surroundings = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MINDMAP_DATA_DIR": str(folder),
        "LINEAGE_NO_DAEMON": "1",
        **environment,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "serve.cli.mindmap", "viewer", *arguments],
        env=surroundings,
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


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
