"""Queue of calls: a few run at a time, and the next one is that of the client served least recently."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from pipeline.workers import count_usable_cpus

# Calls that run at a time for each CPU: while one waits for an index or git, the other uses the CPU.
CALLS_PER_CPU: Final = 2


@dataclass(slots=True, eq=False)
class CallClient:
    """Client of the queue. `last_turn_number`: number of its last turn, at first that of its creation."""

    last_turn_number: int


@dataclass(slots=True, eq=False)
class Turn:
    """Turn of one call. `start_signal` is done when the call may run."""

    client: CallClient
    start_signal: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class CallQueue:
    """Queue of the calls in one event loop. `slots`: calls that run at a time."""

    def __init__(self, slots: int = 0) -> None:
        self._free_slots = slots or CALLS_PER_CPU * count_usable_cpus()
        self._waiting: list[Turn] = []
        self._numbers = count()

    def create_client(self) -> CallClient:
        """Return a new client. Its turn comes after those of clients that wait already."""
        return CallClient(next(self._numbers))

    @property
    def waiting_calls(self) -> int:
        """Number of calls that wait for their turn."""
        return len(self._waiting)

    @asynccontextmanager
    async def take_turn(self, client: CallClient) -> AsyncIterator[None]:
        """Wait for the client's turn, and occupy a slot within the context. A cancelled call leaves the queue."""
        turn = Turn(client)
        self._waiting.append(turn)
        self._start_turns()
        try:
            await turn.start_signal
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            else:
                self._end_turn()
            raise
        try:
            yield
        finally:
            self._end_turn()

    def _end_turn(self) -> None:
        self._free_slots += 1
        self._start_turns()

    def _start_turns(self) -> None:
        # A cancelled turn stays in the list, its future done, until its task resumes: skip it.
        while self._free_slots and (
            waiting := [turn for turn in self._waiting if not turn.start_signal.done()]
        ):
            # The first of several turns of one client is its oldest.
            turn = min(waiting, key=lambda turn: turn.client.last_turn_number)
            self._waiting.remove(turn)
            self._free_slots -= 1
            turn.client.last_turn_number = next(self._numbers)
            turn.start_signal.set_result(None)
