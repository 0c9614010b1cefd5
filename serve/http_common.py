"""What the servers of the daemon and the viewer share: how they end, whether a name is still theirs, what they log."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import suppress
from pathlib import Path

from tornado.web import RequestHandler

logger = logging.getLogger(__name__)


def end_on_signals(ending: asyncio.Event) -> None:
    """Have Ctrl-C and SIGTERM set the event, on the loop that runs."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)


async def pause(ending: asyncio.Event, seconds: float) -> None:
    """Wait for so long, or until the end."""
    with suppress(TimeoutError):
        await asyncio.wait_for(ending.wait(), seconds)


def identity(path: Path) -> tuple[int, int] | None:
    """What tells a file or a folder from another that has its name; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def log_answer(handler: RequestHandler) -> None:
    """Called by Tornado after each answer."""
    request = handler.request
    logger.debug(
        "event=answered method=%s target=%s status=%d ms=%.1f",
        request.method,
        request.path,
        handler.get_status(),
        1000 * request.request_time(),
    )
