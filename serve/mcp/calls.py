"""Tool calls of an MCP session: place in the queue, progress notifications, and the repository that a call is about.

The repository is the one that the call names, else that of the server's directory or of a client's root.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

import anyio
import anyio.from_thread
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver.context import Context
from mcp.shared.exceptions import MCPError
from mcp_types import ClientCapabilities, ListRootsRequest, ListRootsResult, RootsCapability

from pipeline.git.errors import NotARepository
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


@dataclass(frozen=True, slots=True)
class RepositoryResolver:
    """Resolver of the argument `repository`.

    `home`: directory of the indexes. `directory`: the server's directory, used without the argument.
    """

    home: Path
    directory: Path

    def resolve(self, name: str | None, context: Context[Any, Any]) -> Path:
        """Return the path of the repository with this name or path.

        Without a name, it is the server's directory if that is in a repository, else the first client root that is in
        one. Raises BadRequest for an unknown or ambiguous name, and NotARepository, whose hint lists indexed
        repositories. Call it in a worker thread of anyio.
        """
        # Imported here, because libgit2 would delay the start of the server.
        from pipeline.git.repository import open_repository
        from serve.repositories import describe_indexed_repositories, resolve_repository_path

        if name is not None:
            return resolve_repository_path(self.home, name, self.directory)
        try:
            open_repository(self.directory)
        except NotARepository as error:
            for root in _list_client_roots(context):
                with suppress(NotARepository):
                    open_repository(root)
                    return root
            hint = f"Pass `repository`: a path or a name. {describe_indexed_repositories(self.home)}"
            raise NotARepository(error.message, hint=hint) from error
        return self.directory


def _list_client_roots(context: Context[Any, Any]) -> list[Path]:
    """Return the client's roots that are local directories; empty if it has none."""
    session = context.session
    if not session.check_client_capability(ClientCapabilities(roots=RootsCapability())):
        return []
    try:
        # Not `session.list_roots`, which warns that newer versions of the protocol have no roots.
        result = anyio.from_thread.run(session.send_request, ListRootsRequest(), ListRootsResult)
    except MCPError:
        return []
    uris = [urlsplit(str(root.uri)) for root in result.roots]
    return [Path(url2pathname(uri.path)) for uri in uris if uri.scheme == "file"]
