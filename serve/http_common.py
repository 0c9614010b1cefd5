"""Helpers shared by the daemon's and the viewer's server: shutdown signals, file identity, access log."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import suppress
from pathlib import Path

from tornado.web import RequestHandler

logger = logging.getLogger(__name__)


def set_event_on_signals(shutdown: asyncio.Event) -> None:
    """Set the event on SIGINT and SIGTERM. Requires a running event loop."""
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, shutdown.set)


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, at most this many seconds."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


def read_file_identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a path, which change when it is replaced; None if nothing exists there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def log_request(handler: RequestHandler) -> None:
    """Log a finished request. Tornado calls this as its `log_function`."""
    request = handler.request
    logger.debug(
        "event=answered method=%s target=%s status=%d ms=%.1f",
        request.method,
        request.path,
        handler.get_status(),
        1000 * request.request_time(),
    )
