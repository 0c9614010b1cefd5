"""MCP sessions of the daemon, each on the connection of one `lineage-mcp` process.

Importing this module imports the MCP library, which takes a second.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tornado.iostream import IOStream, StreamClosedError

from serve.backend import InProcessBackend
from serve.mcp import base
from serve.mcp.calls import QueuedCalls
from serve.mcp.lineage_server import create_lineage_server

if TYPE_CHECKING:
    from serve.daemon.protocol import McpCall
    from serve.daemon.server import Service


async def serve_session(stream: IOStream, call: McpCall, service: Service) -> None:
    """Serve one client until its connection is closed. By default, calls are about its working directory."""
    backend = InProcessBackend(service.paths.home, call.precision, service.get_engine)
    server = create_lineage_server(backend, service.paths.home, Path(call.cwd))
    server.middleware.append(QueuedCalls(service.queue, service.state.track_request, service.stopping.is_set))
    try:
        await stream.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
    except StreamClosedError:  # the client has ended meanwhile
        return
    await base.serve_lines(server, _LineStream(stream))


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
        with suppress(StreamClosedError):  # reading ends as well
            await self._stream.write(text.encode())

    async def flush(self) -> None:
        """Do nothing: `write` does not buffer."""
