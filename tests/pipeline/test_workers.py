"""Parallel map in groups, and malloc limits."""

from __future__ import annotations

import gc
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partialmethod
from pathlib import Path
from typing import Literal, TypeVar
from weakref import WeakSet

import joblib
import pytest
from joblib.externals.loky import get_reusable_executor

from pipeline.workers import WorkerDied, count_usable_cpus, map_groups

ROOT = Path(__file__).parents[2]
Value = TypeVar("Value")

# Environment variables that configure or replace the allocator.
ALLOCATOR_VARIABLES = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")

requires_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc's allocator")

# By default, after the large block is freed, glibc retains twice its size at the end of the heap.
MEASURE_FREED_MEMORY = """
import re
from pathlib import Path
from pipeline import workers
def read_resident_kilobytes():
    return int(re.search(r"Rss: +([0-9]+)", Path("/proc/self/smaps_rollup").read_text())[1])
{configuration}
blocks = [None] * 150  # at once: a growing list would leave small pieces between the blocks
large = bytearray(16 << 20)
del large
kilobytes_before = read_resident_kilobytes()
for index in range(len(blocks)):
    blocks[index] = bytearray(100 << 10)
del blocks
print(read_resident_kilobytes() - kilobytes_before)
"""
PRINT_MALLOC_INFO = """
import ctypes, threading
from pipeline import workers
{configuration}
libc, barrier = ctypes.CDLL(None), threading.Barrier(4)
libc.malloc.restype = ctypes.c_void_p
def allocate():
    barrier.wait()
    libc.malloc(1000)
    barrier.wait()
threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info(0, ctypes.c_void_p(libc.fdopen(1, b"w")))
libc.fflush(None)
"""


