"""Index lock between real processes: any number of readers or one writer, and no starvation."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from stores import database, history, index_location, locks
from stores.errors import SpecialFile
from stores.locks import Deadline, IndexBusy
from tests.readonly_fs import make_read_only
from tests.stores.batches import make_location
from tests.stores.processes import read_line, run_script, wait_for_exit, wait_until_suspended

HOLD_LOCK = """
index_location.create_index_directory(location)
with locks.acquire_index(location.folder, exclusive={exclusive}, deadline=locks.Deadline.after(10)):
    print("locked"); sys.stdin.read()
"""
# Script that writes batches for some seconds, and prints their number.
WRITE_BATCHES = """
import itertools, os
end = time.monotonic() + {seconds}
for number in itertools.count():
    with database.open_for_writing(location) as connection:
        if not number:
            writer.record_run_start(
                connection, location, head="h", unreachable=[], components=CURRENT_VERSIONS, branch_patterns=()
            )
        writer.replace_batch(connection, make_batch([SampleCommit(number * 20 + n) for n in range(20)]))
    if not number: print("ready")
    if time.monotonic() > end: break
print(number + 1)
"""
# Script that reads every {pause} seconds, and prints the number of reads and the longest duration of one.
READ_REPEATEDLY = """
end, reads, longest, before = time.monotonic() + {seconds}, 0, 0.0, -1
while time.monotonic() < end:
    started = time.monotonic()
    with database.open_for_reading(location) as connection:
        commits = history.load_index_summary(connection).commits
        assert commits % 20 == 0 and commits >= before, commits
        before = commits
    longest, reads = max(longest, time.monotonic() - started), reads + 1
    time.sleep({pause})
print(reads, longest)
"""

# Script that writes five batches after the first one; raises IndexBusy if the writer starves.
WRITE_FIVE_BATCHES = """
for number in range(1, 6):
    with database.open_for_writing(location, wait=50) as connection:
        writer.replace_batch(connection, make_batch([SampleCommit(number * 20 + n) for n in range(20)]))
"""
# Script that reads without a pause until its stdin is closed, and prints the number of reads.
READ_UNTIL_CLOSED = """
import threading
stop, reads = threading.Event(), 0
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
while not stop.is_set():
    with database.open_for_reading(location, wait=50) as connection:
        assert history.load_index_summary(connection).commits % 20 == 0
    if not reads: print("reading")
    reads += 1
