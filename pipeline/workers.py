"""Parallel calls of a function through joblib with the results in order, start of worker processes, settings of malloc.

joblib starts new tasks even if the caller has not taken earlier results, and the results of a whole history do not fit
in memory. So tasks run in groups, and a group starts when all results of the group before it have arrived.
`joblib.parallel_config` can select another backend for the same tasks, such as Dask.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Final, Literal, TypeVar

from pipeline import interrupts
from stores.errors import LineageError, OutOfMemory

Item = TypeVar("Item")
Result = TypeVar("Result")

# Time after which idle worker processes end. The pause between two groups is shorter.
IDLE_SECONDS: Final = 5
# Number of new objects after which Python collects garbage in a worker. Workers create hundreds of thousands of objects
# without reference cycles. With Python's default threshold, collection freed nothing and took 4 % of the time.
GC_THRESHOLD: Final = 100_000
# Name of joblib's thread that sends tasks to the worker processes and receives their results.
MANAGER_THREAD: Final = "ExecutorManagerThread"
# Time between two checks in a worker process whether its parent still runs.
PARENT_POLL_SECONDS: Final = 1.0

# Address space that a run needs at its start, for the stacks of threads and the first blocks of DuckDB and pyarrow.
# With 80 MB or less, sometimes a thread of pyarrow could not be started, and the run waited for the thread forever.
MIN_FREE_BYTES: Final = 192 << 20

# Parameters of `mallopt`, from malloc.h.
_TRIM_THRESHOLD: Final = -1
_ARENA_MAX: Final = -8

# If more memory than this is free at the end of the heap, glibc returns that memory to the system. This is glibc's
# default, but setting it stops glibc from raising this threshold and the one for `mmap` at run time.
TRIM_THRESHOLD_BYTES: Final = 128 << 10
# Number of glibc's arenas, which are separate heaps. By default there are up to eight per processor, and a thread
# cannot reuse the freed memory of another arena.
MAX_ARENAS: Final = 1


class WorkerDied(LineageError):
    """A worker process ended during a task."""


class _RunningTasks:
    """Counter of the tasks that run in threads of this process. Each task runs in a `with` statement on it."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = 0

    def __enter__(self) -> None:
        with self._condition:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self._count -= 1
            self._condition.notify_all()

    def wait(self) -> None:
        """Wait until no task runs, because the C++ code of the encoder aborts if the process exits during a task."""
        with self._condition:
            self._condition.wait_for(lambda: not self._count)


_running_tasks: Final = _RunningTasks()


