"""File locks (`flock`) of indexes and mindmaps; the operating system releases them when their process ends.

- Index lock: a fair readers-writer lock over two files. Every process first takes the gate lock exclusively, then
  the index lock (shared for readers, exclusive for the writer), then releases the gate. Therefore a waiting writer
  blocks new readers, and a waiting reader blocks the next writer, so neither starves. A process that holds the index
  for long checks whether the gate is locked. If it is, another process waits for the index.
- Run lock: at most one index run per index, and at most one queued run per work tree. Git hooks start a run after
  every commit. A run that finds another one queued can end, because the queued run will index its commits too. Work
  trees share the index but not HEAD, so each has its own queue.
- Lock holders: the processes that hold a lock file, read from /proc/locks without taking the lock. A suspended holder
  (Ctrl-Z, SIGSTOP) cannot give up its lock.

Timeouts are implemented by polling, because a blocking `flock` has none.
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
from functools import partial
from pathlib import Path
from typing import Final

from stores import errors, index_location
from stores.errors import LineageError
from stores.index_location import IndexLocation

GATE_LOCK: Final = "door.lock"
INDEX_LOCK: Final = "index.lock"
RUN_LOCK: Final = "run.lock"

# Time between two attempts: short compared with the 15 ms of opening an index, long compared with a system call.
POLL_SECONDS: Final = 0.002
# After this time the wait is probably for a slow operation: poll less often, to leave the processor to it.
SLOW_POLL_AFTER_SECONDS: Final = 0.5
SLOW_POLL_SECONDS: Final = 0.02
# Time to wait for the run lock before a run in progress is reported. A git hook's run without new commits holds the
# lock for 0.1 s.
RUN_LOCK_WAIT_SECONDS: Final = 0.5
# Time after which a process that writes the index says for which other process it waits.
LONG_WAIT_SECONDS: Final = 2.0
# Errors of opening a file for writing in a place where only reading is permitted.
_READ_ONLY_ERRNOS: Final = {errno.EROFS, errno.EACCES, errno.EPERM}

# List of all locks on Linux; on other systems the holders are unknown.
_PROC_LOCKS: Final = Path("/proc/locks")
# `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`; lines of waiting processes have an arrow and do not match.
_HELD_LOCK: Final = re.compile(
    r"^\d+: FLOCK +\w+ +(READ|WRITE) +(\d+) ([0-9a-f]+):([0-9a-f]+):(\d+) ", re.MULTILINE
)
_MAX_COMMAND_LENGTH: Final = 60  # characters of a command line in messages


class IndexBusy(LineageError):
    """Error for a lock of an index that another process held until the timeout."""


class RunInProgress(IndexBusy):
    """Error for an index run that was refused because another one is in progress."""


def build_index_busy_error(seconds: float, folder: Path | None = None) -> LineageError:
    """Return the error for an index that was busy for this many seconds.

    `folder`: directory of the index; with it, the error names the process that holds the index.
    """
    holder = find_index_holder(folder) if folder else None
    hint = (
        "Wait for the other `lineage` command, or close the program that has the index open, and try again."
    )
    return IndexBusy(
        f"The index is still in use by {holder or 'another process'} after {seconds:.3g} s.",
        hint=holder.remedy if holder and holder.is_suspended else hint,
    )


@dataclass(frozen=True, slots=True)
class Deadline:
    """Time limit for acquiring one or several locks, and for copying an index.

    `started_at`: value of `time.monotonic()` at the start. `seconds`: time limit from then on.
    `build_timeout_error`: gets `seconds` and returns the error to raise after the deadline.
    `report_long_wait`: called once, after a wait of LONG_WAIT_SECONDS.
    """

    started_at: float
    seconds: float
    build_timeout_error: Callable[[float], LineageError] = build_index_busy_error
    report_long_wait: Callable[[], None] = lambda: None

    @classmethod
    def after(
        cls, seconds: float, build_timeout_error: Callable[[float], LineageError] = build_index_busy_error
    ) -> Deadline:
        """Return a deadline this many seconds from now."""
        return cls(time.monotonic(), seconds, build_timeout_error)

    @classmethod
    def for_index(cls, folder: Path, seconds: float) -> Deadline:
        """Return a deadline for the index in this directory, whose error names the process that holds the index."""
        return cls.after(seconds, partial(build_index_busy_error, folder=folder))

    @property
    def remaining_seconds(self) -> float:
        """Seconds until the deadline; 0 after it."""
        return max(0.0, self.seconds - (time.monotonic() - self.started_at))

    def pause(self) -> None:
        """Sleep for a moment before the next attempt. After the deadline, raise the timeout error instead."""
        waited_seconds = time.monotonic() - self.started_at
        if waited_seconds >= self.seconds:
            raise self.build_timeout_error(self.seconds)
        time.sleep(POLL_SECONDS if waited_seconds < SLOW_POLL_AFTER_SECONDS else SLOW_POLL_SECONDS)
        if waited_seconds < LONG_WAIT_SECONDS <= time.monotonic() - self.started_at:
            self.report_long_wait()


@contextmanager
def acquire_index(folder: Path, *, exclusive: bool, deadline: Deadline) -> Iterator[None]:
    """Hold the index lock in this directory, exclusively or shared; raise IndexBusy after the deadline.

    A shared lock can be held even in a directory that this process may only read.
    """
    is_shared = not exclusive
    with close_finally(_lock_file(folder / GATE_LOCK, _lock_until(deadline), allow_read_only=is_shared)):
        operation = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
        index_lock = _lock_file(
            folder / INDEX_LOCK, _lock_until(deadline, operation), allow_read_only=is_shared
        )
    with close_finally(index_lock):
        yield


def has_waiters(folder: Path) -> bool:
    """Return whether a process waits for the index. Processes that hold it for long call this regularly.

    Raises FileNotFoundError if the directory or its lock file was deleted. The lock file is not created again, because
    it could prevent the deletion of the directory.
    """
    with close_finally(_open_for_reading(folder / GATE_LOCK)) as gate:
        # The lock is shared, so that two concurrent checks do not take each other for a waiting process.
        return not try_lock(gate, fcntl.LOCK_SH)


def is_index_free(folder: Path) -> bool:
    """Return whether a reader could open the index without waiting.

    Raises FileNotFoundError if a lock file does not exist.
    """
    for name in (GATE_LOCK, INDEX_LOCK):
        with close_finally(_open_for_reading(folder / name)) as descriptor:
            if not try_lock(descriptor, fcntl.LOCK_SH):
                return False
    return True


@contextmanager
def acquire_exclusive_lock(path: Path, deadline: Deadline) -> Iterator[int]:
    """Hold this lock file exclusively; yield its descriptor, which is open for writing."""
    with close_finally(_lock_file(path, _lock_until(deadline))) as descriptor:
        yield descriptor


def try_lock(descriptor: int, operation: int) -> bool:
    """Take the lock without waiting; return whether this was possible. `operation`: fcntl.LOCK_SH or LOCK_EX."""
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        return True
    return False


def open_lock_file(path: Path, *, allow_read_only: bool = False) -> int:
    """Return a descriptor of the lock file, which is created if necessary.

    `allow_read_only`: if the file cannot be opened for writing, open it for reading, which suffices for `flock`. Raises
    SpecialFile for a link, a directory and the like.
    """
    if path.is_symlink() or errors.is_special_file(path):
        raise errors.SpecialFile(path)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if not allow_read_only or error.errno not in _READ_ONLY_ERRNOS:
            raise
        with suppress(FileNotFoundError):
            return _open_for_reading(path)
        raise


def _open_for_reading(path: Path) -> int:
    """Return a descriptor of an existing lock file. Does not wait if the file is a pipe."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)


