"""Order of the calls of several clients, and calls that leave the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from serve.server_common import CallClient, CallQueue


class Calls:
    """Calls that run until `finish`, and the names of those that were started, in order."""

    def __init__(self, slots: int) -> None:
        self.queue = CallQueue(slots)
        self.started: list[str] = []
        self.running: dict[str, asyncio.Event] = {}

    def add(self, client: CallClient, name: str) -> asyncio.Task[None]:
        return asyncio.ensure_future(self._call(client, name))

    async def _call(self, client: CallClient, name: str) -> None:
        async with self.queue.take_turn(client):
            self.started.append(name)
            self.running[name] = asyncio.Event()
            await self.running[name].wait()

    async def finish(self, task: asyncio.Task[None], name: str) -> None:
        await settle()
        self.running[name].set()
        await task
        await settle()


async def settle() -> None:
    """Let the tasks run that can run."""
    for _ in range(10):
        await asyncio.sleep(0)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 20))


def test_next_call_is_of_the_client_served_least_recently() -> None:
    """A client with many calls does not delay the single call of another; calls of one client keep their order."""

    async def test() -> None:
        calls = Calls(slots=1)
        busy, other = calls.queue.create_client(), calls.queue.create_client()
        tasks = {name: calls.add(busy, name) for name in ("b1", "b2", "b3", "b4")}
        await settle()
        late = calls.queue.create_client()
        tasks |= {"o1": calls.add(other, "o1"), "l1": calls.add(late, "l1"), "o2": calls.add(other, "o2")}
        for number in range(len(tasks)):
            await settle()
            await calls.finish(tasks[calls.started[number]], calls.started[number])
        assert calls.started == ["b1", "o1", "b2", "l1", "o2", "b3", "b4"]

    run(test())


def test_only_as_many_calls_run_as_there_are_slots() -> None:
    """Two slots run two calls; the third starts when one has ended, also if it failed."""

    async def test() -> None:
        calls = Calls(slots=2)
        client = calls.queue.create_client()
        first, _, third = (calls.add(client, name) for name in "123")
        await settle()
        assert (calls.started, calls.queue.waiting_calls) == (["1", "2"], 1)
        first.cancel()
        await settle()
        assert calls.started == ["1", "2", "3"]
        await calls.finish(third, "3")

    run(test())


def test_cancelled_call_leaves_the_queue() -> None:
    """A call that is cancelled while it waits, or in the moment of its turn, never starts and occupies no slot."""

    async def test() -> None:
        calls = Calls(slots=1)
        client = calls.queue.create_client()
        first, second, third, fourth = (calls.add(client, name) for name in "1234")
        await settle()
        second.cancel()
        await settle()
        assert calls.queue.waiting_calls == 2
        calls.running["1"].set()
        while calls.queue.waiting_calls == 2:  # until the third has its turn
            await asyncio.sleep(0)
        third.cancel()
        await first
        await calls.finish(fourth, "4")
        assert [task.cancelled() for task in (second, third)] == [True, True]

    run(test())


def test_turn_that_ends_before_a_cancelled_one_leaves() -> None:
    """If calls are cancelled while another one ends, that one keeps its answer and the next one starts."""

    async def test() -> None:
        calls = Calls(slots=1)
        client = calls.queue.create_client()
        first, second, third, fourth = (calls.add(client, name) for name in "1234")
        await settle()
        calls.running["1"].set()
        second.cancel()  # its task continues after that of the first one
        third.cancel()
        await first
        await calls.finish(fourth, "4")
        assert calls.started == ["1", "4"]

    run(test())
