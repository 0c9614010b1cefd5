"""Which processes hold a lock file, asked without taking part: nobody waits because somebody looked.

Who may open an index, or write a mindmap: decided by `flock`, which dies with its process.

An index has many readers or one writer, and a turnstile keeps both sides moving. Everybody who enters
first takes the door, alone, then the lock, shared or alone, then lets the door go. So a waiting writer holds
the door and no new reader slips past it; a waiting reader holds the door and a writer that comes back at once
queues behind it. Whoever keeps a lock for long sees that somebody waits by finding the door taken.

Waiting is polling, because a blocking `flock` knows no time limit.

Which indexing run is the only one of its index, and which one is next.

Hooks start a run for every commit. One works, one waits to take up what came meanwhile, and all others leave:
what they came for is there already to be seen by the one that waits. Work trees of one repository share an index
but not HEAD, which is all that a run looks at: one may wait in each of them.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stores import errors, index_location
from stores.errors import LineageError
from stores.index_location import Place

# Linux lists every lock there is; elsewhere nobody can say who holds one.
LOCKS: Final = Path("/proc/locks")
# `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`; those that wait are marked with an arrow, and hold nothing.
_HELD: Final = re.compile(
    r"^\d+: FLOCK +\w+ +(READ|WRITE) +(\d+) ([0-9a-f]+):([0-9a-f]+):(\d+) ", re.MULTILINE
)
# Enough of a command to know it by.
LONGEST_COMMAND: Final = 60


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds a lock, alone or shared with others; `command` is empty where it is not ours to know."""

    pid: int
    alone: bool
    command: str = ""

    def __str__(self) -> str:
        return f"process {self.pid}" + (f" ({self.command})" if self.command else "")


def holders(file: Path) -> tuple[Holder, ...]:
    """The processes that hold this lock file; none where the system does not say."""
    try:
        status, listed = file.stat(), LOCKS.read_text(encoding="ascii")
    except OSError:
        return ()
    place = (os.major(status.st_dev), os.minor(status.st_dev), status.st_ino)
    found = [
        (int(pid), kind == "WRITE")
        for kind, pid, major, minor, inode in _HELD.findall(listed)
        if (int(major, 16), int(minor, 16), int(inode)) == place
    ]
    return tuple(Holder(pid, alone, _command(pid)) for pid, alone in dict(found).items())


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return " ".join(word.decode("utf-8", "replace") for word in words).strip()[:LONGEST_COMMAND]


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


RUN: Final = "run.lock"
# A run that a hook started holds the lock for 0.1 s when it finds nothing to do: no reason to refuse a person.
GLANCE_SECONDS: Final = 0.5


class RunAtWork(IndexBusy):
    """Another indexing run is at work."""


@dataclass(frozen=True, slots=True)
class Run:
    """The only run, for as long as it holds the lock on this file."""

    file: Path

    def begin(self) -> None:
        """Say which process is at work: from here on there is something to write, and an OSError where nobody may."""
        with (
            errors.named(self.file),
            closing(os.open(self.file, os.O_WRONLY | os.O_NOFOLLOW)) as descriptor,
        ):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


@contextmanager
def sole_run(place: Place) -> Iterator[None]:
    """Be the only run of this index; RunAtWork when there is one already."""
    index_location.claim(place)
    with closing(lock(place.folder / RUN, _or_refuse_soon)):
        Run(place.folder / RUN).begin()
        yield


@contextmanager
def next_run(place: Place, git_dir: Path, waits: Callable[[RunAtWork], None]) -> Iterator[Run | None]:
    """Be the only run as soon as the one at work ends; None at once when another waits in this work tree already.

    `git_dir` is the work tree's own. Who waits is out of the waiting place before looking at what there is to do:
    so who finds it taken may leave. `waits` hears of the run that is waited for. Where the folder may only be read,
    there may be nothing to do; only who begins all the same is refused.
    """
    try:
        index_location.claim(place)
    except OSError:
        if not place.folder.is_dir():
            raise
    run = _if_free(place.folder / RUN)
    if run is None:
        run = _after_waiting(place, git_dir, waits)
    if run is None:
        yield None
        return
    with closing(run):
        yield Run(place.folder / RUN)


def is_awaited(place: Place, git_dir: Path) -> bool:
    """Whether somebody in this work tree waits for the run at work.

    Who asks has the waiting place for a moment where it is free, and may send others away: ask only to come
    and take it, `next_run`, when nobody does.
    """
    try:
        descriptor = os.open(waiting_place(place, git_dir), os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    with closing(descriptor):
        return not took(descriptor, fcntl.LOCK_EX)


def waiting_place(place: Place, git_dir: Path) -> Path:
    """The lock file of the run that waits in this work tree; made by the first one that has to."""
    return (
        place.folder
        / f"next-{hashlib.sha256(os.fsencode(git_dir)).hexdigest()[: index_location.ID_DIGITS]}.lock"
    )


def _after_waiting(place: Place, git_dir: Path, waits: Callable[[RunAtWork], None]) -> int | None:
    """The run's lock, once the one at work has let it go; None at once when another waits for that."""
    waiting = _if_free(waiting_place(place, git_dir))
    if waiting is None:
        return None
    with closing(waiting):
        return lock(place.folder / RUN, lambda descriptor: _or_wait(descriptor, waits), reads=True)


def _if_free(path: Path) -> int | None:
    """A descriptor that holds this lock, or None when somebody else does."""
    try:
        return lock(path, _or_refuse, reads=True)
    except RunAtWork:
        return None


def _or_refuse(descriptor: int) -> None:
    if not took(descriptor, fcntl.LOCK_EX):
        raise _at_work(descriptor)


def _or_refuse_soon(descriptor: int) -> None:
    until = time.monotonic() + GLANCE_SECONDS
    while not took(descriptor, fcntl.LOCK_EX):
        if time.monotonic() > until:
            raise _at_work(descriptor)
        time.sleep(POLL_SECONDS)


def _or_wait(descriptor: int, waits: Callable[[RunAtWork], None]) -> None:
    if not took(descriptor, fcntl.LOCK_EX):
        waits(_at_work(descriptor))
        fcntl.flock(
            descriptor, fcntl.LOCK_EX
        )  # not by polling: a run may take hours, and there is no deadline


def _at_work(descriptor: int) -> RunAtWork:
    pid = os.pread(descriptor, 20, 0).decode("ascii", errors="replace").strip()
    return RunAtWork(
        f"Another `lineage index` is at work on this repository{f' (process {pid})' if pid else ''}.",
        hint="Let it finish; run `lineage index --incremental` afterwards if there is more to do.",
    )
