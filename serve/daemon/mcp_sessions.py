"""MCP sessions of the daemon, each on the connection of one `lineage-mcp` or `mindmap mcp` process.

Importing this module imports the MCP library, which takes a second.
"""

from __future__ import annotations

import asyncio
import select
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tornado.iostream import IOStream, StreamClosedError

from serve.backend import InProcessBackend
from serve.mcp import stdio
from serve.mcp.lineage_server import create_lineage_server
from serve.mcp.mindmap_server import create_mindmap_server
from serve.mcp.tools import QueuedCalls
from serve.server_common import CallQueue

if TYPE_CHECKING:
    from serve.daemon.protocol import McpCall
    from serve.daemon.server import Service

# Maximum number of calls of one mindmap session that run at a time. Calls of several agents may wait for the user, but
# must leave some of anyio's 40 threads to the other sessions.
MINDMAP_SLOTS: Final = 16
# Events of a connection whose other end has been closed. macOS has no POLLRDHUP.
CLOSED_EVENTS: Final = getattr(select, "POLLRDHUP", 0) | select.POLLHUP


async def serve_session(stream: IOStream, session_request: McpCall, service: Service) -> None:
    """Serve the client at the other end of the stream until its connection is closed."""
    try:
        await stream.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
    except StreamClosedError:  # the client has ended meanwhile
        return
    if session_request.server == "mindmap":
        await _serve_mindmap(stream, session_request, service)
    else:
        await _serve_lineage(stream, session_request, service)


async def _serve_lineage(stream: IOStream, session_request: McpCall, service: Service) -> None:
    """Serve a client of lineage. By default, calls are about the repository of the client's working directory."""
    backend = InProcessBackend(service.paths.home, session_request.precision, service.get_engine)
    server = create_lineage_server(backend, service.paths.home, Path(session_request.cwd))
    server.middleware.append(QueuedCalls(service.queue, service.state.track_call, service.stopping.is_set))
    await stdio.serve_lines(server, _LineStream(stream))


async def _serve_mindmap(stream: IOStream, session_request: McpCall, service: Service) -> None:
    """Serve a client of mindmap, with its own file watchers. Its calls do not wait for calls of lineage.

    No call starts after the relay (`mindmap mcp`) has disconnected. If the daemon is suspended, the relay disconnects
    and answers waiting calls with an error.
    """
    mindmap_server = create_mindmap_server(
        Path(session_request.maps_dir), session_request.client_id, service.stopping.is_set
    )
    mindmap_server.server.middleware.append(
        QueuedCalls(CallQueue(MINDMAP_SLOTS), service.state.track_call, lambda: _is_disconnected(stream))
    )
    try:
        await asyncio.to_thread(mindmap_server.resume_watching, session_request.watched_maps)
        await stdio.serve_lines(mindmap_server.server, _LineStream(stream))
    finally:
        await asyncio.shield(asyncio.to_thread(mindmap_server.close))


def _is_disconnected(stream: IOStream) -> bool:
    """Return whether the client has closed its connection, even if lines that it sent before are still unread."""
    if stream.closed():
        return True
    poll = select.poll()
    poll.register(stream.socket, CLOSED_EVENTS)
    return bool(poll.poll(0))


class _LineStream:
    """Lines of a connection, as the text file that the MCP library reads from and writes to."""

    def __init__(self, stream: IOStream) -> None:
        self._stream = stream

    def __aiter__(self) -> _LineStream:
        return self

    async def __anext__(self) -> str:
        try:
            return (await self._stream.read_until(b"\n")).decode("utf-8", "replace")
        except StreamClosedError:
            raise StopAsyncIteration from None

    async def write(self, text: str) -> None:
        with suppress(StreamClosedError):  # reading the next line then ends the session
            await self._stream.write(text.encode())

    async def flush(self) -> None:
        """Do nothing: `write` does not buffer."""
