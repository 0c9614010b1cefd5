"""Tool calls of an MCP session: their place in the queue, and progress notifications while the client waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from serve.call_queue import CallQueue

# Interval of progress notifications. Clients end a call without any after 30 to 60 s.
PROGRESS_SECONDS: Final = 2.0


class QueuedCalls:
    """Middleware of one session, which lets the queue start its tool calls.

    `track_call` returns a context for each call. While `is_stopping` returns True no new call is started, because
    another server will answer it.
    """

    def __init__(
        self,
        queue: CallQueue,
        track_call: Callable[[], AbstractContextManager[None]] = nullcontext,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._queue = queue
        self._client = queue.create_client()
        self._track_call = track_call
        self._is_stopping = is_stopping

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Handle a message of the client."""
        if ctx.method != "tools/call":
            return await call_next(ctx)
        reporter = asyncio.ensure_future(self._report_progress(ctx))
        try:
            if self._is_stopping():
                await asyncio.Event().wait()  # until the connection is closed
            with self._track_call():
                async with self._queue.take_turn(self._client):
                    return await call_next(ctx)
        finally:
            reporter.cancel()

    async def _report_progress(self, ctx: ServerRequestContext[Any, Any]) -> None:
        """Report the seconds since the call, until cancelled. A client that sent no token gets nothing."""
        started_at = time.monotonic()
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the client has disconnected
            while True:
                await asyncio.sleep(PROGRESS_SECONDS)
                message = (
                    f"{self._queue.waiting_calls} calls are waiting." if self._queue.waiting_calls else None
                )
                await ctx.session.report_progress(time.monotonic() - started_at, message=message)
