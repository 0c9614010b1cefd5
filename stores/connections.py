"""A thread that looks after an open index, and is waited for when Python ends.

Keep an index open from batch to batch; give it up when somebody waits for it, and after each checkpoint.

Opening costs a write-ahead log that is replayed and a checkpoint that keeps it short: a third of what writing
a history took when every batch did both.

Keep an index open from question to question, and give it up as soon as a writer waits for it.

Opening takes longer than a question does of an index that is open.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from weakref import WeakSet

import duckdb

from stores import database, locks
from stores.database import READ_WAIT_SECONDS, DamagedIndex, Fingerprint
from stores.errors import Refused
from stores.index_location import Place
from stores.locks import Deadline

# How long a process that ends waits for one: long beside the second that a full log takes to be taken in.
LEAVING_SECONDS: Final = 10.0


class Lookout(threading.Thread):
    """Looks until `ended` is set: by whoever started it, or by a Python that ends."""

    def __init__(self, look: Callable[[], None], ended: threading.Event) -> None:
        super().__init__(target=look, name="index-lookout", daemon=True)
        self.ended = ended
        # Python before 3.13 takes a thread for ended whose `join` was interrupted.
        self._done = threading.Event()
        _lookouts.add(self)

    def run(self) -> None:
        """Look, let go of what was looked after, and say so."""
        try:
            super().run()
        finally:
            self._done.set()

    def stop(self) -> None:
        """Come back when it does nothing any more, was never started, or is stuck."""
        self.ended.set()
        if self.ident is not None:
            self._done.wait(LEAVING_SECONDS)


_lookouts: Final[WeakSet[Lookout]] = WeakSet()


@atexit.register
def _stop_all() -> None:
    """A thread that is still within the engine, or frees what is the engine's, while Python ends aborts the process."""
    lookouts = tuple(_lookouts)
    for lookout in lookouts:
        lookout.ended.set()
    for lookout in lookouts:
        lookout.stop()


# How long somebody may wait beside an index that nobody is using: less than opening it takes.
WRITER_POLL_SECONDS: Final = 0.01
# A checkpoint costs the same for one batch as for ten, and what it leaves is replayed only after a kill.
LARGEST_HELD_WAL: Final = 8_000_000


class Held:
    """One run's hold on an index; one thread writes, and another looks out for who waits."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._turn = threading.Lock()
        self._opened: ExitStack | None = None
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._made = False
        self._inode = 0
        self._failure: Exception | None = None
        self._ended = threading.Event()
        self._lookout = Lookout(self._look, self._ended)

    @contextmanager
    def batch(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for one batch, alone, which may be closed behind it.

        Errors are those of `database.writing`.
        What the body committed stays; what it left uncommitted when it failed is gone.
        """
        with self._turn:
            if self._failure is not None:
                raise self._failure
            connection = self._open()
            try:
                yield connection
                if database.settle(connection, self.place, LARGEST_HELD_WAL):
                    # Nothing is left to replay, so opening again is cheap, and what the engine knows of every row
                    # group, which it never forgets of an open file, is gone: 35 MB at 20,000 commits.
                    self._close()
            except BaseException:
                self._close()
                raise
            self._yield_to_others()

    def let_go(self) -> None:
        """Close the index until the next batch."""
        with self._turn:
            self._close()

    def __enter__(self) -> Held:
        self._lookout.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._lookout.stop()
        finally:
            self.let_go()

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            with ExitStack() as opening:
                # Once there was one, opening would make another, empty one.
                self._connection = opening.enter_context(database.writing(self.place, create=not self._made))
                self._inode = self._found()
                self._opened = opening.pop_all()
            self._made = True
        return self._connection

    def _close(self) -> None:
        opened, self._opened, self._connection = self._opened, None, None
        if opened is not None:
            opened.__exit__(*sys.exc_info())

    def _yield_to_others(self) -> None:
        if self._opened is None:
            return
        try:
            wanted = locks.wanted(self.place.folder)
            there = self._found() == self._inode
        except FileNotFoundError:
            there = False
        if not there:
            self._close()
            raise database.gone(self.place)
        if wanted:
            self._close()

    def _found(self) -> int:
        """Which file lies where the index does: one that was deleted can be written to, and nobody will read it."""
        return self.place.database.stat().st_ino

    def _look(self) -> None:
        while not self._ended.wait(WRITER_POLL_SECONDS):
            with self._turn:
                try:
                    self._yield_to_others()
                except Exception as error:
                    self._failure = error  # told in the thread that writes, at its next batch
                    return


# How long a writer may wait beside an index that nobody asks: looking more often would keep a processor awake.
READER_POLL_SECONDS: Final = 0.05
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
            hold.ending = hold.ending or locks.wanted(self.place.folder)
        except OSError:  # no folder, or no file can be opened: opening anew tells which
            hold.spoilt = True

    def _look(self, hold: _Hold) -> None:
        while not hold.ended.wait(READER_POLL_SECONDS):
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
