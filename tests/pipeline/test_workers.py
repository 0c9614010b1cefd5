"""The same line with one worker or several."""

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

from pipeline.workers import START, WorkerDied, Workers, in_flight, usable_cpus

ROOT = Path(__file__).parents[2]
Seen = TypeVar("Seen")


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_order(jobs: int) -> None:
    """Results are those of `map`, whatever the number of workers."""
    with Workers(jobs) as workers:
        assert list(workers.mapped(abs, range(-20, 0))) == list(range(20, 0, -1))


@pytest.mark.parametrize(("jobs", "run"), [(1, 1), (2, 1), (2, 3)])
def test_items_are_taken_as_results_are(jobs: int, run: int) -> None:
    """No more than a window of items is taken ahead of the results that were used."""
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(100):
            taken += 1
            yield number

    with Workers(jobs) as workers:
        results = workers.mapped(abs, items(), run=run)
        for used in range(1, 10):
            next(results)
            assert taken - used < (in_flight(jobs, run) if jobs > 1 else 1)
        assert isinstance(results, Generator)
        results.close()


def test_neighbours_go_to_the_same_worker() -> None:
    """Runs of items share a process, which may remember; the next run goes to the next one."""
    with Workers(2) as workers:
        pids = list(workers.mapped(process_of, range(12), run=3))
    runs = [set(pids[start : start + 3]) for start in range(0, len(pids), 3)]
    assert [len(run) for run in runs] == [1, 1, 1, 1]
    assert runs[0] == runs[2] != runs[1] == runs[3]


@pytest.mark.skipif(START != "forkserver", reason="copies processes on Linux only")
def test_no_worker_has_a_second_run() -> None:
    """What a process came to hold ends with its run: the next one has another process, and in the end all are gone."""
    with Workers(2) as workers:
        pids = list(workers.mapped(process_of, range(15), run=3, renewed=True))
    runs = [set(pids[start : start + 3]) for start in range(0, len(pids), 3)]
    assert [len(run) for run in runs] == [1] * 5
    assert len(set(pids)) == 5
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.skipif(START != "forkserver", reason="copies processes on Linux only")
def test_results_are_taken_while_a_run_ends() -> None:
    """Who waits for a process to end its run has what comes first meanwhile: results do not heap up behind it."""
    begun: list[int] = []

    def items() -> Iterator[float]:
        for number in range(8):
            begun.append(number)
            yield 0.2

    with Workers(2) as workers:
        results = workers.mapped(time.sleep, items(), run=3, renewed=True)
        next(results)
        # Both runs, and the item that a new process is to have.
        assert len(begun) == 7
        assert list(results) == [None] * 7


def test_one_set_of_processes() -> None:
    """Begun early or late, asked once or twice: the same processes, and none where one is enough."""
    with Workers(2) as workers:
        workers.begin("json")
        begun = set(workers.mapped(process_of, range(8)))
        assert set(workers.mapped(process_of, range(8))) == begun
        assert set(workers.mapped(process_of, range(8), most=1)) == {os.getpid()}
        workers.dismiss()
        others = set(workers.mapped(process_of, range(8)))
        workers.end()
        assert not (begun | others) & set(workers.mapped(process_of, range(8)))
        assert not begun & others
    assert len(begun) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in begun | others)
    with Workers(1) as alone:
        alone.begin("json")
        assert set(alone.mapped(process_of, range(3))) == {os.getpid()}


@pytest.mark.skipif(START != "forkserver", reason="copies processes on Linux only")
def test_workers_are_copies_of_one_process() -> None:
    """What they import is imported once, and not by the process that asks."""
    with Workers(2) as workers:
        originals = set(workers.mapped(original_of, range(2)))
    assert len(originals) == 1
    assert os.getpid() not in originals


@pytest.mark.parametrize(
    ("number", "handler", "out"),
    [
        (signal.SIGINT, "lambda *_: None", "[3, 2, 1]\n"),
        (signal.SIGINT, "signal.default_int_handler", "interrupted\n"),
        (signal.SIGHUP, "signal.default_int_handler", "interrupted\n"),
    ],
)
def test_a_signal_to_all_processes_as_they_begin(
    tmp_path: Path, number: signal.Signals, handler: str, out: str
) -> None:
    """Ctrl-C is for the parent alone; no process complains, neither while it imports nor while it is started."""
    begun = tmp_path / "begun"
    (tmp_path / "slow.py").write_text(
        f"import time\nfrom pathlib import Path\nPath({str(begun)!r}).touch()\ntime.sleep(1)\n"
    )
    program = tmp_path / "program.py"
    program.write_text(
        "import signal\n"
        "import joblib.externals.loky\n"
        "from pipeline.workers import Workers\n"
        "if __name__ == '__main__':\n"
        f"    signal.signal({int(number)}, {handler})\n"
        "    try:\n"
        "        with Workers(2) as workers:\n"
        "            workers.begin('slow')\n"
        "            print(list(workers.mapped(abs, range(-3, 0))))\n"
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
    assert eventually(begun.exists, bool)
    os.killpg(process.pid, number)
    assert (*process.communicate(timeout=60), process.returncode) == (out, "", 0)


def test_an_error_reaches_the_caller() -> None:
    """What a worker raises is raised here, and the workers go on."""
    with Workers(2) as workers:
        with pytest.raises(ValueError, match="invalid literal"):
            list(workers.mapped(int, ["1", "x"]))
        assert list(workers.mapped(int, ["1", "2"])) == [1, 2]


def test_the_death_of_a_worker_is_told() -> None:
    """A worker that the system kills, at work or before, ends the run with a sentence, not with a hang."""
    with Workers(2) as workers:
        pids = list(workers.mapped(process_of, range(2)))
        with pytest.raises(WorkerDied, match="perhaps for lack of memory") as told:
            list(workers.mapped(killed_at_five, range(20)))
        assert "--workers 1" in told.value.hint
        with pytest.raises(WorkerDied):
            list(workers.mapped(process_of, range(20)))
        workers.end()
        assert not set(pids) & set(workers.mapped(process_of, range(2)))


def test_at_least_one_cpu() -> None:
    """There is always a processor to run on."""
    assert 1 <= usable_cpus() <= (os.cpu_count() or 1)


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs the ps program (Debian's procps)")
def test_workers_leave_with_a_killed_parent() -> None:
    """After `kill -9` of the parent no worker is left behind."""
    program = (
        "import time; from pipeline.workers import Workers; list(Workers(2).mapped(time.sleep, [60, 60]))"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, start_new_session=True)
    workers = eventually(
        lambda: [pid for pid in session_of(parent.pid) if pid != parent.pid], lambda w: len(w) >= 2
    )
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert workers and eventually(lambda: session_of(parent.pid), lambda left: not left) == []


def process_of(item: int) -> int:
    del item
    return os.getpid()


def original_of(item: int) -> int:
    del item
    return os.getppid()


def killed_at_five(item: int) -> int:
    if item == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def session_of(leader: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,sess="], capture_output=True, text=True, check=True
    ).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
    return [pid for pid, session in pairs if session == leader]


def eventually(look: Callable[[], Seen], enough: Callable[[Seen], object], seconds: float = 20) -> Seen:
    until = time.monotonic() + seconds
    while not enough(seen := look()) and time.monotonic() < until:
        time.sleep(0.1)
    return seen