@contextmanager
def close_finally(descriptor: int) -> Iterator[int]:
    """Close the descriptor after the body, which also releases its lock."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class RunLock:
    """Run lock that this process holds. `file`: the lock file."""

    file: Path

    def record_process(self) -> None:
        """Write this process's id into the lock file. Call this before changing the index.

        Raises OSError if the file cannot be written to. Then the index cannot be written to, either.
        """
        with (
            errors.attach_filename(self.file),
            close_finally(os.open(self.file, os.O_WRONLY | os.O_NOFOLLOW)) as descriptor,
        ):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


@contextmanager
def acquire_run_lock(location: IndexLocation) -> Iterator[None]:
    """Hold the run lock of this index; raise RunInProgress if another process holds it for RUN_LOCK_WAIT_SECONDS."""
    index_location.create_index_directory(location)
    with close_finally(_lock_file(location.folder / RUN_LOCK, _lock_run)):
        RunLock(location.folder / RUN_LOCK).record_process()
        yield


@contextmanager
def wait_for_run_lock(
    location: IndexLocation, git_dir: Path, on_wait: Callable[[RunInProgress], None]
) -> Iterator[RunLock | None]:
    """Hold the run lock, after a wait for a run in progress; yield None if a run is queued in this work tree.

    A caller that gets None can end, because the queued run looks for new commits only after its wait. A read-only index
    directory is accepted, because there may be nothing to write; `record_process` fails there.

    `git_dir`: the work tree's own git directory. `on_wait`: called before the wait, with the error that describes the
    run in progress.
    """
    try:
        index_location.create_index_directory(location)
    except OSError:
        if not location.folder.is_dir():
            raise
    descriptor = _lock_if_free(location.folder / RUN_LOCK)
    if descriptor is None:
        descriptor = _wait_in_queue(location, git_dir, on_wait)
    if descriptor is None:
        yield None
        return
    with close_finally(descriptor):
        yield RunLock(location.folder / RUN_LOCK)


def is_run_queued(location: IndexLocation, git_dir: Path) -> bool:
    """Return whether an index run is queued in this work tree.

    Call this only before `wait_for_run_lock`, which queues a run. The check locks a free queue for a moment, so another
    run that checks at this moment ends as if a run were queued.
    """
    try:
        descriptor = _open_for_reading(get_queue_lock_path(location, git_dir))
    except FileNotFoundError:
        return False
    with close_finally(descriptor):
        return not try_lock(descriptor, fcntl.LOCK_EX)


def is_run_active(folder: Path) -> bool:
    """Return whether a process holds the run lock of this index; False on systems without /proc/locks."""
    return bool(find_lock_holders(folder / RUN_LOCK))


def get_queue_lock_path(location: IndexLocation, git_dir: Path) -> Path:
    """Return the path of the lock file that a queued run of this work tree holds; the file need not exist."""
    digest = hashlib.sha256(os.fsencode(git_dir)).hexdigest()[: index_location.ID_DIGITS]
    return location.folder / f"next-{digest}.lock"


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Process that holds a lock. `command`: start of its command line; empty if it cannot be read."""

    pid: int
    is_exclusive: bool
    command: str = ""
    is_suspended: bool = False

    @property
    def remedy(self) -> str:
        """Advice for a suspended process: the commands that continue or end it."""
        return (
            f"Continue it with `fg` or `kill -CONT {self.pid}`, or end it with `kill -KILL {self.pid}`. "
            "Committed data is kept."
        )

    def __str__(self) -> str:
        details = [self.command] if self.command else []
        if self.is_suspended:
            details.append("suspended")
        return f"process {self.pid} ({'; '.join(details)})" if details else f"process {self.pid}"


