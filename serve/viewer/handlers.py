"""Base classes of the request handlers, and the Server-Sent Events endpoint."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final, cast

import msgspec
from tornado import gen
from tornado.http1connection import HTTP1Connection
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, RequestHandler, stream_request_body

from mindmap.document import EditResult, Mindmap, utc_now
from mindmap.validation import MAX_TEXT_LENGTH
from serve.viewer.responses import JSON, ErrorResponse, NoSuchRoute, NotJson, TooBusy, TooLarge
from serve.viewer.state import ViewerState
from stores.errors import LineageError
from stores.mindmap_files import check_id

# The page loads one script and images. The script creates the style sheet, so the policy allows no other style sheets.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
RESPONSE_HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Browsers ask again each time; the response is 304 (Not Modified) if nothing has changed.
    "Cache-Control": "no-cache",
}
# The largest requests have the text of an answer or a comment. A character has up to 12 bytes in JSON. 4 KiB are for
# the other fields.
MAX_BODY_BYTES: Final = 12 * MAX_TEXT_LENGTH + (4 << 10)
# A rejected body up to this size is read before the error is sent, because closing a connection while the client still
# sends can lose the response. A larger body is rejected at once.
MAX_DISCARDED_BYTES: Final = 16 << 20
# Digits of `Content-Length` that are parsed, since Python's `int` rejects numbers of thousands of digits.
MAX_LENGTH_DIGITS: Final = 15
# Time for a client to receive a response: 170 kB/s for a map of 10 MB.
SEND_TIMEOUT_SECONDS: Final = 60.0
# Value of `Retry-After` if there are too many requests. In this time some of the slow tasks finish.
RETRY_AFTER_SECONDS: Final = "5"
# Maximum number of open event streams: far more than the pages that one user opens, and below the limit of open files.
MAX_LISTENERS: Final = 500
# Interval of heartbeats. Proxies and tunnels close silent connections, usually after 30 s or more.
HEARTBEAT_SECONDS: Final = 15.0
HEARTBEAT: Final = ": still here\n\n"
# Delay before a browser reconnects to the event stream.
RETRY_MILLISECONDS: Final = 1_000
# Size of a send buffer, enough for hundreds of events. The system's default of megabytes would fill with outdated
# events if a client is slow.
SEND_BUFFER_BYTES: Final = 64 << 10

logger = logging.getLogger(__name__)


@stream_request_body
class ViewerHandler(RequestHandler):
    """Base class of all handlers: checks the host, limits the body, sets the headers, sends errors as JSON.

    `body` is the received part of the request's body. `rejection` is an error to raise when the body has been read;
    each HTTP method of a subclass begins with `raise_if_rejected`.
    """

    viewer: ViewerState
    body: bytearray
    rejection: LineageError | None

    def initialize(self, viewer: ViewerState) -> None:
        """Set the handler's state. Tornado calls this first."""
        self.viewer, self.body, self.rejection = viewer, bytearray(), None

    @property
    def connection(self) -> HTTP1Connection:
        """The client's connection. Tornado's HTTP server uses only HTTP1Connection."""
        return cast("HTTP1Connection", self.request.connection)

    def set_default_headers(self) -> None:
        """Set the headers of every response. Tornado calls this before a response and again before an error."""
        self.clear_header("Server")
        for name, value in RESPONSE_HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> None:
        """Check the request's headers before its body is read. Tornado calls this."""
        length = self.request.headers.get("Content-Length", "")
        size = int(length[:MAX_LENGTH_DIGITS]) if length.isdecimal() else 0
        # `data_received` enforces the limit, because Tornado's own response to an oversized body is not JSON.
        self.connection.set_max_body_size(max(size, MAX_DISCARDED_BYTES))
        has_body = size > 0 or "Transfer-Encoding" in self.request.headers
        try:
            self.check_access()
            if size > MAX_BODY_BYTES:
                raise _create_body_size_error()
        except LineageError as error:
            if not has_body or size > MAX_DISCARDED_BYTES:
                raise
            self.rejection = error

    def check_access(self) -> None:
        """Raise an error if the request is not allowed."""
        self.viewer.origin_policy.check_host(self.request.headers)

    def data_received(self, chunk: bytes) -> None:
        """Collect a piece of the body. Tornado calls this."""
        if self.rejection is None and len(self.body) + len(chunk) > MAX_BODY_BYTES:
            self.rejection = _create_body_size_error()
        if self.rejection is None:
            self.body += chunk

    def raise_if_rejected(self) -> None:
        """Raise the error that `prepare` or `data_received` has found, if any."""
        if self.rejection is not None:
            raise self.rejection

    async def send(self, content: bytes, media_type: str = JSON) -> None:
        """Send the response, with Tornado's ETag and 304 handling."""
        self.set_header("Content-Type", media_type)
        await self.wait_or_close(self.finish(content))

    async def wait_or_close(self, send_future: asyncio.Future[None]) -> None:
        """Wait until the data is sent; after SEND_TIMEOUT_SECONDS, close the connection and raise StreamClosedError."""
        try:
            await gen.with_timeout(
                timedelta(seconds=SEND_TIMEOUT_SECONDS), send_future, quiet_exceptions=StreamClosedError
            )
        except TimeoutError:
            self.connection.stream.close()
            raise StreamClosedError from None

    def write_error(self, status_code: int, **details: Any) -> None:
        """Send an error as JSON. Tornado calls this for every error."""
        error = details["exc_info"][1] if "exc_info" in details else None
        try:
            # Some errors occur before `prepare` has checked the host; a page at a foreign host must not see them.
            self.viewer.origin_policy.check_host(self.request.headers)
        except LineageError as host_error:
            error = host_error
        response = ErrorResponse.from_error(error, status_code)
        self.set_status(response.status)
        if response.status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.set_header("Allow", ", ".join(sorted(self._list_allowed_methods())))
        if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
            self.set_header("Retry-After", RETRY_AFTER_SECONDS)
        self.set_header("Content-Type", JSON)
        self.set_header("Cache-Control", "no-store")
        self.finish(response.content)

    def log_exception(self, kind: Any, value: BaseException | None, trace: Any) -> None:
        """Log an error if it is unexpected. Tornado calls this for every error."""
        if not isinstance(value, LineageError | HTTPError | StreamClosedError):
            logger.error("event=failed target=%s", self.request.path, exc_info=value and (kind, value, trace))

    def _list_allowed_methods(self) -> list[str]:
        """Return the HTTP methods that this handler's class implements."""
        defaults = {name: getattr(RequestHandler, name.lower()) for name in self.SUPPORTED_METHODS}
        return [
            name for name, default in defaults.items() if getattr(type(self), name.lower()) is not default
        ]


