"""Who may open an index: many readers or one writer, decided by `flock`, which dies with its process.

A turnstile keeps both sides moving. Everybody who enters first takes the door, alone, then the lock,
shared or alone, then lets the door go. So a waiting writer holds the door and no new reader slips past
it; a waiting reader holds the door and a writer that comes back at once queues behind it. Whoever keeps
a lock for long sees that somebody waits by finding the door taken.

Waiting is polling, because a blocking `flock` knows no time limit.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stores.errors import LineageError

DOOR: Final = "door.lock"
LOCK: Final = "index.lock"
RUN: Final = "run.lock"

# Short beside the 15 ms that opening costs, long beside the microseconds of a system call.
POLL_SECONDS: Final = 0.002
# Whoever waits longer than this waits for something slow; polling less often leaves it the processor.
PATIENT_AFTER: Final = 0.5
PATIENT_POLL_SECONDS: Final = 0.02


class IndexBusy(LineageError):
    """The index stayed in another process's hands for as long as this one was ready to wait."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A bound on waiting, shared by all the steps of one entry."""

    started: float
    seconds: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """A deadline this many seconds from now."""
        return cls(time.monotonic(), seconds)

    @property
    def left(self) -> float:
        """Seconds until then; 0 once the time is over."""
        return max(0.0, self.seconds - (time.monotonic() - self.started))

    def pause(self) -> None:
        """Sleep until the next try; IndexBusy once the time is over."""
        waited = time.monotonic() - self.started
        if waited >= self.seconds:
            raise IndexBusy(
                f"The index is in use by another process; waited {self.seconds:.3g} s.",
                hint="Wait for the other `lineage` command, or close the program that has the index open, "
                "and try again.",
            )
        time.sleep(POLL_SECONDS if waited < PATIENT_AFTER else PATIENT_POLL_SECONDS)


@contextmanager
def entered(folder: Path, *, exclusive: bool, deadline: Deadline) -> Iterator[None]:
    """Hold the index in this folder, shared with readers or alone."""
    door = _lock(folder / DOOR, fcntl.LOCK_EX, deadline)
    try:
        lock = _lock(folder / LOCK, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH, deadline)
    finally:
        os.close(door)
    try:
        yield
    finally:
        os.close(lock)


def wanted(folder: Path) -> bool:
    """Whether somebody waits for the index: asked at each boundary by whoever holds it for long.

    FileNotFoundError when the folder is gone or going: a file made now would keep it from being deleted.
    """
    door = os.open(folder / DOOR, os.O_RDONLY)
    try:
        # Shared, so that two who ask do not take each other for somebody who waits.
        return not _took(door, fcntl.LOCK_SH)
    finally:
        os.close(door)


@contextmanager
def sole_run(folder: Path) -> Iterator[None]:
    """Be the only indexing run of this index; IndexBusy at once when there is one already."""
    descriptor = _lock(folder / RUN, fcntl.LOCK_EX, None)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


@contextmanager
def held(path: Path, deadline: Deadline) -> Iterator[int]:
    """Hold this lock file, alone; the body may write into the descriptor it is given."""
    descriptor = _lock(path, fcntl.LOCK_EX, deadline)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(path: Path, kind: int, deadline: Deadline | None) -> int:
    """A descriptor that holds the lock; closing it lets go. Without a deadline nothing is waited for."""
    while True:
        descriptor = _open(path)
        try:
            _wait(descriptor, kind, deadline)
            if _is_current(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _wait(descriptor: int, kind: int, deadline: Deadline | None) -> None:
    while not _took(descriptor, kind):
        if deadline is None:
            raise _second_run(descriptor)
        deadline.pause()


def _took(descriptor: int, kind: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        return True
    return False


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _is_current(descriptor: int, path: Path) -> bool:
    # The file may have been deleted while we waited; a lock on a deleted file keeps nobody out.
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def _second_run(descriptor: int) -> IndexBusy:
    pid = os.pread(descriptor, 20, 0).decode("ascii", errors="replace").strip()
    return IndexBusy(
        f"Another `lineage index` is at work on this repository{f' (process {pid})' if pid else ''}.",
        hint="Let it finish; run `lineage index --incremental` afterwards if there is more to do.",
    )
