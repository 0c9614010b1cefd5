"""HTTP server of the mindmap viewer: port selection, start and shutdown."""

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
# Number of ports to try, starting with the requested one.
PORT_ATTEMPTS: Final = 50
LAST_PORT: Final = 65_535
BACKLOG: Final = 512
# Longest time for a client to send its request. A slower client occupies a connection that others need.
HEADER_TIMEOUT_SECONDS: Final = 20.0
BODY_TIMEOUT_SECONDS: Final = 15.0
MAX_HEADER_BYTES: Final = 16 << 10
# Event streams (`MAX_LISTENERS`) and the other requests of a few pages. Each connection is an open file.
MAX_CONNECTIONS: Final = 800
OPEN_FILE_LIMIT: Final = 2_048
# Time for slow tasks to finish after a signal; the viewer does not wait longer.
SHUTDOWN_SECONDS: Final = 5.0
TICK_SECONDS: Final = 0.5

logger = logging.getLogger(__name__)


class PortUnavailable(LineageError):
    """Error if the viewer can listen on none of the tried ports."""


@dataclass(frozen=True, slots=True)
class BoundSocket:
    """A listening socket and its port."""

    socket: socket.socket
    port: int


def bind_port(port: int) -> BoundSocket:
    """Listen on this port, or on the next free one if it is in use; 0 means any free port. Raises PortUnavailable."""
    last_port = min(port + PORT_ATTEMPTS - 1, LAST_PORT) if port else 0
    for tried_port in range(port, last_port + 1):
        try:
            listener = socket.create_server((HOST, tried_port), backlog=BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise PortUnavailable(
                    f"Cannot listen on port {tried_port}: {error.strerror}.",
                    hint="Choose another port with --port.",
                ) from error
        else:
            listener.setblocking(False)
            return BoundSocket(listener, listener.getsockname()[1])
    raise PortUnavailable(
        f"Ports {port} to {last_port} are all in use.", hint="Choose another port with --port."
    )


class _LimitedServer(HTTPServer):
    """HTTP server that closes connections above MAX_CONNECTIONS."""

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            stream.close()
        else:
            super().handle_stream(stream, address)


def run_viewer(
    directory: Path, listener: BoundSocket, backend: Backend, on_ready: Callable[[], None]
) -> None:
    """Serve the maps of a directory until SIGINT or SIGTERM. `on_ready` is called when the page can be opened."""
    create_directory(directory)
    raise_file_limit()
    # Tornado logs malformed requests as information; they are not shown.
    logging.getLogger("tornado.general").setLevel(logging.WARNING)
    has_finished = asyncio.run(_run_until_shutdown(directory, listener, backend, on_ready))
    if not has_finished:
        # A normal exit would wait for the threads, however long git takes.
        logger.warning("event=ended running tasks were abandoned")
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(0)


def create_directory(directory: Path) -> None:
    """Create the data directory. Raise FolderUnusable if that fails."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FolderUnusable(
            f"Cannot use {directory} as data directory: {error.strerror or error}.",
            hint="Set MINDMAP_DATA_DIR to another directory.",
        ) from error


def raise_file_limit() -> None:
    """Raise the limit of open files to OPEN_FILE_LIMIT, enough for all connections. On macOS the default is 256."""
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    new_limit = OPEN_FILE_LIMIT if hard_limit == resource.RLIM_INFINITY else min(OPEN_FILE_LIMIT, hard_limit)
    if soft_limit != resource.RLIM_INFINITY and soft_limit < new_limit:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard_limit))


async def _run_until_shutdown(
    directory: Path, listener: BoundSocket, backend: Backend, on_ready: Callable[[], None]
) -> bool:
    """Run the server. Return True if all slow tasks had finished at shutdown."""
    with discovery.publish_address(directory, listener.port) as address_file:
        viewer = ViewerState(directory, listener.port, backend)
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