def find_index_holder(folder: Path) -> LockHolder | None:
    """Return the process that readers and writers of this index wait for; None if it is unknown.

    Of several holders, return a suspended one, else an exclusive one. The others wait for it or end soon.
    """
    # This process may hold the gate lock while it waits.
    gate_holders = [holder for holder in find_lock_holders(folder / GATE_LOCK) if holder.pid != os.getpid()]
    holders = [*find_lock_holders(folder / INDEX_LOCK), *gate_holders]
    return max(holders, key=lambda holder: (holder.is_suspended, holder.is_exclusive), default=None)


def find_lock_holders(file: Path) -> tuple[LockHolder, ...]:
    """Return the processes that hold this lock file; none on systems without /proc/locks."""
    try:
        status, lock_table = file.stat(), _PROC_LOCKS.read_text(encoding="ascii")
    except OSError:
        return ()
    lock_id = (os.major(status.st_dev), os.minor(status.st_dev), status.st_ino)
    is_exclusive_by_pid = {
        int(pid): mode == "WRITE"
        for mode, pid, major, minor, inode in _HELD_LOCK.findall(lock_table)
        if (int(major, 16), int(minor, 16), int(inode)) == lock_id
    }
    return tuple(
        LockHolder(pid, is_exclusive, _read_command(pid), is_process_suspended(pid))
        for pid, is_exclusive in is_exclusive_by_pid.items()
    )


