"""The viewer's HTTP server: port selection, start and shutdown."""

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
from serve.backend import Backend
from serve.viewer import discovery
from serve.viewer.discovery import HOST
from serve.viewer.handlers import NotFoundHandler
from serve.viewer.responses import Compression
from serve.viewer.routes import build_routes
from serve.viewer.state import ViewerState
from stores.errors import LineageError
from stores.mindmap_files import FolderUnusable

# Not registered with IANA, and not used by common developer tools.
DEFAULT_PORT: Final = 4870
# Ports to try, starting with the requested one.
PORT_ATTEMPTS: Final = 50
LAST_PORT: Final = 65_535
BACKLOG: Final = 512
# A client that takes longer to send its request blocks a connection that others need.
HEADER_TIMEOUT_SECONDS: Final = 20.0
BODY_TIMEOUT_SECONDS: Final = 15.0
MAX_HEADER_BYTES: Final = 16 << 10
# The listeners (`MAX_LISTENERS`) and the other requests of a few pages. Each connection is an open file.
MAX_CONNECTIONS: Final = 800
OPEN_FILE_LIMIT: Final = 2_048
# Time for running slow tasks to finish after a signal; unfinished ones are abandoned.
SHUTDOWN_SECONDS: Final = 5.0
TICK_SECONDS: Final = 0.5

logger = logging.getLogger(__name__)


class PortUnavailable(LineageError):
    """No port is available."""


@dataclass(frozen=True, slots=True)
class BoundSocket:
    """A listening socket and its port."""

    socket: socket.socket
    port: int


def bind_port(port: int) -> BoundSocket:
    """Listen on this port, or on the next free one if it is in use; 0 means any free port."""
    last = min(port + PORT_ATTEMPTS - 1, LAST_PORT) if port else 0
    for candidate in range(port, last + 1):
        try:
            listener = socket.create_server((HOST, candidate), backlog=BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise PortUnavailable(
                    f"Cannot listen on port {candidate}: {error.strerror}.",
                    hint="Choose another with --port.",
                ) from error
        else:
            listener.setblocking(False)
            return BoundSocket(listener, listener.getsockname()[1])
    raise PortUnavailable(f"Ports {port} to {last} are all in use.", hint="Choose another with --port.")


class _LimitedServer(HTTPServer):
    """HTTP server that closes connections above MAX_CONNECTIONS."""

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            stream.close()
        else:
            super().handle_stream(stream, address)


def run_viewer(folder: Path, listener: BoundSocket, backend: Backend, on_ready: Callable[[], None]) -> None:
    """Serve the maps of a directory until SIGINT or SIGTERM. `on_ready` is called once the page can be opened."""
    create_directory(folder)
    raise_file_limit()
    # Hides Tornado's messages about malformed requests.
    logging.getLogger("tornado.general").setLevel(logging.WARNING)
    has_finished = asyncio.run(_run_until_shutdown(folder, listener, backend, on_ready))
    if not has_finished:
        # A normal exit would wait for the threads, however long git takes.
        logger.warning("event=ended running tasks were abandoned")
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(0)


def create_directory(folder: Path) -> None:
    """Create the data directory. Raise FolderUnusable if that fails."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FolderUnusable(
            f"Cannot use {folder} as data directory: {error.strerror or error}.",
            hint="Name another directory in MINDMAP_DATA_DIR.",
        ) from error


def raise_file_limit() -> None:
    """Raise the limit of open files to one for each connection; macOS starts with 256."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = OPEN_FILE_LIMIT if hard == resource.RLIM_INFINITY else min(OPEN_FILE_LIMIT, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


async def _run_until_shutdown(
    folder: Path, listener: BoundSocket, backend: Backend, on_ready: Callable[[], None]
) -> bool:
    """Run the server. Return True if all slow tasks had finished at shutdown."""
    with discovery.publish_address(folder, listener.port) as address_file:
        viewer = ViewerState(folder, listener.port, backend)
        http_common.set_event_on_signals(viewer.shutdown)
        await viewer.watcher.start()
        server = start_server(viewer, listener)
        try:
            on_ready()
            while not viewer.shutdown.is_set():
                address_file.publish_if_free()
                await http_common.wait_for_event(viewer.shutdown, TICK_SECONDS)
        finally:
            has_finished = await stop_server(viewer, server)
    return has_finished


def start_server(viewer: ViewerState, listener: BoundSocket) -> HTTPServer:
    """Start the HTTP server on a listening socket."""
    application = Application(
        build_routes(viewer),
        default_handler_class=NotFoundHandler,
        default_handler_args={"viewer": viewer},
        transforms=[Compression],
        log_function=http_common.log_request,
    )
    server = _LimitedServer(
        application,
        max_header_size=MAX_HEADER_BYTES,
        idle_connection_timeout=HEADER_TIMEOUT_SECONDS,
        body_timeout=BODY_TIMEOUT_SECONDS,
    )
    server.add_socket(listener.socket)
    return server


async def stop_server(viewer: ViewerState, server: HTTPServer) -> bool:
    """Finish running requests, close the event streams and stop. Return True if all slow tasks have finished."""
    server.stop()
    viewer.changes.close()
    await viewer.watcher.stop()
    deadline = asyncio.get_running_loop().time() + SHUTDOWN_SECONDS
    while (
        viewer.threads.slow_tasks or viewer.listener_count
    ) and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.02)
    viewer.threads.shutdown()
    with suppress(TimeoutError):
        await asyncio.wait_for(server.close_all_connections(), 1.0)
    return not viewer.threads.slow_tasks
