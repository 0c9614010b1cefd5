"""`Workers(jobs).mapped(function, items)`: the same line serial or parallel; ordered, bounded in flight.

joblib's own generator starts every task as soon as a worker is free, however slowly results are taken. A
history does not fit in memory, so the window here moves only when a result is taken. Nor can it say which
worker takes what: each worker here is a pool of its own.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import forkserver, get_context, parent_process, resource_tracker
from typing import TYPE_CHECKING, Final, TypeVar

from pipeline import signals
from pipeline.malloc import limit_malloc_arenas
from stores.errors import LineageError

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future


Item = TypeVar("Item")
Result = TypeVar("Result")

# Workers are copies of one process that has imported what they need: started each for itself, two and loky's tracker
# took another 2.8 of 50 billion cycles of a history of 5,000 commits, a second until the first of them worked, and
# 50 MB. Elsewhere libraries of the system do not survive being copied.
START: Final = "forkserver" if sys.platform == "linux" else "spawn"
# Where what runs in a worker comes from.
EXECUTOR: Final = "joblib.externals.loky.process_executor"
# A worker makes values without cycles by the hundred thousand; looking through them found nothing to free and
# took 4 % of its time.
YOUNG_OBJECTS: Final = 100_000


class WorkerDied(LineageError):
    """A process ended in the middle of its work."""


def usable_cpus() -> int:
    """Processors this process may run on, at least one."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class Workers:
    """The processes of one run: started when they are needed, or begun sooner when it is sure that they will be.

    `jobs`: how many; with one, this process does the work itself.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = max(1, jobs)
        self._workers: list[Executor] = []
        self._leaving: list[threading.Thread] = []

    def begin(self, module: str) -> None:
        """Have a module imported for them while this process is busy with something else."""
        if self.jobs > 1 and not _copied(module):
            for worker in self._first(self.jobs, module):
                _submitted(worker, import_module, module)

    def mapped(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        *,
        most: int | None = None,
        run: int = 1,
        renewed: bool = False,
    ) -> Iterator[Result]:
        """`map(function, items)` in order; at most `in_flight(jobs, run)` items are begun and not yet taken.

        `most`: no more processes than this, since starting one costs as much as a batch. `run`: how many neighbours
        go to the same process, for functions that remember. `renewed`: no process has a second run, so that what it
        came to hold ends with the first; where processes are copies, starting one costs next to nothing.
        """
        jobs = min(self.jobs, self.jobs if most is None else most)
        if jobs <= 1:
            yield from map(function, items)
            return
        module = function.__module__
        self._first(jobs, module)
        waiting: deque[Future[Result]] = deque()
        newest: dict[int, Future[Result]] = {}
        try:
            for number, item in enumerate(items):
                place = number // run % jobs
                if renewed and START == "forkserver" and number % run == 0 and place in newest:
                    while not newest[place].done():
                        yield _result(waiting.popleft())  # rather than wait: it comes first, and makes room
                    self._renew(place, module)
                newest[place] = _submitted(self._workers[place], function, item)
                waiting.append(newest[place])
                if len(waiting) >= in_flight(jobs, run):
                    yield _result(waiting.popleft())
            while waiting:
                yield _result(waiting.popleft())
        finally:
            # Results nobody will take are not begun; those under way are short.
            for result in waiting:
                result.cancel()

    def dismiss(self) -> None:
        """Let them go, and their memory, without waiting for it; a later call starts others."""
        for worker in self._workers:
            self._leave(worker)
        self._workers.clear()

    def end(self) -> None:
        """Let them go, and wait until they have gone."""
        self.dismiss()
        for thread in self._leaving:
            thread.join()
        self._leaving.clear()

    def _first(self, jobs: int, module: str) -> list[Executor]:
        self._workers += [_worker(module) for _ in range(jobs - len(self._workers))]
        return self._workers[:jobs]

    def _renew(self, place: int, module: str) -> None:
        self._leave(self._workers[place])
        self._workers[place] = _worker(module)

    def _leave(self, worker: Executor) -> None:
        leaving = threading.Thread(target=worker.shutdown)
        leaving.start()
        self._leaving.append(leaving)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def in_flight(jobs: int, run: int = 1) -> int:
    """Items begun and not yet taken: a run for every worker, and the next one for whoever is done first."""
    return (jobs + 1) * run


def _submitted(worker: Executor, function: Callable[[Item], Result], item: Item) -> Future[Result]:
    with _deaths(), signals.held_off():
        return worker.submit(function, item)


def _result(future: Future[Result]) -> Result:
    with _deaths():
        return future.result()


@contextmanager
def _deaths() -> Iterator[None]:
    try:
        yield
    except BrokenExecutor as error:
        raise WorkerDied(
            "A worker process was ended by the system, perhaps for lack of memory.",
            hint="What is committed is kept. Run `lineage index` again, with `--workers 1` if it happens again.",
        ) from error


def _worker(module: str) -> Executor:
    """A process that is to call functions of this module."""
    _copied(module)
    from joblib.externals.loky import ProcessPoolExecutor

    with signals.held_off():
        worker: Executor = ProcessPoolExecutor(max_workers=1, context=get_context(START), initializer=_begin)
    return worker


def _copied(module: str) -> bool:
    """Whether workers are copies, of a process that imports this module from now on, or has long begun to."""
    if START != "forkserver":
        return False
    get_context(START).set_forkserver_preload(["__main__", EXECUTOR, module])
    # A process takes over what is held back. The tracker is needed until this one has ended, also where a terminal
    # closes; Ctrl-C is for this one alone, also while that one imports. Starting the tracker would let go of it.
    with _held_back(signal.SIGHUP):
        resource_tracker.ensure_running()
    with _held_back(signal.SIGINT):
        forkserver.ensure_running()
    return True


@contextmanager
def _held_back(number: signal.Signals) -> Iterator[None]:
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _begin() -> None:
    """Leave Ctrl-C to the parent, leave with the parent, keep little memory, and collect garbage rarely."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_malloc_arenas()
    threading.Thread(target=_leave_when_orphaned, daemon=True).start()
    # What they answered is with the parent: taking apart what they remember took them half a second.
    atexit.register(os._exit, 0)
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


def _leave_when_orphaned() -> None:
    """A parent that was killed says nothing."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
