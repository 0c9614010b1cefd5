"""Which indexing run is the only one of its index, and which one is next.

Hooks start a run for every commit. One works, one waits to take up what came meanwhile, and all others leave:
what they came for is there already to be seen by the one that waits.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from stores import places
from stores.locking import POLL_SECONDS, IndexBusy, closing, lock, opened, took
from stores.places import Place

RUN: Final = "run.lock"
NEXT: Final = "next.lock"
# A run that a hook started holds the lock for 0.1 s when it finds nothing to do: no reason to refuse a person.
GLANCE_SECONDS: Final = 0.5


class RunAtWork(IndexBusy):
    """Another indexing run is at work."""


@dataclass(frozen=True, slots=True)
class Run:
    """The only run, by the lock it holds."""

    descriptor: int

    def begin(self) -> None:
        """Say which process is at work: from here on there is something to write."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, f"{os.getpid()}\n".encode(), 0)


@contextmanager
def sole_run(place: Place) -> Iterator[None]:
    """Be the only run of this index; RunAtWork when there is one already."""
    places.claim(place)
    with closing(lock(place.folder / RUN, _or_refuse_soon)) as descriptor:
        Run(descriptor).begin()
        os.close(opened(place.folder / NEXT))  # so that a run which finds nothing to do makes no file
        yield


@contextmanager
def next_run(place: Place, waits: Callable[[RunAtWork], None]) -> Iterator[Run | None]:
    """Be the only run as soon as the one at work ends; None at once when another waits for that already.

    Everybody goes through the one waiting place, and is out of it before looking at what there is to do. So who
    finds it taken may leave. `waits` hears of the run that is waited for.
    """
    places.claim(place)
    waiting = _free(place)
    if waiting is None:
        yield None
        return
    with closing(waiting):
        run = lock(place.folder / RUN, lambda descriptor: _or_wait(descriptor, waits))
    with closing(run):
        yield Run(run)


def is_awaited(place: Place) -> bool:
    """Whether somebody waits for the run at work.

    Who asks has the waiting place for a moment where it is free, and may send others away: ask only to come
    and take it, `next_run`, when nobody does.
    """
    waiting = _free(place)
    if waiting is None:
        return True
    os.close(waiting)
    return False


def _free(place: Place) -> int | None:
    """A descriptor that holds the waiting place, or None when somebody else does."""
    try:
        return lock(place.folder / NEXT, _or_refuse)
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