def count_usable_cpus() -> int:
    """Return the number of processors that this process may run on, at least one."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def count_jobs(jobs: int | None) -> int:
    """Return `jobs`, the number of workers for `map_groups`; for None, the number of `joblib.parallel_config`."""
    from joblib import effective_n_jobs

    return effective_n_jobs(None) if jobs is None else jobs


def map_groups(
    function: Callable[[Item], Result],
    groups: Iterable[Sequence[Item]],
    *,
    jobs: int | None,
    prefer: Literal["processes", "threads"],
) -> Generator[Result]:
    """Call a function with each item of each group, and yield the results in the order of the items, as they arrive.

    The last results of a group are yielded after the next group has started.
    `jobs`: number of workers; 1 runs the tasks in this thread. None leaves the number to `joblib.parallel_config`.
    `prefer`: kind of workers, if `joblib.parallel_config` selects no backend.
    Raises WorkerDied if a worker process ends during a task, and RuntimeError if the system starts no more threads.
    """
    from joblib import Parallel, delayed

    parallel = Parallel(
        n_jobs=jobs,
        prefer=prefer,
        return_as="generator",
        batch_size=1,
        pre_dispatch="all",
        # Arguments for worker processes. Other backends ignore them.
        idle_worker_timeout=IDLE_SECONDS,
        initializer=initialize_worker,
        initargs=(os.getpid(),),
    )
    call = delayed(_run_call)
    with ExitStack() as stack:
        stack.enter_context(_translate_worker_errors())
        if jobs != 1 and _uses_processes(prefer):
            interrupts.start_resource_tracker()
            stack.enter_context(_end_tasks_if_manager_fails())
        stack.callback(_running_tasks.wait)
        with interrupts.defer_signals():
            stack.enter_context(parallel)
        group_results: Generator[Result] | None = None
        # The last results of a group, one for each worker, arrive at about the same time. They are yielded
        # after the next group has started, so that the workers do not wait.
        last_count = 0 if jobs == 1 else count_jobs(jobs)
        last_results: deque[Result] = deque()
        try:
            for group in groups:
                with interrupts.defer_signals():
                    group_results = parallel(call(function, item) for item in group)
                yield from _take_all(last_results)
                for result in islice(group_results, max(0, len(group) - last_count)):
                    yield result
                    del result  # frees it while the next one is computed
                last_results.extend(group_results)
            yield from _take_all(last_results)
        except BaseException:
            if group_results is not None:
                _cancel(group_results)
            raise


def _take_all(results: deque[Result]) -> Iterator[Result]:
    """Remove and yield each result, so that the queue does not keep it in memory."""
    while results:
        yield results.popleft()


def _run_call(function: Callable[[Item], Result], item: Item) -> Result:
    """Call the function of `map_groups` in a worker."""
    with _running_tasks:
        result = function(item)
        if gc.get_freeze_count():  # only in worker processes, where `initialize_worker` called `gc.freeze`
            gc.collect()  # frees repositories and their caches, which are in reference cycles
        return result


@contextmanager
def _translate_worker_errors() -> Iterator[None]:
    """Raise WorkerDied in place of joblib's error for a worker process that ended."""
    try:
        yield
    except BrokenExecutor as error:
        raise WorkerDied(
            "The system ended a worker process, perhaps because memory ran out.",
            hint="Run `lineage index` again to continue. If this happens again, add `--workers 1`.",
        ) from error


def _uses_processes(prefer: Literal["processes", "threads"]) -> bool:
    """Return whether joblib runs tasks in processes of this machine. `prefer`: as for `map_groups`."""
    from joblib.parallel import LokyBackend, get_active_backend

    return isinstance(get_active_backend(prefer=prefer)[0], LokyBackend)


@contextmanager
def _end_tasks_if_manager_fails() -> Iterator[None]:
    """End all tasks with an error if joblib's manager thread fails during the body.

    The manager thread fails if it cannot start another thread. joblib would then wait for the results forever.
    """
    default_hook = threading.excepthook

    def end_tasks(failure: threading.ExceptHookArgs) -> None:
        if failure.thread is not None and failure.thread.name == MANAGER_THREAD:
            failure.thread.terminate_broken(failure.exc_value)  # type: ignore[attr-defined]  # a class of joblib
        else:
            default_hook(failure)

    threading.excepthook = end_tasks
    try:
        yield
    finally:
        threading.excepthook = default_hook


def _cancel(group_results: Generator[Result]) -> None:
    """Cancel the running tasks, without joblib's warning about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group_results.close()


def initialize_worker(parent_pid: int) -> None:
    """Prepare a worker: return freed memory, collect garbage rarely, and exit when the process `parent_pid` ends."""
    configure_malloc()
    gc.freeze()  # leaves the objects of imports out of later collections
    gc.set_threshold(GC_THRESHOLD)
    threading.Thread(target=_exit_with_parent, args=(parent_pid,), daemon=True).start()


def _exit_with_parent(parent_pid: int) -> None:
    """Exit as soon as the parent process has ended, even if it was killed."""
    while os.getppid() == parent_pid:
        time.sleep(PARENT_POLL_SECONDS)
    os._exit(1)


def check_free_memory() -> None:
    """Raise OutOfMemory if this process cannot map MIN_FREE_BYTES, for example because of `ulimit -v`."""
    try:
        mmap.mmap(-1, MIN_FREE_BYTES, flags=mmap.MAP_PRIVATE).close()
    except OSError as error:
        raise OutOfMemory from error


def configure_malloc() -> None:
    """Make malloc return freed memory to the system. Call this before threads start, because their arenas would remain.

    This works only with glibc. While 5,000 commits were indexed in batches, malloc retained 5 MB of freed memory; it
    retained up to 23 MB without these settings.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, MAX_ARENAS)
        mallopt(_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
