"""Who may open an index, or write a mindmap: decided by `flock`, which dies with its process.

An index has many readers or one writer, and a turnstile keeps both sides moving. Everybody who enters
first takes the door, alone, then the lock, shared or alone, then lets the door go. So a waiting writer holds
the door and no new reader slips past it; a waiting reader holds the door and a writer that comes back at once
queues behind it. Whoever keeps a lock for long sees that somebody waits by finding the door taken.

Waiting is polling, because a blocking `flock` knows no time limit.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stores.errors import LineageError

DOOR: Final = "door.lock"
LOCK: Final = "index.lock"

# Short beside the 15 ms that opening costs, long beside the microseconds of a system call.
POLL_SECONDS: Final = 0.002
# Whoever waits longer than this waits for something slow; polling less often leaves it the processor.
PATIENT_AFTER: Final = 0.5
PATIENT_POLL_SECONDS: Final = 0.02
# What the system says of a file that may only be read.
_ONLY_TO_READ: Final = {errno.EROFS, errno.EACCES, errno.EPERM}


class IndexBusy(LineageError):
    """The index stayed in another process's hands for as long as this one was ready to wait."""


def index_busy(seconds: float) -> LineageError:
    """What is said after waiting this long for an index."""
    return IndexBusy(
        f"The index is in use by another process; waited {seconds:.3g} s.",
        hint="Wait for the other `lineage` command, or close the program that has the index open, and try again.",
    )


@dataclass(frozen=True, slots=True)
class Deadline:
    """A bound on waiting, shared by all the steps of one entry; `busy` is what is raised at its end."""

    started: float
    seconds: float
    busy: Callable[[float], LineageError] = index_busy

    @classmethod
    def after(cls, seconds: float, busy: Callable[[float], LineageError] = index_busy) -> Deadline:
        """A deadline this many seconds from now."""
        return cls(time.monotonic(), seconds, busy)

    @property
    def left(self) -> float:
        """Seconds until then; 0 once the time is over."""
        return max(0.0, self.seconds - (time.monotonic() - self.started))

    def pause(self) -> None:
        """Sleep until the next try; an error once the time is over."""
        waited = time.monotonic() - self.started
        if waited >= self.seconds:
            raise self.busy(self.seconds)
        time.sleep(POLL_SECONDS if waited < PATIENT_AFTER else PATIENT_POLL_SECONDS)


@contextmanager
def entered(folder: Path, *, exclusive: bool, deadline: Deadline) -> Iterator[None]:
    """Hold the index in this folder, shared with readers, though it may only be read, or alone."""
    reads = not exclusive
    with closing(lock(folder / DOOR, _until(deadline, fcntl.LOCK_EX), reads=reads)):
        kind = fcntl.LOCK_SH if reads else fcntl.LOCK_EX
        inside = lock(folder / LOCK, _until(deadline, kind), reads=reads)
    with closing(inside):
        yield


def wanted(folder: Path) -> bool:
    """Whether somebody waits for the index: asked at each boundary by whoever holds it for long.

    FileNotFoundError when the folder is gone or going: a file made now would keep it from being deleted.
    """
    with closing(os.open(folder / DOOR, os.O_RDONLY)) as door:
        # Shared, so that two who ask do not take each other for somebody who waits.
        return not took(door, fcntl.LOCK_SH)


@contextmanager
def held(path: Path, deadline: Deadline) -> Iterator[int]:
    """Hold this lock file, alone; the body may write into the descriptor it is given."""
    with closing(lock(path, _until(deadline, fcntl.LOCK_EX))) as descriptor:
        yield descriptor


def lock(path: Path, take: Callable[[int], None], *, reads: bool = False) -> int:
    """A descriptor whose lock `take` has taken; closing it lets go. `reads` as in `opened`."""
    while True:
        descriptor = opened(path, reads=reads)
        try:
            take(descriptor)
            if _is_current(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def took(descriptor: int, kind: int) -> bool:
    """Take the lock if nobody is in the way."""
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        return True
    return False


def opened(path: Path, *, reads: bool = False) -> int:
    """A descriptor of the lock file, made if it is not there.

    Who only `reads` what it guards gets one of a file that may not be written to, too: it can be locked all the same.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if not reads or error.errno not in _ONLY_TO_READ:
            raise
        with suppress(FileNotFoundError):
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        raise


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """The descriptor, and with its end the end of its lock."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _until(deadline: Deadline, kind: int) -> Callable[[int], None]:
    def take(descriptor: int) -> None:
        while not took(descriptor, kind):
            deadline.pause()

    return take


def _is_current(descriptor: int, path: Path) -> bool:
    # The file may have been deleted while we waited; a lock on a deleted file keeps nobody out.
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))