print(reads)
"""


@pytest.mark.parametrize(
    ("is_first_exclusive", "is_second_exclusive"),
    [(False, False), (False, True), (True, False), (True, True)],
)
def test_shared_and_exclusive(tmp_path: Path, is_first_exclusive: bool, is_second_exclusive: bool) -> None:
    """Readers share the lock, a writer excludes all others, and the timeout error says what to do."""
    folder = make_location(tmp_path).folder
    with run_script(HOLD_LOCK.format(exclusive=is_first_exclusive), tmp_path) as holder:
        assert read_line(holder) == "locked"
        with ExitStack() as stack:
            if is_first_exclusive or is_second_exclusive:
                stack.enter_context(pytest.raises(IndexBusy, match="Wait for the other"))
            with locks.acquire_index(folder, exclusive=is_second_exclusive, deadline=Deadline.after(0.1)):
                pass


def test_kill_releases_the_lock(tmp_path: Path) -> None:
    """The lock of a killed process is released."""
    with run_script(HOLD_LOCK.format(exclusive=True), tmp_path) as holder:
        assert read_line(holder) == "locked"
        holder.kill()
        with locks.acquire_index(make_location(tmp_path).folder, exclusive=True, deadline=Deadline.after(5)):
            pass


def test_holder_detects_waiters(tmp_path: Path) -> None:
    """The holder of the index lock detects that another process waits for it."""
    location = make_location(tmp_path)
    index_location.create_index_directory(location)
    with locks.acquire_index(location.folder, exclusive=True, deadline=Deadline.after(1)):
        assert not locks.has_waiters(location.folder)
        with run_script(HOLD_LOCK.format(exclusive=False), tmp_path):
            end = time.monotonic() + 10
            while not locks.has_waiters(location.folder):
                assert time.monotonic() < end
                time.sleep(0.01)


def test_deleted_lock_file_excludes_nobody(tmp_path: Path) -> None:
    """A lock on a deleted lock file does not block a new lock, whose file is created."""
    location = make_location(tmp_path)
    index_location.create_index_directory(location)
    with locks.acquire_index(location.folder, exclusive=True, deadline=Deadline.after(1)):
        (location.folder / locks.INDEX_LOCK).unlink()
        with locks.acquire_index(location.folder, exclusive=True, deadline=Deadline.after(1)):
            assert (location.folder / locks.INDEX_LOCK).exists()


@dataclass(frozen=True)
class ObservedDeadline(Deadline):
    """Deadline that calls `on_pause` at each pause of a waiter."""

    on_pause: Callable[[], None] = lambda: None

    def pause(self) -> None:
        Deadline.pause(self)
        self.on_pause()


@pytest.mark.parametrize(
    ("name", "acquire"),
    [
        (locks.INDEX_LOCK, partial(locks.acquire_index, exclusive=True)),
        (locks.INDEX_LOCK, partial(locks.acquire_index, exclusive=False)),
        (locks.GATE_LOCK, partial(locks.acquire_index, exclusive=False)),
        (
            locks.RUN_LOCK,
            lambda folder, deadline: locks.acquire_exclusive_lock(folder / locks.RUN_LOCK, deadline),
        ),
    ],
    ids=["writer", "reader", "gate", "exclusive lock"],
)
def test_waiter_on_a_replaced_lock_file(
    tmp_path: Path, name: str, acquire: Callable[..., AbstractContextManager[object]]
) -> None:
    """A process that waits for a lock file that is then replaced waits for the lock on the new file too."""
    path = tmp_path / name
    holder = locks.open_lock_file(path)
    assert locks.try_lock(holder, fcntl.LOCK_EX)

    def replace_file() -> Iterator[str]:
        path.unlink()
        new_holder = locks.open_lock_file(path)
        assert locks.try_lock(new_holder, fcntl.LOCK_EX)
        os.close(holder)
        yield "replaced"
        yield "still waiting"
        os.close(new_holder)
        yield "released"

    steps, pauses = replace_file(), list[str]()
    deadline = ObservedDeadline(time.monotonic(), 10, on_pause=lambda: pauses.append(next(steps)))
    with acquire(tmp_path, deadline=deadline):
        assert pauses == ["replaced", "still waiting", "released"]


def test_queries_during_a_constant_writer(tmp_path: Path) -> None:
    """Queries are answered within two seconds while batches are written without a pause."""
    with run_script(WRITE_BATCHES.format(seconds=3), tmp_path) as writer:
        assert read_line(writer) == "ready"
        with run_script(READ_REPEATEDLY.format(seconds=2.5, pause=0.5), tmp_path) as reader:
            status, output, stderr = wait_for_exit(reader)
        assert (status, stderr) == (0, "")
        reads, longest = output.split()
        assert int(reads) >= 3
        assert float(longest) < 2
        assert wait_for_exit(writer)[0] == 0


def test_writer_under_a_stream_of_readers(tmp_path: Path) -> None:
    """A writer makes progress while several processes read without a pause, and none of them fails."""
    with run_script(WRITE_BATCHES.format(seconds=0), tmp_path) as first:
        assert wait_for_exit(first)[0] == 0
    with ExitStack() as stack:
        readers = [stack.enter_context(run_script(READ_UNTIL_CLOSED, tmp_path)) for _ in range(3)]
        # All are reading, and continue until their stdin is closed.
        assert [read_line(reader) for reader in readers] == ["reading"] * 3
        status, _, stderr = wait_for_exit(stack.enter_context(run_script(WRITE_FIVE_BATCHES, tmp_path)))
        assert (status, stderr) == (0, "")
        for reader in readers:
            status, reads, stderr = wait_for_exit(reader)
            assert (status, stderr) == (0, "") and int(reads) > 0
    with database.open_for_reading(make_location(tmp_path)) as connection:
        summary = history.load_index_summary(connection)
    assert summary is not None and summary.commits == 6 * 20


def test_read_only_lock_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a read-only file system readers can lock existing lock files; the error of a writer names the file."""
    location = make_location(tmp_path)
    index_location.create_index_directory(location)
    with locks.acquire_index(location.folder, exclusive=True, deadline=Deadline.after(1)):
        pass
    make_read_only(tmp_path, monkeypatch)
    with locks.acquire_index(location.folder, exclusive=False, deadline=Deadline.after(1)):
        descriptor = os.open(location.folder / locks.INDEX_LOCK, os.O_RDONLY)
        with locks.close_finally(descriptor):
            assert not locks.try_lock(descriptor, fcntl.LOCK_EX)
        with (
            pytest.raises(OSError, match=locks.GATE_LOCK),
            locks.acquire_index(location.folder, exclusive=True, deadline=Deadline.after(1)),
        ):
            pass
    monkeypatch.undo()
    (location.folder / locks.INDEX_LOCK).unlink()
    make_read_only(tmp_path, monkeypatch)
    with (
        pytest.raises(OSError, match="Read-only"),
        locks.acquire_index(location.folder, exclusive=False, deadline=Deadline.after(1)),
    ):
        pass


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda file: file.symlink_to("other")])
def test_something_else_in_place_of_a_lock_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A directory, a pipe or a link in place of a lock file is an error that names it, and nobody waits for it."""
    location = make_location(tmp_path)
    index_location.create_index_directory(location)
    git_dir = tmp_path / ".git"
    for name in (locks.GATE_LOCK, locks.INDEX_LOCK, locks.RUN_LOCK):
        (location.folder / name).unlink(missing_ok=True)
        make(location.folder / name)
        with (
            pytest.raises(SpecialFile, match=f"{name} is no regular file"),
            locks.acquire_run_lock(location),
            locks.acquire_index(location.folder, exclusive=False, deadline=Deadline.after(1)),
        ):
            pass
        shutil.move(location.folder / name, tmp_path / name)
    os.mkfifo(locks.get_queue_lock_path(location, git_dir))
    assert not locks.is_run_queued(location, git_dir)


def test_checks_do_not_wait_for_a_pipe(tmp_path: Path) -> None:
    """The checks for other processes end also with a pipe in place of a lock file, which blocks when it is opened."""
    for name in (locks.GATE_LOCK, locks.INDEX_LOCK):
        os.mkfifo(tmp_path / name)
    assert not locks.has_waiters(tmp_path)
    assert locks.is_index_free(tmp_path)


def test_reader_sees_the_last_batch(tmp_path: Path) -> None:
    """A reader sees the last committed batch, with or without a checkpoint."""
    with run_script(WRITE_BATCHES.format(seconds=0.5), tmp_path) as writer:
        status, output, _ = wait_for_exit(writer)
    assert status == 0
    with database.open_for_reading(make_location(tmp_path)) as connection:
        summary = history.load_index_summary(connection)
    assert summary is not None and summary.commits == 20 * int(output.split()[-1])


SUSPENDED_READER = """
import os, signal
with locks.acquire_index(location.folder, exclusive=False, deadline=locks.Deadline.after(10)):
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_writer_names_a_suspended_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning and the error of a writer that waits for a suspended reader name it, and say how to continue it."""
    monkeypatch.setattr(locks, "LONG_WAIT_SECONDS", 0.05)
    location = make_location(tmp_path)
    index_location.create_index_directory(location)
    with run_script(SUSPENDED_READER, tmp_path) as reader:
        wait_until_suspended(reader)
        with pytest.raises(IndexBusy) as failure, database.open_for_writing(location, wait=0.1):
            pass
    assert re.fullmatch(
        rf"The index is still in use by process {reader.pid} \(.*; suspended\) after 0\.1 s\.",
        failure.value.message,
    )
    assert f"`kill -CONT {reader.pid}`" in failure.value.hint
    [warning] = caplog.messages
    assert warning.startswith(f"The index is in use by process {reader.pid} (")
    assert warning.endswith(f"Waiting up to 0.1 s for it. {failure.value.hint}")
    assert not locks.is_process_suspended(reader.pid)