class SameOriginHandler(ViewerHandler):
    """Base class of handlers that answer the viewer's own page and local programs, but no pages of other sites."""

    def check_access(self) -> None:
        """Check the host and the origin."""
        super().check_access()
        self.viewer.origin_policy.check_origin(self.request.headers)


class JsonPostHandler(SameOriginHandler):
    """Base class of handlers of requests that change a map."""

    def check_access(self) -> None:
        """Check host, origin and content type. HTML forms of other sites cannot send the content type of JSON."""
        super().check_access()
        media_type = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if self.request.method == "POST" and media_type != "application/json":
            raise NotJson("The content type is not JSON.", hint="Send Content-Type: application/json.")

    async def change(self, mindmap_id: str, edit: Callable[[Mindmap], EditResult]) -> None:
        """Apply an edit to the map and send the changed map."""
        documents = self.viewer.documents
        await self.viewer.threads.run_slow(documents.store.change, check_id(mindmap_id), edit)
        await self.send_map(mindmap_id)

    async def send_map(self, mindmap_id: str, **fields: int) -> None:
        """Send a JSON object with these fields and, in the field `mindmap`, the map."""
        content = await self.viewer.threads.run_quick(
            self.viewer.documents.load_json, mindmap_id, time.monotonic()
        )
        await self.send(msgspec.json.encode({**fields, "mindmap": msgspec.Raw(content)}))


class NotFoundHandler(ViewerHandler):
    """Handler of all paths without a route."""

    def check_access(self) -> None:
        """Check the host, then raise NoSuchRoute."""
        super().check_access()
        raise NoSuchRoute(f"There is nothing at {self.request.path}.", hint="The page is at /.")


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """Data of an event: type `connected`, or `mindmap_updated` with the map's id."""

    type: str
    timestamp: str
    id: str | None = None


class EventStreamHandler(SameOriginHandler):
    """Handler of the Server-Sent Events of changed maps.

    It sends the changes after `Last-Event-ID`; without this header, the changes from now on.
    """

    def initialize(self, viewer: ViewerState) -> None:
        """Set the handler's state. Tornado calls this first."""
        super().initialize(viewer)
        self._disconnection: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def get(self) -> None:
        """Send events until the client disconnects or the viewer stops."""
        self.raise_if_rejected()
        if self.viewer.listener_count >= MAX_LISTENERS:
            raise TooBusy("Too many pages of the viewer are open.", hint="Close some of them, then reload.")
        self.viewer.listener_count += 1
        self.connection.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        try:
            await self._send_changes()
        except StreamClosedError:
            pass
        finally:
            self.viewer.listener_count -= 1

    def head(self) -> None:
        """Send the headers of the stream."""
        self._set_stream_headers()

    def on_connection_close(self) -> None:
        """End the event stream of a client that has disconnected. Tornado calls this."""
        super().on_connection_close()
        if not self._disconnection.done():
            self._disconnection.set_result(None)

    async def _send_changes(self) -> None:
        log = self.viewer.changes
        position = log.parse_resume_position(self.request.headers.get("Last-Event-ID", ""))
        self._set_stream_headers()
        first_event = _format_event(Event("connected", utc_now()), log.format_event_id(position))
        self.write(f"retry: {RETRY_MILLISECONDS}\n{first_event}")
        await self.wait_or_close(self.flush())
        while not (self._disconnection.done() or log.is_closed):
            changes = log.list_changes_after(position)
            if changes is None:  # the log has dropped some; the browser reconnects and reloads everything
                return
            for change in changes:
                position = change.number
                event = Event("mindmap_updated", change.timestamp, change.mindmap_id)
                self.write(_format_event(event, log.format_event_id(position)))
            if not changes:
                last_number = log.last_number
                await log.wait_for_change(HEARTBEAT_SECONDS, self._disconnection)
                if log.last_number != last_number or self._disconnection.done() or log.is_closed:
                    continue
                self.write(HEARTBEAT)
            await self.wait_or_close(self.flush())

    def _set_stream_headers(self) -> None:
        self.set_header("Content-Type", "text/event-stream; charset=utf-8")
        self.set_header("Cache-Control", "no-store")
        # Keeps proxies from buffering the stream.
        self.set_header("X-Accel-Buffering", "no")


def _create_body_size_error() -> TooLarge:
    return TooLarge(f"The request body exceeds {MAX_BODY_BYTES:,} bytes.", hint="Send a smaller body.")


def _format_event(event: Event, event_id: str) -> str:
    return f"id: {event_id}\ndata: {msgspec.json.encode(event).decode()}\n\n"
