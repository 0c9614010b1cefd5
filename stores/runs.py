"""Which indexing run is the only one of its index, and which one is next.

Hooks start a run for every commit. One works, one waits to take up what came meanwhile, and all others leave:
what they came for is there already to be seen by the one that waits. Work trees of one repository share an index
but not HEAD, which is all that a run looks at: one may wait in each of them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stores import places, refusals
from stores.locking import POLL_SECONDS, IndexBusy, closing, lock, took
from stores.places import Place

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
            refusals.named(self.file),
            closing(os.open(self.file, os.O_WRONLY | os.O_NOFOLLOW)) as descriptor,
        ):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


@contextmanager
def sole_run(place: Place) -> Iterator[None]:
    """Be the only run of this index; RunAtWork when there is one already."""
    places.claim(place)
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
        places.claim(place)
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
    return place.folder / f"next-{hashlib.sha256(os.fsencode(git_dir)).hexdigest()[: places.ID_DIGITS]}.lock"


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