def is_process_suspended(pid: int) -> bool:
    """Return whether a signal (SIGSTOP, SIGTSTP) or a debugger has stopped the process; False if unknown."""
    try:
        # The program's name comes before the state, in parentheses, and may contain any character.
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state in {b"T", b"t"}


def _read_command(pid: int) -> str:
    """Return the start of the process's command line; empty if it cannot be read."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    text = " ".join(word.decode("utf-8", "replace") for word in words)
    return " ".join(text.split())[:_MAX_COMMAND_LENGTH].strip()


def _lock_file(path: Path, lock: Callable[[int], None], *, allow_read_only: bool = False) -> int:
    """Open the lock file and lock its descriptor with `lock`. Closing the returned descriptor releases the lock."""
    while True:
        descriptor = open_lock_file(path, allow_read_only=allow_read_only)
        try:
            lock(descriptor)
            if _is_current(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_current(descriptor: int, path: Path) -> bool:
    """Return whether the file that is now at this path is the one that the descriptor has open.

    If the open file was deleted during the wait, a lock on it excludes no other process.
    """
    try:
        file_status = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(file_status, os.fstat(descriptor))


def _lock_until(deadline: Deadline, operation: int = fcntl.LOCK_EX) -> Callable[[int], None]:
    """Return a function that locks a descriptor, and polls until the deadline if the lock is not free."""

    def lock(descriptor: int) -> None:
        while not try_lock(descriptor, operation):
            deadline.pause()

    return lock


def _lock_run(descriptor: int) -> None:
    """Lock the descriptor of the run lock; raise RunInProgress after RUN_LOCK_WAIT_SECONDS."""
    end = time.monotonic() + RUN_LOCK_WAIT_SECONDS
    while not try_lock(descriptor, fcntl.LOCK_EX):
        if time.monotonic() > end:
            raise _build_run_in_progress_error(descriptor)
        time.sleep(POLL_SECONDS)


def _wait_in_queue(
    location: IndexLocation, git_dir: Path, on_wait: Callable[[RunInProgress], None]
) -> int | None:
    """Wait for the run in progress; return a descriptor with the run lock, None if another run is queued."""
    queue_lock = _lock_if_free(get_queue_lock_path(location, git_dir))
    if queue_lock is None:
        return None

    def lock(descriptor: int) -> None:
        if not try_lock(descriptor, fcntl.LOCK_EX):
            on_wait(_build_run_in_progress_error(descriptor))
            # This blocks instead of polling: a run may take hours, and there is no deadline.
            fcntl.flock(descriptor, fcntl.LOCK_EX)

    with close_finally(queue_lock):
        return _lock_file(location.folder / RUN_LOCK, lock, allow_read_only=True)


def _lock_if_free(path: Path) -> int | None:
    """Return a descriptor that holds this lock; None if another process holds it."""

    def lock(descriptor: int) -> None:
        if not try_lock(descriptor, fcntl.LOCK_EX):
            raise BlockingIOError

    try:
        return _lock_file(path, lock, allow_read_only=True)
    except BlockingIOError:
        return None


def _build_run_in_progress_error(descriptor: int) -> RunInProgress:
    """Return the error for a run lock that another process holds. The lock file has the process's id."""
    pid = os.pread(descriptor, 20, 0).decode("ascii", errors="replace").strip()
    hint = "Wait until it ends. Then run `lineage index --incremental` to index newer commits."
    if pid.isdecimal() and is_process_suspended(int(pid)):
        remedy = LockHolder(int(pid), is_exclusive=True).remedy
        return RunInProgress(
            f"Another `lineage index` for this repository is suspended (process {pid}). {remedy}", hint=hint
        )
    suffix = f" (process {pid})" if pid else ""
    return RunInProgress(f"Another `lineage index` is running for this repository{suffix}.", hint=hint)
