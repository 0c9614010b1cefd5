"""Parallel map over worker processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from pipeline.workers import START_METHOD, WorkerDied, WorkerPool, compute_max_in_flight, count_usable_cpus

ROOT = Path(__file__).parents[2]
Value = TypeVar("Value")


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_are_in_order(jobs: int) -> None:
    """Results are those of `map` for any number of workers."""
    with WorkerPool(jobs) as workers:
        assert list(workers.map(abs, range(-20, 0))) == list(range(20, 0, -1))


@pytest.mark.parametrize(("jobs", "group_size"), [(1, 1), (2, 1), (2, 3)])
def test_items_in_flight_are_bounded(jobs: int, group_size: int) -> None:
    """The pool reads fewer items ahead of the results than `compute_max_in_flight`; one job reads none ahead."""
    read_count = 0

    def iter_items() -> Iterator[int]:
        nonlocal read_count
        for number in range(100):
            read_count += 1
            yield number

    with WorkerPool(jobs) as workers:
        results = workers.map(abs, iter_items(), group_size=group_size)
        for result_count in range(1, 10):
            next(results)
            assert read_count - result_count < (compute_max_in_flight(jobs, group_size) if jobs > 1 else 1)
        assert isinstance(results, Generator)
        results.close()


def test_group_goes_to_one_worker() -> None:
    """Items of a group share a process; the next group goes to the next process."""
    with WorkerPool(2) as workers:
        pids = list(workers.map(get_pid, range(12), group_size=3))
    groups = [set(pids[start : start + 3]) for start in range(0, len(pids), 3)]
    assert [len(group) for group in groups] == [1, 1, 1, 1]
    assert groups[0] == groups[2] != groups[1] == groups[3]


@pytest.mark.skipif(START_METHOD != "forkserver", reason="workers are forked on Linux only")
def test_restart_per_group() -> None:
    """With `restart_per_group` each group has a new process, and all processes end with the pool."""
    with WorkerPool(2) as workers:
        pids = list(workers.map(get_pid, range(15), group_size=3, restart_per_group=True))
    groups = [set(pids[start : start + 3]) for start in range(0, len(pids), 3)]
    assert [len(group) for group in groups] == [1] * 5
    assert len(set(pids)) == 5
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.skipif(START_METHOD != "forkserver", reason="workers are forked on Linux only")
def test_results_are_yielded_during_restart() -> None:
    """While the pool waits for a process to finish its group, it yields earlier results."""
    read_items: list[int] = []

    def iter_items() -> Iterator[float]:
        for number in range(8):
            read_items.append(number)
            yield 0.2

    with WorkerPool(2) as workers:
        results = workers.map(time.sleep, iter_items(), group_size=3, restart_per_group=True)
        next(results)
        # Both groups of three items, and the first item of the next group.
        assert len(read_items) == 7
        assert list(results) == [None] * 7


def test_processes_are_reused() -> None:
    """Calls reuse the processes until a shutdown, which ends them; with a single job `map` runs in this process."""
    with WorkerPool(2) as workers:
        workers.preload("json")
        first_pids = set(workers.map(get_pid, range(8)))
        assert set(workers.map(get_pid, range(8))) == first_pids
        assert set(workers.map(get_pid, range(8), max_jobs=1)) == {os.getpid()}
        workers.request_shutdown()
        new_pids = set(workers.map(get_pid, range(8)))
        workers.close()
        assert not (first_pids | new_pids) & set(workers.map(get_pid, range(8)))
        assert not first_pids & new_pids
    assert len(first_pids) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in first_pids | new_pids)
    with WorkerPool(1) as pool:
        pool.preload("json")
        assert set(pool.map(get_pid, range(3))) == {os.getpid()}


@pytest.mark.skipif(START_METHOD != "forkserver", reason="workers are forked on Linux only")
def test_workers_share_a_fork_server() -> None:
    """Workers are forked from one server process, which is not this process."""
    with WorkerPool(2) as workers:
        parents = set(workers.map(get_parent_pid, range(2)))
    assert len(parents) == 1
    assert os.getpid() not in parents


@pytest.mark.parametrize(
    ("number", "handler", "expected_output"),
    [
        (signal.SIGINT, "lambda *_: None", "[3, 2, 1]\n"),
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
        f"import time\nfrom pathlib import Path\nPath({str(marker_file)!r}).touch()\ntime.sleep(1)\n"
    )
    program = tmp_path / "program.py"
    program.write_text(
        "import signal\n"
        "import joblib.externals.loky\n"
        "from pipeline.workers import WorkerPool\n"
        "if __name__ == '__main__':\n"
        f"    signal.signal({int(number)}, {handler})\n"
        "    try:\n"
        "        with WorkerPool(2) as workers:\n"
        "            workers.preload('slow')\n"
        "            print(list(workers.map(abs, range(-3, 0))))\n"
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
    """An exception in a worker is raised in the caller, and the workers continue."""
    with WorkerPool(2) as workers:
        with pytest.raises(ValueError, match="invalid literal"):
            list(workers.map(int, ["1", "x"]))
        assert list(workers.map(int, ["1", "2"])) == [1, 2]


def test_killed_worker_is_an_error() -> None:
    """If the system kills a worker, the current and the next call raise WorkerDied; after a close new workers start."""
    with WorkerPool(2) as workers:
        pids = list(workers.map(get_pid, range(2)))
        with pytest.raises(WorkerDied, match="perhaps because memory ran out") as error_info:
            list(workers.map(kill_worker_at_five, range(20)))
        assert "--workers 1" in error_info.value.hint
        with pytest.raises(WorkerDied):
            list(workers.map(get_pid, range(20)))
        workers.close()
        assert not set(pids) & set(workers.map(get_pid, range(2)))


def test_count_usable_cpus() -> None:
    """At least one processor is usable, and no more than exist."""
    assert 1 <= count_usable_cpus() <= (os.cpu_count() or 1)


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs the ps program (Debian's procps)")
def test_workers_exit_with_killed_parent() -> None:
    """After `kill -9` of the parent no worker remains."""
    program = (
        "import time; from pipeline.workers import WorkerPool; list(WorkerPool(2).map(time.sleep, [60, 60]))"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, start_new_session=True)
    workers = wait_for(
        lambda: [pid for pid in list_session_pids(parent.pid) if pid != parent.pid], lambda w: len(w) >= 2
    )
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert workers and wait_for(lambda: list_session_pids(parent.pid), lambda pids: not pids) == []


def get_pid(item: int) -> int:
    del item
    return os.getpid()


def get_parent_pid(item: int) -> int:
    del item
    return os.getppid()


def kill_worker_at_five(item: int) -> int:
    if item == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


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
