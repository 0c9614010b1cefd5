"""Run lock between real processes: one index run at a time, and one queued run per work tree."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import pytest

from stores import index_location, locks
from stores.locks import RunInProgress
from tests.readonly_fs import make_read_only
from tests.stores.batches import make_location
from tests.stores.processes import read_line, run_script, wait_for_exit

# Script that waits for the run lock, prints each state, and holds the lock until its stdin is closed.
INDEX_RUN = """
with locks.wait_for_run_lock(location, git_dir, lambda error: print("waits", error.message)) as run:
    if run: run.record_process(); print("runs"); sys.stdin.read()
    else: print("ends")
"""


def test_second_run_is_refused(tmp_path: Path) -> None:
    """The error of a second run names the process of the first, and a kill releases the lock."""
    script = "with locks.acquire_run_lock(location):\n    print('locked'); sys.stdin.read()"
    with run_script(script, tmp_path) as first:
        assert read_line(first) == "locked"
        with (
            pytest.raises(RunInProgress, match=rf"process {first.pid}\)"),
            locks.acquire_run_lock(make_location(tmp_path)),
        ):
            pass
        first.kill()
        first.wait()
        with locks.acquire_run_lock(make_location(tmp_path)):
            pass


def test_one_runs_one_waits_others_end(tmp_path: Path) -> None:
    """Of several runs one holds the lock, one waits for it, and the others end."""
    with ExitStack() as stack:
        active_run, queued_run, *other_runs = (_start_run(stack, tmp_path) for _ in range(4))
        assert active_run.state == "runs"
        assert queued_run.state.endswith(
            f"is running for this repository (process {active_run.process.pid})."
        )
        assert [(run.state, wait_for_exit(run.process)) for run in other_runs] == [("ends", (0, "", ""))] * 2
        assert active_run.process.stdin is not None
        active_run.process.stdin.close()
        assert read_line(queued_run.process) == "runs"


def test_one_waits_per_work_tree(tmp_path: Path) -> None:
    """Every work tree has a queue of its own, because a run indexes only the HEAD of its work tree."""
    with ExitStack() as stack:
        active_run, queued_run = (_start_run(stack, tmp_path) for _ in range(2))
        linked = 'git_dir = git_dir / "worktrees" / "linked"\n'
        queued_in_linked, other_in_linked = (_start_run(stack, tmp_path, linked) for _ in range(2))
        assert queued_in_linked.state == queued_run.state and other_in_linked.state == "ends"
        assert str(active_run.process.pid) in queued_run.state


def test_waiting_run_continues_after_a_kill(tmp_path: Path) -> None:
    """After `kill -9` of the active run the waiting one continues, and another run can wait."""
    with ExitStack() as stack:
        active_run, queued_run = (_start_run(stack, tmp_path) for _ in range(2))
        active_run.process.kill()
        assert read_line(queued_run.process) == "runs"
        assert _start_run(stack, tmp_path).state.startswith("waits")


def test_kill_of_the_waiting_run(tmp_path: Path) -> None:
    """After a kill of the waiting run another one can wait."""
    with ExitStack() as stack:
        _, queued_run = (_start_run(stack, tmp_path) for _ in range(2))
        queued_run.process.kill()
        queued_run.process.wait()
        assert _start_run(stack, tmp_path).state.startswith("waits")


def test_short_run_does_not_refuse_others(tmp_path: Path) -> None:
    """A run that holds the lock only for a moment, because there is nothing to do, is not reported."""
    script = "with locks.wait_for_run_lock(location, git_dir, print): print('locked'); time.sleep(0.2)"
    with run_script(script, tmp_path) as process:
        assert read_line(process) == "locked"
        with locks.acquire_run_lock(make_location(tmp_path)):
            pass


def test_deleted_lock_file(tmp_path: Path) -> None:
    """If the lock file is deleted, the waiting run takes the lock of the new file."""
    location = make_location(tmp_path)
    with ExitStack() as stack:
        active_run, queued_run = (_start_run(stack, tmp_path) for _ in range(2))
        (location.folder / locks.RUN_LOCK).unlink()
        active_run.process.kill()
        assert read_line(queued_run.process) == "runs"
        with (
            pytest.raises(RunInProgress, match=str(queued_run.process.pid)),
            locks.acquire_run_lock(location),
        ):
            pass


@dataclass(frozen=True, slots=True)
class IndexRun:
    """Index run in another process; `state` is the first line that it printed."""

    process: Popen[str]
    state: str


def _start_run(stack: ExitStack, home: Path, setup: str = "") -> IndexRun:
    """Start INDEX_RUN in a process that is killed with the stack, and read the first line that it prints."""
    process = stack.enter_context(run_script(setup + INDEX_RUN, home))
    return IndexRun(process, read_line(process))


def test_run_without_changes_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a read-only home the lock can be taken, but `record_process` fails and names the lock file."""
    location, git_dir = make_location(tmp_path), tmp_path / ".git"
    with locks.acquire_run_lock(location):
        pass
    location.folder.chmod(0o755)
    make_read_only(tmp_path, monkeypatch)
    with locks.wait_for_run_lock(location, git_dir, lambda _: None) as run:
        assert run is not None
        with pytest.raises(OSError, match=locks.RUN_LOCK):
            run.record_process()
    for refused_lock in (
        locks.acquire_run_lock(location),
        locks.wait_for_run_lock(make_location(tmp_path, "new-01"), git_dir, lambda _: None),
    ):
        with pytest.raises(OSError, match="Read-only"), refused_lock:
            pass


def test_foreign_directory_is_refused(tmp_path: Path) -> None:
    """No lock file is created behind a symlink in place of the index directory."""
    location, foreign = make_location(tmp_path / "home"), tmp_path / "foreign"
    foreign.mkdir()
    location.home.mkdir()
    location.folder.symlink_to(foreign)
    for refused_lock in (
        locks.acquire_run_lock(location),
        locks.wait_for_run_lock(location, tmp_path / ".git", lambda _: None),
    ):
        with pytest.raises(index_location.ForeignFolder), refused_lock:
            pass
    assert list(foreign.iterdir()) == []
