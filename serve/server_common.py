"""Parts shared by the servers (daemon, MCP, mindmap page): queue of calls, shutdown signals, file identity, access log.

A call is one request of a client. It occupies a slot of `CallQueue` while it runs. Clients take turns: a free slot goes
to the waiting client that had no turn for the longest time.
"""

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

# Number of slots for each CPU, because one call can use the CPU while another one waits for an index or git.
CALLS_PER_CPU: Final = 2

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class CallClient:
    """Client of `CallQueue`.

    `last_turn_number`: sequence number of the start of its last turn, or of its creation if it had no turn. The queue
    numbers creations and starts in one sequence.
    """

    last_turn_number: int


@dataclass(slots=True, eq=False)
class Turn:
    """Turn of one call.

    `start_signal`: done when the call may run. `work`: done when the thread of the call has left `hold_turn`; None if
    no thread entered it.
    """

    client: CallClient
    start_signal: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    work: Future[None] | None = None


_current_turn: Final[ContextVar[Turn | None]] = ContextVar("current_turn", default=None)


@contextmanager
def hold_turn() -> Iterator[None]:
    """Occupy the slot of the current call until the context ends, even if the call is cancelled earlier.

    Use it in the thread that works on the call, with the context variables of the call. Without a call it does nothing.
    """
    work: Future[None] = Future()
    if turn := _current_turn.get():
        turn.work = work
    try:
        yield
    finally:
        work.set_result(None)


class CallQueue:
    """Queue of the calls in one event loop.

    `slots`: maximum number of calls that run at a time; 0 means `CALLS_PER_CPU` for each usable CPU.
    """

    def __init__(self, slots: int = 0) -> None:
        self._free_slots = slots or CALLS_PER_CPU * count_usable_cpus()
        self._waiting_turns: list[Turn] = []
        self._sequence_numbers = count()

    def create_client(self) -> CallClient:
        """Return a new client. Its turn comes after the turns of clients that wait already."""
        return CallClient(next(self._sequence_numbers))

    @property
    def waiting_calls(self) -> int:
        """Number of calls that wait for their turn."""
        return len(self._waiting_turns)

    @asynccontextmanager
    async def take_turn(self, client: CallClient) -> AsyncIterator[None]:
        """Wait for the client's turn, then occupy a slot within the context. A cancelled call leaves the queue.

        If a thread is still in `hold_turn` at the end of the context, the slot stays occupied until the thread leaves.
        """
        turn = Turn(client)
        self._waiting_turns.append(turn)
        self._start_turns()
        try:
            await turn.start_signal
        except asyncio.CancelledError:
            if turn in self._waiting_turns:
                self._waiting_turns.remove(turn)
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
        """Start waiting turns while slots are free."""
        # If a call is cancelled, its `start_signal` is done, but its turn stays in the list until its task resumes.
        while self._free_slots and (
            candidates := [turn for turn in self._waiting_turns if not turn.start_signal.done()]
        ):
            # Of several turns of one client, `min` returns the first, which has waited the longest.
            turn = min(candidates, key=lambda turn: turn.client.last_turn_number)
            self._waiting_turns.remove(turn)
            self._free_slots -= 1
            turn.client.last_turn_number = next(self._sequence_numbers)
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
    """Return device and inode of a file or directory, which change when it is replaced; None if it cannot be read."""
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
