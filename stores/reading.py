"""Keep an index open from question to question, and give it up as soon as a writer waits for it.

Opening takes longer than a question does of an index that is open.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import duckdb

from stores import database, locking
from stores.database import READ_WAIT_SECONDS, DamagedIndex, Fingerprint
from stores.locking import Deadline
from stores.lookout import Lookout
from stores.places import Place
from stores.refusals import Refused

# How long a writer may wait beside an index that nobody asks: looking more often would keep a processor awake.
LOOK_SECONDS: Final = 0.05
# An index that is open keeps what it read in memory, and the file of one that was deleted on the disk.
IDLE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Opened:
    """An opened index, as one question has it: a connection of its own, and which state of the file it reads."""

    connection: duckdb.DuckDBPyConnection
    fingerprint: Fingerprint


@dataclass(slots=True)
class _Hold:
    """One opening of an index.

    `free`: connections that no question has. `asking`: questions at work. `ending`: no question is let in that came
    after `since`; `spoilt`: none at all.
    """

    connection: duckdb.DuckDBPyConnection
    fingerprint: Fingerprint
    closing: ExitStack = field(default_factory=ExitStack)
    free: list[duckdb.DuckDBPyConnection] = field(default_factory=list)
    asking: int = 0
    since: float = field(default_factory=time.monotonic)
    asked: float = field(default_factory=time.monotonic)
    ending: bool = False
    spoilt: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    def admits(self, came: float) -> bool:
        """Whether a question that came at this time may enter.

        Those that waited for the opening may, though a writer came in between: they are few, and were here first.
        """
        return not self.spoilt and (not self.ending or came <= self.since)


class Reading:
    """A process's hold on an index for questions, several at once.

    Once a writer waits, no question that comes later is let in, and the last one that leaves closes the index. The
    next question then queues behind the writer like any other reader. An index that was deleted or replaced by
    whoever knows no locks is closed in the same way.
    """

    def __init__(self, place: Place, *, idle: float = IDLE_SECONDS) -> None:
        self.place = place
        self.idle = idle
        self._turn = threading.Lock()
        self._hold: _Hold | None = None

    @contextmanager
    def question(self, *, wait: float = READ_WAIT_SECONDS) -> Iterator[Opened]:
        """The last committed batch, for one thread; errors as those of `database.reading`, in the body, too."""
        deadline = Deadline.after(wait)
        while (entered := self._enter(deadline)) is None:
            deadline.pause()
        hold, connection = entered
        try:
            with database.sound(self.place):
                yield Opened(connection, hold.fingerprint)
        except (duckdb.Error, DamagedIndex, Refused):
            hold.spoilt = True  # whatever it was, the next question starts from the file
            raise
        finally:
            self._leave(hold, connection)

    def close(self) -> None:
        """Give the index up as soon as no question is at work; a later one opens it again."""
        with self._turn:
            if self._hold is not None:
                self._hold.ending = True
                self._give_way()

    def _enter(self, deadline: Deadline) -> tuple[_Hold, duckdb.DuckDBPyConnection] | None:
        """A hold and a connection of it; None while others have to leave first."""
        if not self._turn.acquire(timeout=deadline.left):
            return None
        try:
            self._give_way()
            hold = self._hold or self._open(deadline)
            if not hold.admits(deadline.started):
                return None
            connection = _connection(hold)
            hold.asking += 1
            return hold, connection
        finally:
            self._turn.release()

    def _leave(self, hold: _Hold, connection: duckdb.DuckDBPyConnection) -> None:
        with self._turn:
            hold.free.append(connection)
            hold.asking -= 1
            hold.asked = time.monotonic()
            self._give_way()

    def _open(self, deadline: Deadline) -> _Hold:
        with ExitStack() as opening:
            connection = opening.enter_context(database.reading(self.place, wait=deadline.left))
            hold = _Hold(connection, database.fingerprint(self.place))
            Lookout(partial(self._look, hold), hold.ended).start()
            hold.closing = opening.pop_all()
        self._hold = hold
        return hold

    def _give_way(self) -> None:
        """Close what has to be given up, or let nobody in while a question is at work."""
        hold = self._hold
        if hold is None:
            return
        self._look_at(hold)
        if (hold.ending or hold.spoilt) and not hold.asking:
            self._hold = None
            hold.ended.set()
            # Nothing was written, so there is nothing to lose; an engine that fails here is not used again.
            with suppress(duckdb.Error, DamagedIndex, Refused), hold.closing:
                for connection in hold.free:
                    connection.close()

    def _look_at(self, hold: _Hold) -> None:
        try:
            hold.spoilt = hold.spoilt or database.fingerprint(self.place) != hold.fingerprint
            hold.ending = hold.ending or locking.wanted(self.place.folder)
        except OSError:  # no folder, or no file can be opened: opening anew tells which
            hold.spoilt = True

    def _look(self, hold: _Hold) -> None:
        while not hold.ended.wait(LOOK_SECONDS):
            with self._turn:
                idle = time.monotonic() - hold.asked >= self.idle
                hold.ending = hold.ending or (idle and not hold.asking)
                if hold is self._hold:
                    self._give_way()


def _connection(hold: _Hold) -> duckdb.DuckDBPyConnection:
    try:
        return hold.free.pop() if hold.free else database.beside(hold.connection)
    except duckdb.Error:
        hold.spoilt = True
        raise
