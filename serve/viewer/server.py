"""The port, or the next one that is free.

One running viewer: its port, its routes, its end.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream
from tornado.web import Application

from serve import http_common
from serve.backend import Answering
from serve.viewer import discovery
from serve.viewer.discovery import HOST
from serve.viewer.handlers import NotFound
from serve.viewer.routes import routes
from serve.viewer.state import Viewer
from stores.errors import LineageError
from stores.mindmap_files import FolderUnusable

# Of no service that is registered, and of no program that developers commonly run.
DEFAULT_PORT: Final = 4870
# More viewers than anybody has.
TRIES: Final = 50
LAST_PORT: Final = 65_535
BACKLOG: Final = 512


class NoPort(LineageError):
    """No port could be had."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A socket that listens on a port."""

    socket: socket.socket
    port: int


def bound(port: int) -> Bound:
    """Listen on this port or, where it is taken, on the next that is free; 0 is any."""
    last = min(port + TRIES - 1, LAST_PORT) if port else 0
    for tried in range(port, last + 1):
        try:
            listening = socket.create_server((HOST, tried), backlog=BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise NoPort(
                    f"Port {tried} cannot be had: {error.strerror}.", hint="Name another with --port."
                ) from error
        else:
            listening.setblocking(False)
            return Bound(listening, listening.getsockname()[1])
    raise NoPort(f"The ports {port} to {last} are all taken.", hint="Name another with --port.")


# Whoever takes longer to say what they want holds a connection that others need.
HEADER_SECONDS: Final = 20.0
BODY_SECONDS: Final = 15.0
LARGEST_HEADER: Final = 16 << 10
# Above what listens, what else a few pages ask for at once; each is an open file.
MOST_CONNECTIONS: Final = 800
OPEN_FILES: Final = 2_048
# For what runs when the viewer is told to end; what is half done is then left as it was.
FAREWELL_SECONDS: Final = 5.0
TICK_SECONDS: Final = 0.5

logger = logging.getLogger(__name__)


class _Server(HTTPServer):
    """Takes so many connections and no more."""

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        if len(self._connections) >= MOST_CONNECTIONS:
            stream.close()
        else:
            super().handle_stream(stream, address)


def serve(folder: Path, bound: Bound, answering: Answering, ready: Callable[[], None]) -> None:
    """Show the maps of a folder until told to end; `ready` is called once when they can be looked at."""
    make(folder)
    raise_file_limit()
    # Who sends what is no HTTP is refused; that is nothing to tell a person of.
    logging.getLogger("tornado.general").setLevel(logging.WARNING)
    ended = asyncio.run(_serve(folder, bound, answering, ready))
    if not ended:
        # Python would wait for its threads, however long git takes in one.
        logger.warning("event=ended what was running is left")
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(0)


def make(folder: Path) -> None:
    """Have a folder to watch."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FolderUnusable(
            f"{folder} cannot be a data directory: {error.strerror or error}.",
            hint="Name another folder in MINDMAP_DATA_DIR.",
        ) from error


def raise_file_limit() -> None:
    """Leave to open a file for each connection; macOS begins with 256."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _serve(folder: Path, bound: Bound, answering: Answering, ready: Callable[[], None]) -> bool:
    """Whether everything had ended in time."""
    with discovery.announced(folder, bound.port) as announcement:
        viewer = Viewer(folder, bound.port, answering)
        http_common.end_on_signals(viewer.ending)
        await viewer.watching.begin()
        server = started(viewer, bound)
        try:
            ready()
            while not viewer.ending.is_set():
                announcement.renew()
                await http_common.pause(viewer.ending, TICK_SECONDS)
        finally:
            ended = await stopped(viewer, server)
    return ended


def started(viewer: Viewer, bound: Bound) -> HTTPServer:
    """Answer on this port."""
    application = Application(
        routes(viewer),
        default_handler_class=NotFound,
        default_handler_args={"viewer": viewer},
        log_function=http_common.log_answer,
    )
    server = _Server(
        application,
        max_header_size=LARGEST_HEADER,
        idle_connection_timeout=HEADER_SECONDS,
        body_timeout=BODY_SECONDS,
    )
    server.add_socket(bound.socket)
    return server


async def stopped(viewer: Viewer, server: HTTPServer) -> bool:
    """Answer what was asked, tell those who listen that it is over, and end; whether all of it did."""
    server.stop()
    viewer.news.end()
    await viewer.watching.end()
    deadline = asyncio.get_running_loop().time() + FAREWELL_SECONDS
    while (viewer.threads.working or viewer.listeners) and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.02)
    viewer.threads.end()
    with suppress(TimeoutError):
        await asyncio.wait_for(server.close_all_connections(), 1.0)
    return not viewer.threads.working
