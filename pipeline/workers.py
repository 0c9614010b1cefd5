"""Ordered parallel map over worker processes, with a bounded number of items in flight.

`WorkerPool(1).map` runs in this process. Unlike joblib's generator, the pool reads no new item until the caller takes a
result (a history does not fit in memory), and it decides which worker gets which item: each is a pool of one process.
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
from pipeline.malloc import configure_malloc
from stores.errors import LineageError

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future


Item = TypeVar("Item")
Result = TypeVar("Result")

# On Linux, workers are forked from one server process that has imported their modules, which costs less than spawning
# each: see "Start of workers" in README.md. On macOS system libraries do not survive a fork.
START_METHOD: Final = "forkserver" if sys.platform == "linux" else "spawn"
# Module that runs in each worker, preloaded by the fork server.
EXECUTOR_MODULE: Final = "joblib.externals.loky.process_executor"
# Workers create hundreds of thousands of objects without cycles: with the default threshold, garbage collection freed
# nothing and took 4 % of their time.
GC_THRESHOLD: Final = 100_000


class WorkerDied(LineageError):
    """A worker process ended during a task."""


def count_usable_cpus() -> int:
    """Return the number of processors this process may run on, at least one."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class WorkerPool:
    """Pool of worker processes, started on first use.

    `jobs`: number of processes; with one, `map` runs in this process.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = max(1, jobs)
        self._workers: list[Executor] = []
        self._shutdown_threads: list[threading.Thread] = []

    def preload(self, module: str) -> None:
        """Import a module in the workers, in the background, before they are needed."""
        if self.jobs > 1 and not _start_fork_server(module):
            for worker in self._ensure_workers(self.jobs, module):
                _submit(worker, import_module, module)

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        *,
        max_jobs: int | None = None,
        group_size: int = 1,
        restart_per_group: bool = False,
    ) -> Iterator[Result]:
        """Yield `function(item)` for each item, in order; at most `max_in_flight(jobs, group_size)` items in flight.

        `max_jobs`: limit on the number of processes for this call.
        `group_size`: consecutive items that go to the same process, for functions that cache.
        `restart_per_group`: start a new process for each group, which frees the memory of the last one. Only with
        forked workers, which start fast.
        """
        jobs = min(self.jobs, self.jobs if max_jobs is None else max_jobs)
        if jobs <= 1:
            yield from map(function, items)
            return
        module = function.__module__
        self._ensure_workers(jobs, module)
        pending_futures: deque[Future[Result]] = deque()
        latest_futures: dict[int, Future[Result]] = {}
        try:
            for number, item in enumerate(items):
                worker_index = number // group_size % jobs
                if (
                    restart_per_group
                    and START_METHOD == "forkserver"
                    and number % group_size == 0
                    and worker_index in latest_futures
                ):
                    while not latest_futures[worker_index].done():
                        yield _get_result(pending_futures.popleft())  # an earlier result, instead of waiting
                    self._replace_worker(worker_index, module)
                latest_futures[worker_index] = _submit(self._workers[worker_index], function, item)
                pending_futures.append(latest_futures[worker_index])
                if len(pending_futures) >= compute_max_in_flight(jobs, group_size):
                    yield _get_result(pending_futures.popleft())
            while pending_futures:
                yield _get_result(pending_futures.popleft())
        finally:
            # Cancel the tasks that have not started; the others end soon.
            for result in pending_futures:
                result.cancel()

    def request_shutdown(self) -> None:
        """Shut the workers down without waiting. The next call starts new ones."""
        for worker in self._workers:
            self._shut_down(worker)
        self._workers.clear()

    def close(self) -> None:
        """Shut the workers down and wait until they have ended."""
        self.request_shutdown()
        for thread in self._shutdown_threads:
            thread.join()
        self._shutdown_threads.clear()

    def _ensure_workers(self, jobs: int, module: str) -> list[Executor]:
        self._workers += [_start_worker(module) for _ in range(jobs - len(self._workers))]
        return self._workers[:jobs]

    def _replace_worker(self, worker_index: int, module: str) -> None:
        self._shut_down(self._workers[worker_index])
        self._workers[worker_index] = _start_worker(module)

    def _shut_down(self, worker: Executor) -> None:
        thread = threading.Thread(target=worker.shutdown)
        thread.start()
        self._shutdown_threads.append(thread)

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def compute_max_in_flight(jobs: int, group_size: int = 1) -> int:
    """Return the limit of items in flight: a group per worker, and one more for the first that finishes."""
    return (jobs + 1) * group_size


def _submit(worker: Executor, function: Callable[[Item], Result], item: Item) -> Future[Result]:
    with _translate_worker_errors(), signals.defer_signals():
        return worker.submit(function, item)


def _get_result(future: Future[Result]) -> Result:
    with _translate_worker_errors():
        return future.result()


@contextmanager
def _translate_worker_errors() -> Iterator[None]:
    try:
        yield
    except BrokenExecutor as error:
        raise WorkerDied(
            "The system ended a worker process, perhaps because memory ran out.",
            hint="Run `lineage index` again to continue. If this happens again, add `--workers 1`.",
        ) from error


def _start_worker(module: str) -> Executor:
    """Start a process that will call functions of this module."""
    _start_fork_server(module)
    from joblib.externals.loky import ProcessPoolExecutor

    with signals.defer_signals():
        worker: Executor = ProcessPoolExecutor(
            max_workers=1, context=get_context(START_METHOD), initializer=_initialize_worker
        )
    return worker


def _start_fork_server(module: str) -> bool:
    """Start the fork server, which preloads the module. Return False if workers are not forked."""
    if START_METHOD != "forkserver":
        return False
    get_context(START_METHOD).set_forkserver_preload(["__main__", EXECUTOR_MODULE, module])
    # Child processes inherit blocked signals: the resource tracker must survive SIGHUP, and only this process handles
    # Ctrl-C. Start the tracker first, because its start unblocks SIGINT.
    with _block_signal(signal.SIGHUP):
        resource_tracker.ensure_running()
    with _block_signal(signal.SIGINT):
        forkserver.ensure_running()
    return True


@contextmanager
def _block_signal(number: signal.Signals) -> Iterator[None]:
    """Block a signal in this thread, and in processes that it starts, during the `with` statement's body."""
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)


def _initialize_worker() -> None:
    """Ignore Ctrl-C, exit with the parent, limit memory, and collect garbage rarely."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    configure_malloc()
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    # Exit without freeing caches, which took half a second and is not needed: the parent has all results.
    atexit.register(os._exit, 0)
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


def _exit_with_parent() -> None:
    """Exit when the parent ends, even if it was killed."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
