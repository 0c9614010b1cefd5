"""Parts shared by the servers (daemon, MCP, mindmap page): queue of calls, shutdown signals, access log."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.workers import count_usable_cpus

if TYPE_CHECKING:
    from tornado.web import RequestHandler

# Calls that run at a time for each CPU: while one waits for an index or git, the other uses the CPU.
CALLS_PER_CPU: Final = 2

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class CallClient:
    """Client of the queue. `last_turn_number`: number of its last turn, at first of its creation, in one sequence."""

    last_turn_number: int


@dataclass(slots=True, eq=False)
class Turn:
    """Turn of one call. `start_signal` is done when the call may run, and `work` when its thread has ended, if any."""

    client: CallClient
    start_signal: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    work: Future[None] | None = None


_current_turn: Final[ContextVar[Turn | None]] = ContextVar("current_turn", default=None)


@contextmanager
def hold_turn() -> Iterator[None]:
    """Occupy the slot of the current call, if any, until the context ends, even if the call is cancelled earlier.

    For the thread that works on a call; its context variables are those of the call.
    """
    work: Future[None] = Future()
    if turn := _current_turn.get():
        turn.work = work
    try:
        yield
    finally:
        work.set_result(None)


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
        """Wait for the client's turn, and occupy a slot within the context. A cancelled call leaves the queue.

        The slot stays occupied after the context while a thread is in `hold_turn`.
        """
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
        token = _current_turn.set(turn)
        try:
            yield
        finally:
            _current_turn.reset(token)
            if turn.work is None or turn.work.done():
                self._end_turn()
            else:
                loop = asyncio.get_running_loop()
                turn.work.add_done_callback(lambda _: self._end_turn_from_thread(loop))

    def _end_turn_from_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(RuntimeError):  # the server has ended
            loop.call_soon_threadsafe(self._end_turn)

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