@pytest.mark.parametrize("prefer", ["processes", "threads"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_results_are_in_order(jobs: int, prefer: Literal["processes", "threads"]) -> None:
    """The results equal those of `map` with any number of workers, even if a group or the list of groups is empty."""
    groups = [range(-4, 0), [], range(-20, -17)]
    assert list(map_groups(abs, groups, jobs=jobs, prefer=prefer)) == [4, 3, 2, 1, 20, 19, 18]
    assert list(map_groups(abs, [], jobs=jobs, prefer=prefer)) == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_next_group_is_read_at_the_end_of_a_group(jobs: int) -> None:
    """The next group is read only when the caller uses the last results of a group, and then no further group."""
    read_count = 0

    def iter_groups() -> Iterator[list[int]]:
        nonlocal read_count
        for number in range(10):
            read_count += 1
            yield [number] * 3

    for index, _ in enumerate(map_groups(abs, iter_groups(), jobs=jobs, prefer="threads")):
        is_last_of_group = index % 3 >= 3 - jobs
        assert read_count <= index // 3 + 1 + is_last_of_group


@dataclass(eq=False)
class _Cycle:
    """Object that only garbage collection frees."""

    cycle: _Cycle | None = None


_cycles: WeakSet[_Cycle] = WeakSet()


def _create_cycle(_: int) -> int:
    """Create a reference cycle. Return the number of cycles that earlier calls left in this process."""
    count, cycle = len(_cycles), _Cycle()
    cycle.cycle = cycle
    _cycles.add(cycle)
    gc.collect()  # the cycle is in the oldest generation now
    return count


def test_garbage_of_a_task_is_freed() -> None:
    """A worker process frees memory in reference cycles, such as that of a repository, before its next task."""
    groups = [range(6), range(6)]
    assert list(map_groups(_create_cycle, groups, jobs=2, prefer="processes")) == [0] * 12


def test_next_group_runs_meanwhile() -> None:
    """While the caller uses the last result of a group, the next group is processed."""
    started = threading.Event()

    def mark(item: int) -> None:
        if item == 1:
            started.set()

    results = map_groups(mark, [[0], [1]], jobs=2, prefer="threads")
    next(results)
    assert started.wait(20)
    assert list(results) == [None]


def test_results_are_used_while_their_group_runs() -> None:
    """The caller gets a result without waiting for the later results of the same group."""
    is_used = threading.Event()

    def wait(item: int) -> bool:
        return item == 0 or is_used.wait(20)

    results = map_groups(wait, [range(4)], jobs=2, prefer="threads")
    next(results)
    is_used.set()
    assert all(results)


def test_one_job_runs_in_this_process() -> None:
    """With one job no process is started."""
    assert list(map_groups(get_pid, [[0, 1]], jobs=1, prefer="processes")) == [os.getpid()] * 2


def get_exception_hook(_: object) -> object:
    return threading.excepthook


@pytest.mark.parametrize(
    ("jobs", "prefer", "backend"),
    [(1, "processes", None), (2, "threads", None), (2, "processes", "threading")],
)
def test_excepthook_is_kept_without_worker_processes(
    jobs: int, prefer: Literal["processes", "threads"], backend: str | None
) -> None:
    """Without worker processes, the hook for errors of threads is not replaced."""
    with joblib.parallel_config(backend=backend) if backend else nullcontext():
        [hook] = map_groups(get_exception_hook, [[0]], jobs=jobs, prefer=prefer)
    assert hook is threading.excepthook


def test_excepthook_is_replaced_for_worker_processes() -> None:
    """A hook ends the tasks if joblib's manager thread fails, also if `joblib.parallel_config` selects processes."""
    default_hook = threading.excepthook
    hooks = []

    def read_groups() -> Iterator[list[int]]:
        hooks.append(threading.excepthook)
        yield [0]

    with joblib.parallel_config(backend="loky"):
        assert [*map_groups(abs, read_groups(), jobs=2, prefer="threads")] == [0]
    assert hooks != [default_hook]
    assert threading.excepthook is default_hook


def test_workers_are_processes() -> None:
    """Tasks that prefer processes run in other processes, which the next groups reuse."""
    pids = set(map_groups(get_pid, [range(8)] * 3, jobs=2, prefer="processes"))
    assert os.getpid() not in pids
    assert len(pids) == 2


def test_ambient_backend_is_used() -> None:
    """An active `joblib.parallel_config` decides on the backend, and on the number of jobs if none is given."""
    with joblib.parallel_config(backend="threading", n_jobs=2):
        pids = list(map_groups(get_pid, [range(4)], jobs=None, prefer="processes"))
    assert pids == [os.getpid()] * 4


@pytest.mark.parametrize("group_count", [1, 2])
def test_failure_waits_for_running_calls(group_count: int, recwarn: pytest.WarningsRecorder) -> None:
    """If reading a group fails, the map waits until no call runs in a thread, because exiting would interrupt it."""
    started = threading.Event()
    ended: list[int] = []

    def encode(item: int) -> None:
        started.set()
        time.sleep(0.3)
        ended.append(item)

    def iter_groups() -> Iterator[list[int]]:
        for _ in range(group_count):
            yield list(range(20))
        started.wait(20)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(map_groups(encode, iter_groups(), jobs=2, prefer="threads"))
    ended_count = len(ended)
    assert ended_count > 0
    time.sleep(0.5)
    assert len(ended) == ended_count
    assert not recwarn.list


def test_stopped_map_prints_nothing() -> None:
    """A caller that fails between two groups ends the workers without a warning."""
    program = (
        "import time\n"
        "from pipeline.workers import map_groups\n"
        "for _ in map_groups(time.sleep, [[0, 0], [1] * 4], jobs=2, prefer='processes'):\n"
        "    time.sleep(0.5)\n"
        "    raise SystemExit(3)\n"
    )
    result = subprocess.run(
        [sys.executable, "-W", "always", "-c", program], cwd=ROOT, capture_output=True, text=True
    )
    assert (result.returncode, result.stdout, result.stderr) == (3, "", "")


def test_importing_is_light() -> None:
    """Commands that only count the processors load neither joblib nor the encoders."""
    program = (
        "import sys; from pipeline.workers import count_usable_cpus; count_usable_cpus()\n"
        "print(sorted({'joblib', 'numpy', 'pipeline.encoders'} & sys.modules.keys()))"
    )
    output = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True).stdout
    assert output == b"[]\n"


@pytest.mark.parametrize(
    ("number", "handler", "expected_output"),
    [
        (signal.SIGINT, "lambda *_: None", "3 2 1\n"),
        (signal.SIGINT, "signal.default_int_handler", "interrupted\n"),
        (signal.SIGHUP, "signal.default_int_handler", "interrupted\n"),
    ],
)
def test_signal_during_start(
    tmp_path: Path, number: signal.Signals, handler: str, expected_output: str
) -> None:
    """A signal to all processes while the workers start reaches only the parent, and no worker prints an error."""
    marker_file = tmp_path / "started"
    (tmp_path / "slow.py").write_text(
        "import time\nfrom multiprocessing import current_process\nfrom pathlib import Path\n"
        "def negate(item):\n    return -item\n"
        f"if current_process().name != 'MainProcess':\n    Path({str(marker_file)!r}).touch()\n    time.sleep(1)\n"
    )
    program = tmp_path / "program.py"
    program.write_text(
        "import signal\n"
        "from pipeline.workers import map_groups\n"
        "from slow import negate\n"
        "if __name__ == '__main__':\n"
        f"    signal.signal({int(number)}, {handler})\n"
        "    try:\n"
        "        print(*map_groups(negate, [range(-3, 0)], jobs=2, prefer='processes'))\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted')\n"
    )
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    process = subprocess.Popen(
        [sys.executable, str(program)],
        env=environment,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert wait_for(marker_file.exists, bool)
    os.killpg(process.pid, number)
    assert (*process.communicate(timeout=60), process.returncode) == (expected_output, "", 0)


def test_error_reaches_caller() -> None:
    """An exception in a worker is raised in the caller, and a later map works."""
    with pytest.raises(ValueError, match="invalid literal"):
        list(map_groups(int, [["1", "x"]], jobs=2, prefer="processes"))
    assert list(map_groups(int, [["1", "2"]], jobs=2, prefer="processes")) == [1, 2]


def test_killed_worker_is_an_error() -> None:
    """If the system kills a worker, the map raises WorkerDied; a later map works."""
    with pytest.raises(WorkerDied, match="perhaps because memory ran out") as error_info:
        list(map_groups(kill_worker_at_five, [range(20)], jobs=2, prefer="processes"))
    assert "--workers 1" in error_info.value.hint
    assert list(map_groups(abs, [[-1]], jobs=2, prefer="processes")) == [1]


def test_map_ends_if_its_pool_cannot_start_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the pool of processes cannot start its threads, the map raises their error; a later map works."""
    get_reusable_executor().shutdown()  # an earlier test may have started its threads
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", partialmethod(start_thread, threading.Thread.start))
        with pytest.raises(RuntimeError, match="can't start new thread"):
            list(map_groups(abs, [[-1] * 4], jobs=2, prefer="processes"))
    assert list(map_groups(abs, [[-1]], jobs=2, prefer="processes")) == [1]


def test_count_usable_cpus() -> None:
    """The number of usable processors is at least one, and at most the number of processors of the machine."""
    assert 1 <= count_usable_cpus() <= (os.cpu_count() or 1)


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs the ps program (Debian's procps)")
def test_workers_exit_with_killed_parent() -> None:
    """After `kill -9` of the parent no worker remains."""
    program = (
        "import time; from pipeline.workers import map_groups\n"
        "for _ in map_groups(time.sleep, [[0] * 4, [60] * 4], jobs=2, prefer='processes'):\n"
        "    print('started', flush=True)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, start_new_session=True, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None and parent.stdout.readline() == "started\n"
    assert len(list_session_pids(parent.pid)) > 2
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    assert wait_for(lambda: list_session_pids(parent.pid), lambda pids: not pids) == []


def get_pid(item: int) -> int:
    del item
    return os.getpid()


def start_thread(thread: threading.Thread, start: Callable[[threading.Thread], None]) -> None:
    """Start a thread, but not the one that sends tasks to worker processes."""
    if thread.name == "QueueFeederThread":
        raise RuntimeError("can't start new thread")
    start(thread)


def kill_worker_at_five(item: int) -> int:
    if item == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_free_memory_is_checked_against_the_limit() -> None:
    """Below the limit of `ulimit -v` there must be room for the threads of an index run."""
    program = (
        "import resource\n"
        "from pathlib import Path\n"
        "from pipeline.workers import MIN_FREE_BYTES, check_free_memory\n"
        "used = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        "for free in (2 * MIN_FREE_BYTES, MIN_FREE_BYTES // 2):\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (used + free, resource.RLIM_INFINITY))\n"
        "    check_free_memory()\n"
        "    print('enough')\n"
    )
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert result.stdout == "enough\n"
    assert "OutOfMemory: There is not enough memory." in result.stderr


@requires_glibc
def test_freed_memory_is_returned() -> None:
    """Of 15 MB freed memory, malloc retains less than 1 MB with the limits and more than 10 MB without them."""
    assert int(run_program(MEASURE_FREED_MEMORY, is_configured=True)) < 1_000
    assert int(run_program(MEASURE_FREED_MEMORY, is_configured=False)) > 10_000


@requires_glibc
def test_threads_share_an_arena() -> None:
    """With the limits all threads use one arena; without them each has its own."""
    assert run_program(PRINT_MALLOC_INFO, is_configured=True).count("<heap nr=") == 1
    assert run_program(PRINT_MALLOC_INFO, is_configured=False).count("<heap nr=") > 1


def run_program(program: str, *, is_configured: bool) -> str:
    """Run a program in a new process, because a process cannot undo the malloc limits. Return its output."""
    source = program.format(configuration="workers.configure_malloc()" if is_configured else "")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(ALLOCATOR_VARIABLES)
    }
    result = subprocess.run(
        [sys.executable, "-c", source], env=environment, capture_output=True, text=True, check=True
    )
    return result.stdout


def list_session_pids(leader: int) -> list[int]:
    """Return the processes of the session that the process `leader` started."""
    output = subprocess.run(
        ["ps", "-A", "-o", "pid=,sess="], capture_output=True, text=True, check=True
    ).stdout
    pairs = [tuple(map(int, line.split())) for line in output.splitlines()]
    return [pid for pid, session in pairs if session == leader]


def wait_for(
    read: Callable[[], Value], is_expected: Callable[[Value], object], timeout_seconds: float = 20
) -> Value:
    deadline = time.monotonic() + timeout_seconds
    while not is_expected(value := read()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return value
