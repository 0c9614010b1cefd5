"""A browser that is told of changes, for as long as it listens: Server-Sent Events."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

import msgspec
from tornado.iostream import StreamClosedError

from mindmap.moments import now
from serve.viewer.handler import FromHere
from serve.viewer.refusals import TooBusy
from serve.viewer.shared import Viewer

# Hundreds of browsers, and fewer than a process may have files open.
MOST_LISTENERS: Final = 500
# Often enough for whatever stands between the two not to take a silent connection for a dead one.
HEARTBEAT_SECONDS: Final = 15.0
HEARTBEAT: Final = ": still here\n\n"
# After which a browser that lost the connection tries again.
RETRY_MILLISECONDS: Final = 1_000
# Hundreds of changes.
SENDING_BYTES: Final = 64 << 10


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is said: `connected`, or `mindmap_updated` with the map's id."""

    type: str
    timestamp: str
    id: str | None = None


class Events(FromHere):
    """Tells of changes from now on, or from where a browser that comes back had heard them."""

    def initialize(self, viewer: Viewer) -> None:
        """Called by Tornado."""
        super().initialize(viewer)
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def get(self) -> None:
        """Keep telling."""
        self.admitted()
        if self.viewer.listeners >= MOST_LISTENERS:
            raise TooBusy("Too many pages are open.", hint="Close some of them.")
        self.viewer.listeners += 1
        # The system would keep megabytes for one who does not read, and old news with them.
        self.connection.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENDING_BYTES)
        try:
            await self._tell()
        except StreamClosedError:
            pass
        finally:
            self.viewer.listeners -= 1

    def head(self) -> None:
        """Say what would be told, and how."""
        self._begin()

    def on_connection_close(self) -> None:
        """Called by Tornado."""
        super().on_connection_close()
        if not self._gone.done():
            self._gone.set_result(None)

    async def _tell(self) -> None:
        news = self.viewer.news
        heard = news.heard(self.request.headers.get("Last-Event-ID", ""))
        self._begin()
        self.write(f"retry: {RETRY_MILLISECONDS}\n" + _event(Event("connected", now()), news.event_id(heard)))
        await self.sent()
        while not (self._gone.done() or news.is_over):
            changes = news.since(heard)
            if changes is None:  # it comes back, and looks at everything
                return
            for change in changes:
                heard = change.number
                event = Event("mindmap_updated", change.timestamp, change.mindmap_id)
                self.write(_event(event, news.event_id(heard)))
            if not changes:
                before = news.number
                await news.more(HEARTBEAT_SECONDS, self._gone)
                if news.number != before or self._gone.done() or news.is_over:
                    continue
                self.write(HEARTBEAT)
            await self.sent()

    def _begin(self) -> None:
        self.set_header("Content-Type", "text/event-stream; charset=utf-8")
        self.set_header("Cache-Control", "no-store")
        # A proxy in front of the viewer would hold back what it sends.
        self.set_header("X-Accel-Buffering", "no")


def _event(event: Event, event_id: str) -> str:
    return f"id: {event_id}\ndata: {msgspec.json.encode(event).decode()}\n\n"
