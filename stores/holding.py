"""Keep an index open from batch to batch; give it up when somebody waits for it, and after each checkpoint.

Opening costs a write-ahead log that is replayed and a checkpoint that keeps it short: a third of what writing
a history took when every batch did both.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import duckdb

from stores import database, locking
from stores.lookout import Lookout
from stores.places import Place

# How long somebody may wait beside an index that nobody is using: less than opening it takes.
LOOK_SECONDS: Final = 0.01
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
            wanted = locking.wanted(self.place.folder)
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
        while not self._ended.wait(LOOK_SECONDS):
            with self._turn:
                try:
                    self._yield_to_others()
                except Exception as error:
                    self._failure = error  # told in the thread that writes, at its next batch
                    return
