"""Cancelled and waiting tool calls of a session."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp.client import Client
from mcp.server import MCPServer

from pipeline.interrupts import RequestCancelled, check_cancelled
from serve.backend import InProcessBackend
from serve.find_types import FindAnswer, FindRequest
from serve.mcp import tools
from serve.mcp.lineage_server import create_lineage_server
from serve.mcp.tools import QueuedCalls
from serve.server_common import CallQueue
from stores.errors import LineageError
from tests.serve.mcp.clients import PROTOCOLS, extract_text, run_client

TIMEOUT_SECONDS = 20


class BlockingBackend(InProcessBackend):
    """Backend whose searches end with an error when `release` is set, or if cancelled, when `may_end` is set, too."""

    def __init__(self) -> None:
        super().__init__(Path())
        self.queries: list[str] = []
        self.has_started, self.release, self.was_cancelled = (threading.Event() for _ in range(3))
        self.may_end = threading.Event()
        self.may_end.set()

    def find(self, request: FindRequest, path: Path) -> FindAnswer:
        """Block. The path is ignored."""
        del path
        self.queries.append(request.text)
        self.has_started.set()
        while not self.release.wait(0.005):
            try:
                check_cancelled()
            except RequestCancelled:
                self.was_cancelled.set()
                self.may_end.wait(TIMEOUT_SECONDS)
                raise
        raise LineageError("released")


def create_server(backend: BlockingBackend) -> MCPServer[Any]:
    server = create_lineage_server(backend, Path(), Path())
    server.middleware.append(QueuedCalls(CallQueue(1)))
    return server


async def wait_for(event: threading.Event) -> None:
    assert await anyio.to_thread.run_sync(event.wait, TIMEOUT_SECONDS)


@pytest.mark.parametrize("mode", PROTOCOLS)
def test_cancelled_calls_stop(mode: str) -> None:
    """A running call that its client cancels stops at its next stage, and one that waits never starts."""
    backend = BlockingBackend()

    async def cancel_two_of_three(client: Client) -> None:
        def ask(query: str) -> asyncio.Task[Any]:
            return asyncio.ensure_future(client.call_tool("find_pattern", {"query": query}))

        running = ask("running")
        await wait_for(backend.has_started)
        waiting, last = ask("waiting"), ask("last")
        await client.list_tools()  # the server has read all of them
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        running.cancel()
        await wait_for(backend.was_cancelled)
        backend.release.set()
        assert extract_text(await last) == "released"

    run_client(create_server(backend), cancel_two_of_three, mode)
    assert backend.queries == ["running", "last"]


def test_cancelled_call_occupies_its_slot_until_its_thread_ends() -> None:
    """The next call starts when the thread of a cancelled one has ended, so that no more threads run than slots."""
    backend = BlockingBackend()
    backend.may_end.clear()

    async def cancel_first(client: Client) -> None:
        first = asyncio.ensure_future(client.call_tool("find_pattern", {"query": "first"}))
        await wait_for(backend.has_started)
        second = asyncio.ensure_future(client.call_tool("find_pattern", {"query": "second"}))
        first.cancel()
        await wait_for(backend.was_cancelled)
        backend.release.set()
        await anyio.sleep(0.1)
        assert backend.queries == ["first"] and not second.done()
        backend.may_end.set()
        assert extract_text(await second) == "released"

    run_client(create_server(backend), cancel_first)
    assert backend.queries == ["first", "second"]


def test_disconnected_client_stops_its_calls() -> None:
    """The calls of a client that has disconnected stop."""
    backend = BlockingBackend()

    async def disconnect(client: Client) -> None:
        asking = asyncio.ensure_future(client.call_tool("find_pattern", {"query": "running"}))
        await wait_for(backend.has_started)
        asking.cancel()

    run_client(create_server(backend), disconnect)
    assert backend.was_cancelled.wait(TIMEOUT_SECONDS)


def test_waiting_calls_report_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that asks for progress gets increasing seconds, while its call runs and while it waits."""
    monkeypatch.setattr(tools, "PROGRESS_SECONDS", 0.01)
    backend = BlockingBackend()
    seconds: dict[str, list[float]] = {"running": [], "waiting": []}
    messages: set[str | None] = set()

    async def read_progress(client: Client) -> None:
        async def ask(query: str) -> None:
            async def record(progress: float, total: float | None, message: str | None) -> None:
                assert total is None
                seconds[query].append(progress)
                messages.add(message)
                if all(len(values) >= 2 for values in seconds.values()):
                    backend.release.set()

            result = await client.call_tool("find_pattern", {"query": query}, progress_callback=record)
            assert extract_text(result) == "released"

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "running")
            await wait_for(backend.has_started)
            tasks.start_soon(ask, "waiting")

    run_client(create_server(backend), read_progress)
    assert all(values == sorted(values) for values in seconds.values())
    assert "Waiting calls: 1." in messages
