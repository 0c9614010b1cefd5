"""What every answer has in common: who may ask, what a browser may do with it, how it is sent, errors as JSON.

A browser that is told of changes, for as long as it listens: Server-Sent Events.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final, cast

import msgspec
from tornado import gen
from tornado.http1connection import HTTP1Connection
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, RequestHandler, stream_request_body

from mindmap.document import now
from serve.viewer.responses import JSON, Body, NoSuchRoute, Refusal, TooBusy, TooLarge
from serve.viewer.state import Viewer
from stores.errors import LineageError

# The page is one script and images from here. Its style is made by the script, which needs no leave.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Asked for again each time, and answered with "not modified" as long as that is true.
    "Cache-Control": "no-cache",
}
# An id and a path are all that anybody sends.
LARGEST_BODY: Final = 64 << 10
# More than that is refused at once. Less is read to its end first: a connection that is closed on somebody who is
# still sending may take the answer with it.
LARGEST_DISCARDED: Final = 16 << 20
DIGITS: Final = 15
PIECE: Final = 256 << 10
# A reader who takes longer for one has stopped reading.
SENDING_SECONDS: Final = 60.0
# By then some of what there was too much of is done.
RETRY_SECONDS: Final = "5"

logger = logging.getLogger(__name__)


@stream_request_body
class Handler(RequestHandler):
    """Answers one request."""

    viewer: Viewer
    received: bytearray
    refused: LineageError | None

    def initialize(self, viewer: Viewer) -> None:
        """Called by Tornado."""
        self.viewer, self.received, self.refused = viewer, bytearray(), None

    @property
    def connection(self) -> HTTP1Connection:
        """Where the request came from: Tornado's server has no other kind."""
        return cast("HTTP1Connection", self.request.connection)

    def set_default_headers(self) -> None:
        """Called by Tornado, before the answer and again before an error."""
        self.clear_header("Server")
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> None:
        """Refuse before anything is read or done."""
        length = self.request.headers.get("Content-Length", "")
        # Python reads no number of thousands of digits, and nobody sends that much.
        size = int(length[:DIGITS]) if length.isdecimal() else 0
        # What comes is counted here, not by Tornado, whose refusal is no JSON.
        self.connection.set_max_body_size(max(size, LARGEST_DISCARDED))
        has_body = size > 0 or "Transfer-Encoding" in self.request.headers
        try:
            self.check()
            if size > LARGEST_BODY:
                raise _too_large()
        except LineageError as error:
            if not has_body or size > LARGEST_DISCARDED:
                raise
            self.refused = error

    def check(self) -> None:
        """Refuse what may not be asked."""
        self.viewer.doors.check_host(self.request.headers)

    def data_received(self, chunk: bytes) -> None:
        """Called by Tornado with each piece of a body."""
        if self.refused is None and len(self.received) + len(chunk) > LARGEST_BODY:
            self.refused = _too_large()
        if self.refused is None:
            self.received += chunk

    def admitted(self) -> None:
        """Raise what was found wrong with the request, now that it has been read."""
        if self.refused is not None:
            raise self.refused

    async def send(self, body: Body) -> None:
        """Answer with this, or say that the asker has it."""
        self.set_header("Content-Type", body.kind)
        self.set_header("ETag", body.tag)
        self.set_header("Vary", "Accept-Encoding")
        if self.check_etag_header():
            self.set_status(HTTPStatus.NOT_MODIFIED)
            return
        content = body.content
        if body.packed is not None and _takes_gzip(self.request.headers.get("Accept-Encoding", "")):
            self.set_header("Content-Encoding", "gzip")
            content = body.packed
        self.set_header("Content-Length", str(len(content)))
        # Piece by piece: one who does not read holds a piece of it, and one who reads slowly has time for each.
        for start in range(0, len(content), PIECE) if self.request.method != "HEAD" else ():
            self.write(content[start : start + PIECE])
            await self.sent()

    async def send_json(self, content: bytes) -> None:
        """Answer with JSON that was made for this request."""
        await self.send(Body.of(content, JSON))

    async def sent(self) -> None:
        """Wait until what was written is on its way, and leave a reader who does not read."""
        try:
            await gen.with_timeout(
                timedelta(seconds=SENDING_SECONDS), self.flush(), quiet_exceptions=StreamClosedError
            )
        except TimeoutError:
            self.connection.stream.close()
            raise StreamClosedError from None

    def write_error(self, status_code: int, **more: Any) -> None:
        """Called by Tornado with whatever went wrong."""
        error = more["exc_info"][1] if "exc_info" in more else None
        try:
            # Some requests are refused before `prepare`; who asks from elsewhere is told nothing but that.
            self.viewer.doors.check_host(self.request.headers)
        except LineageError as foreign:
            error = foreign
        refusal = Refusal.of(error, status_code)
        self.set_status(refusal.status)
        if refusal.status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.set_header("Allow", ", ".join(sorted(self._methods())))
        if refusal.status == HTTPStatus.SERVICE_UNAVAILABLE:
            self.set_header("Retry-After", RETRY_SECONDS)
        self.set_header("Content-Type", JSON)
        self.set_header("Cache-Control", "no-store")
        self.finish(refusal.content)

    def log_exception(self, kind: Any, value: BaseException | None, trace: Any) -> None:
        """Called by Tornado; only what nobody foresaw is news."""
        if not isinstance(value, LineageError | HTTPError | StreamClosedError):
            logger.error("event=failed target=%s", self.request.path, exc_info=value and (kind, value, trace))

    def compute_etag(self) -> str | None:
        """Called by Tornado, which would read a body once more to tag it."""
        return None

    def _methods(self) -> list[str]:
        plain = {name: getattr(RequestHandler, name.lower()) for name in self.SUPPORTED_METHODS}
        return [name for name, method in plain.items() if getattr(type(self), name.lower()) is not method]


class FromHere(Handler):
    """Answers the page, and programs of this machine; no page of another site."""

    def check(self) -> None:
        """As its base does, and by where the asking page came from."""
        super().check()
        self.viewer.doors.check_origin(self.request.headers)


class NotFound(Handler):
    """Answers for every path that is none."""

    def check(self) -> None:
        """After the host, since that goes for every request."""
        super().check()
        raise NoSuchRoute(f"There is nothing at {self.request.path}.", hint="The page is at /.")


def _too_large() -> TooLarge:
    return TooLarge(f"A request has at most {LARGEST_BODY:,} bytes.", hint="Send less.")


def _takes_gzip(accepted: str) -> bool:
    """Whether `Accept-Encoding` allows it."""
    for part in accepted.split(","):
        name, _, weight = part.strip().partition(";")
        if name.strip() == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


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
