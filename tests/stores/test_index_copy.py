"""Reading an index while a process that holds it is suspended or keeps writing, from a copy of its files."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple

import duckdb
import pytest

from stores import database, history, index_copy, index_location, locks, maintenance, writer
from stores.database import NotIndexed
from stores.index_copy import OpenIndex
from stores.index_location import IndexLocation
from stores.locks import Deadline, IndexBusy
from stores.migrations import NewerSchema
from tests.stores.batches import CURRENT_VERSIONS, SampleCommit, make_batch, make_location, make_sha
from tests.stores.processes import read_line, run_script, wait_until, wait_until_suspended
from tests.stores.test_transactions import read_tables

BATCH_COMMITS = 20
# Beginning of a script that writes batches and can suspend itself.
WRITER = """
import os, signal
def suspend(): os.kill(os.getpid(), signal.SIGSTOP)
def write(connection, number):
    commits = [SampleCommit(number * 20 + n, {f"word{number}": 2, "all": 1}, {"name": 1}) for n in range(20)]
    if not number:
        writer.record_run_start(
            connection, location, head="h", unreachable=[], components=CURRENT_VERSIONS, branch_patterns=()
        )
    writer.replace_batch(connection, make_batch(commits))
"""
SUSPEND_BEFORE_COMMIT = """
with database.open_for_writing(location) as connection:
    write(connection, 0)
    connection.execute("CHECKPOINT")
    write(connection, 1)
    connection.execute("BEGIN")
    connection.execute("DELETE FROM commits")
    connection.execute("UPDATE repository SET last_indexed_commit = 'x'")
    suspend()
"""
# DuckDB fails at this step of the checkpoint, which leaves the files as a suspended process would.
SUSPEND_DURING_CHECKPOINT = """
import duckdb
with database.open_for_writing(location) as connection:
    write(connection, 0)
    connection.execute("CHECKPOINT")
    write(connection, 1)
    connection.execute("SET debug_checkpoint_abort = '{step}'")
    try: connection.execute("CHECKPOINT")
    except duckdb.Error: suspend()
"""
SUSPEND_WITH_GATE = """
with database.open_for_writing(location) as connection:
    write(connection, 0)
    write(connection, 1)
with locks.acquire_exclusive_lock(location.folder / locks.GATE_LOCK, locks.Deadline.after(5)):
    suspend()
"""
SUSPEND_BETWEEN_BATCHES = """
from stores.connections import IndexWriter
with IndexWriter(location) as index_writer:
    for number in range(2):
        with index_writer.open_batch() as connection:
            write(connection, number)
    suspend()
"""
# Writes batches, some of them replacing earlier ones, with a checkpoint after every third, until it is killed.
WRITE_REPEATEDLY = """
import itertools
for number in itertools.count():
    with database.open_for_writing(location) as connection:
        write(connection, number)
        if number % 3 == 2: connection.execute("CHECKPOINT")
    if number == 3: print("ready")
"""
# Holds the index; for each line of stdin, writes a batch, with a checkpoint if the line says so.
WRITE_ON_DEMAND = """
with database.open_for_writing(location) as connection:
    write(connection, 0)
    connection.execute("CHECKPOINT")
    print("written")
    for number, line in enumerate(sys.stdin, 1):
        write(connection, number)
        if line.strip() == "checkpoint": connection.execute("CHECKPOINT")
        print("written")
"""


class State(NamedTuple):
    """Commits of an index, watermark, and number of broken invariants."""

    commits: int
    watermark: str | None
    broken: int


@pytest.fixture
def location(tmp_path: Path) -> IndexLocation:
    return make_location(tmp_path)


@pytest.fixture
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy after a short wait."""
    monkeypatch.setattr(index_copy, "COPY_AFTER_SECONDS", 0.05)


@contextmanager
def suspend_writer(script: str, location: IndexLocation) -> Iterator[Popen[str]]:
    """Run a script until it suspends itself."""
    with run_script(WRITER + script, location.home) as process:
        wait_until_suspended(process)
        yield process


def read_state(index: OpenIndex) -> State:
    """Read every row of the index."""
    maintenance.read_all_rows(index.connection)
    summary = history.load_index_summary(index.connection)
    assert summary is not None
    broken = sum(maintenance.find_broken_invariants(index.connection).values())
    return State(summary.commits, summary.last_indexed_commit, broken)


def make_state(batches: int) -> State:
    """Return the state after this number of batches."""
    return State(batches * BATCH_COMMITS, make_sha(batches * BATCH_COMMITS - 1), 0)


def wait_for_change(location: IndexLocation) -> None:
    """Wait until the writer has changed a file of the index."""
    before = database.compute_fingerprint(location)
    wait_until(lambda: database.compute_fingerprint(location) != before)


def open_copy(location: IndexLocation, stack: ExitStack) -> OpenIndex:
    """Make and open one copy, without waiting for the index."""
    return index_copy._open_copy(stack, location, Deadline.after(60))


@pytest.mark.parametrize(
    "script",
    [
        SUSPEND_BEFORE_COMMIT,
        SUSPEND_WITH_GATE,
        SUSPEND_BETWEEN_BATCHES,
        *(
            SUSPEND_DURING_CHECKPOINT.format(step=step)
            for step in ("before_header", "after_free_list_write", "before_truncate")
        ),
    ],
    ids=["transaction", "gate", "between batches", "header", "free list", "truncate"],
)
def test_suspended_writer(location: IndexLocation, script: str) -> None:
    """Wherever the writer was suspended, a reader sees the last committed state, and who holds the index."""
    with suspend_writer(script, location) as process, index_copy.open_index_or_copy(location) as index:
        assert read_state(index) == make_state(2)
        if script != SUSPEND_BETWEEN_BATCHES:  # the writer's other thread may have closed the index before
            assert index.holder is not None
            holder = index.holder.process
            assert holder is not None and (holder.pid, holder.is_suspended) == (process.pid, True)
        assert list(location.folder.glob("copy-*")) == []


@pytest.mark.usefixtures("short_wait")
def test_writer_suspended_at_any_moment(location: IndexLocation) -> None:
    """At many moments of a writer, a reader sees a committed state, never an older one than before."""
    commit_counts, copies = [0], 0
    with run_script(WRITER + WRITE_REPEATEDLY, location.home) as process:
        assert read_line(process) == "ready"
        for delay in range(30):
            wait_for_change(location)
            time.sleep(delay / 1_000)
            process.send_signal(signal.SIGSTOP)
            wait_until_suspended(process)
            with index_copy.open_index_or_copy(location) as index:
                state = read_state(index)
                copies += index.holder is not None
            assert state == make_state(state.commits // BATCH_COMMITS)
            commit_counts.append(state.commits)
            process.send_signal(signal.SIGCONT)
    assert commit_counts == sorted(commit_counts)
    assert copies and len(set(commit_counts)) > 5


def test_writer_that_keeps_writing(location: IndexLocation) -> None:
    """A copy that is made while the writer runs has a committed state, or is refused."""
    copied, refused = 0, 0
    with run_script(WRITER + WRITE_REPEATEDLY, location.home) as process:
        assert read_line(process) == "ready"
        while copied < 20:
            assert refused < 200
            with ExitStack() as stack:
                try:
                    index = open_copy(location, stack)
                except index_copy.CopyFailed:
                    refused += 1
                    continue
                state = read_state(index)
                assert state == make_state(state.commits // BATCH_COMMITS)
                copied += 1


class SlowCopy:
    """Replacement of `_copy_chunk` that lets the writer work after the first part of the database was copied."""

    def __init__(self, process: Popen[str], lines: str) -> None:
        self.process = process
        self.lines = lines
        self.copy_chunk = index_copy._copy_chunk

    def __call__(self, source: int, target: int, size: int, offset: int) -> int:
        if offset and self.lines:
            assert self.process.stdin is not None
            for line in self.lines.split():
                self.process.stdin.write(line + "\n")
                self.process.stdin.flush()
                assert read_line(self.process) == "written"
            self.lines = ""
        return self.copy_chunk(source, target, size, offset)


def test_commits_during_a_copy(location: IndexLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy has all that was committed before it began, and nothing of later batches."""
    monkeypatch.setattr(index_copy, "CHUNK_BYTES", 2 * index_copy.HEADER_BYTES)
    with run_script(WRITER + WRITE_ON_DEMAND, location.home) as process, ExitStack() as stack:
        assert read_line(process) == "written"
        before = read_tables(open_copy(location, stack).connection)
        slow_copy = SlowCopy(process, "batch batch")
        monkeypatch.setattr(index_copy, "_copy_chunk", slow_copy)
        assert read_tables(open_copy(location, stack).connection) == before
        assert slow_copy.lines == ""
        assert read_state(open_copy(location, stack)) == make_state(3)


def test_torn_copy_is_refused(location: IndexLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy during which checkpoints moved blocks is refused; a later one has the new state."""
    monkeypatch.setattr(index_copy, "CHUNK_BYTES", 2 * index_copy.HEADER_BYTES)
    with run_script(WRITER + WRITE_ON_DEMAND, location.home) as process, ExitStack() as stack:
        assert read_line(process) == "written"
        monkeypatch.setattr(index_copy, "_copy_chunk", SlowCopy(process, "checkpoint checkpoint"))
        with pytest.raises(index_copy.CopyFailed, match="changed during the copy"):
            open_copy(location, stack)
        assert read_state(open_copy(location, stack)) == make_state(3)


def test_compaction_during_a_copy(location: IndexLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy during which the database file was replaced is refused."""
    write_batch(location)
    copy_chunk = index_copy._copy_chunk

    def compact_first(source: int, target: int, size: int, offset: int) -> int:
        monkeypatch.undo()
        maintenance.compact(location)
        return copy_chunk(source, target, size, offset)

    monkeypatch.setattr(index_copy, "_copy_chunk", compact_first)
    with ExitStack() as stack, pytest.raises(index_copy.CopyFailed, match="changed during the copy"):
        open_copy(location, stack)


def write_batch(location: IndexLocation) -> None:
    """Create an index with one batch."""
    with database.open_for_writing(location) as connection:
        writer.record_run_start(
            connection, location, head="h", unreachable=[], components=CURRENT_VERSIONS, branch_patterns=()
        )
        writer.replace_batch(connection, make_batch([SampleCommit(number) for number in range(20)]))
        connection.execute("CHECKPOINT")


def write_empty_file(location: IndexLocation) -> None:
    """Leave a database file without tables, as a run that was suspended while it created the index."""
    index_location.create_index_directory(location)
    duckdb.connect(location.database).close()


def write_truncated_file(location: IndexLocation) -> None:
    """Leave a file that is not a database yet."""
    index_location.create_index_directory(location)
    location.database.write_bytes(b"\0" * 4096)


def write_older_schema(location: IndexLocation) -> None:
    """Leave an index that has to be migrated."""
    write_batch(location)
    with database.open_for_writing(location) as connection:
        connection.execute("UPDATE migrations SET version = 1")


HOLD_LOCK = """
with locks.acquire_index(location.folder, exclusive=True, deadline=locks.Deadline.after(10)):
    print("locked"); sys.stdin.read()
"""


@pytest.mark.usefixtures("short_wait")
@pytest.mark.parametrize("write", [write_empty_file, write_truncated_file, write_older_schema])
def test_no_copy_of_an_unusable_index(
    location: IndexLocation, write: Callable[[IndexLocation], None]
) -> None:
    """An index that is being created or has to be migrated is busy, neither missing nor damaged."""
    write(location)
    with run_script(HOLD_LOCK, location.home) as process:
        assert read_line(process) == "locked"
        with (
            pytest.raises(IndexBusy, match=rf"process {process.pid} .*after 0\.3 s.* cannot be copied"),
            index_copy.open_index_or_copy(location, wait=0.3),
        ):
            pass
    assert not location.damage.exists()


@pytest.mark.usefixtures("short_wait")
def test_newer_schema(location: IndexLocation) -> None:
    """An index of a newer version is reported as such, although another process holds it."""
    write_batch(location)
    with database.open_for_writing(location) as connection:
        connection.execute("UPDATE migrations SET version = 99")
    with run_script(HOLD_LOCK, location.home) as process:
        assert read_line(process) == "locked"
        with pytest.raises(NewerSchema, match="schema 99"), index_copy.open_index_or_copy(location):
            pass


def test_missing_index(location: IndexLocation) -> None:
    """A missing index is reported at once."""
    with pytest.raises(NotIndexed), index_copy.open_index_or_copy(location, wait=0):
        pass


@pytest.mark.usefixtures("short_wait")
@pytest.mark.parametrize(
    ("fail", "reason"),
    [
        (lambda patch: patch.setattr(index_copy, "MIN_FREE_BYTES", 1 << 60), "too little free space"),
        (lambda patch: patch.setattr(index_copy, "DIRECTORY_PREFIX", "missing/"), "No such file"),
    ],
)
def test_copy_that_cannot_be_written(
    location: IndexLocation,
    monkeypatch: pytest.MonkeyPatch,
    fail: Callable[[pytest.MonkeyPatch], None],
    reason: str,
) -> None:
    """If a copy cannot be written, the error says why, how to continue the suspended process, and nothing is left."""
    with suspend_writer(SUSPEND_BEFORE_COMMIT, location) as process:
        before = sorted(location.folder.iterdir())
        fail(monkeypatch)
        with (
            pytest.raises(IndexBusy, match=reason) as failure,
            index_copy.open_index_or_copy(location, wait=0.2),
        ):
            pass
        assert f"`kill -CONT {process.pid}`" in failure.value.hint
        assert sorted(location.folder.iterdir()) == before


def test_slow_copy_ends_at_the_deadline(location: IndexLocation, tmp_path: Path) -> None:
    """A copy that takes too long ends at the deadline."""
    write_batch(location)
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(index_copy.CopyFailed, match="too long"):
        index_copy.copy_files(location, target, Deadline.after(0))


def test_copy_is_private(location: IndexLocation) -> None:
    """Only the owner can read a copy."""
    write_batch(location)
    with index_copy.create_copy_directory(location.folder) as directory:
        index_copy.copy_files(location, directory, Deadline.after(10))
        assert directory.stat().st_mode & 0o777 == 0o700
        assert {file.stat().st_mode & 0o777 for file in directory.iterdir()} == {0o600}


def test_open_file_is_not_copied(location: IndexLocation) -> None:
    """A process does not copy a file that it has open: closing it would drop DuckDB's locks."""
    write_batch(location)
    with (
        database.open_for_reading(location),
        pytest.raises(index_copy.CopyFailed, match="this process"),
        ExitStack() as stack,
    ):
        open_copy(location, stack)
    with ExitStack() as stack:
        open_copy(location, stack)


KILLED_DURING_COPY = """
from stores import index_copy
with index_copy.create_copy_directory(location.folder) as directory:
    (directory / "index.duckdb").write_bytes(b"x" * 1000)
    print(directory)
    sys.stdin.read()
"""


@pytest.mark.parametrize(
    "clean_up", [maintenance.delete_leftover_files, lambda location: make_copy(location)]
)
def test_copy_of_a_killed_reader_is_deleted(
    location: IndexLocation, clean_up: Callable[[IndexLocation], None]
) -> None:
    """A copy in use is no leftover; that of a killed process is deleted by `lineage gc` and by the next copy."""
    write_batch(location)
    with run_script(KILLED_DURING_COPY, location.home) as process:
        directory = Path(read_line(process))
        os.utime(directory, (0, 0))
        clean_up(location)
        assert directory.exists() and maintenance.find_leftover_files(location) == []
    assert maintenance.find_leftover_files(location) == [directory]
    clean_up(location)
    assert not directory.exists()


def make_copy(location: IndexLocation) -> None:
    with ExitStack() as stack:
        open_copy(location, stack)


def test_deleted_index_with_a_leftover_copy(location: IndexLocation) -> None:
    """A directory that has only a leftover copy counts as empty."""
    location = make_location(location.home, "repo-0123456789abcdef")
    directory = location.folder / "copy-abc"
    directory.mkdir(parents=True)
    # Its process may be about to lock it.
    assert not maintenance.is_empty_directory(location.folder)
    os.utime(directory, (0, 0))
    assert maintenance.is_empty_directory(location.folder)


def test_unreadable_copy_is_no_damage(location: IndexLocation) -> None:
    """A corrupt block of a copy is reported as a busy index; nothing is recorded, because the copy may be torn."""
    with suspend_writer(SUSPEND_BEFORE_COMMIT, location) as process:
        content = bytearray(location.database.read_bytes())
        paths = content.rfind(b"file")
        content[paths - 2_000 : paths + 2_000] = b"\xa5" * 4_000
        location.database.write_bytes(content)
        with (
            index_copy.open_index_or_copy(location) as index,
            pytest.raises(IndexBusy, match=f"process {process.pid} .*a copy of it cannot be read"),
            index.translate_errors(),
        ):
            maintenance.read_all_rows(index.connection)
        assert index.has_failed and not location.damage.exists()


def test_recorded_damage_is_reported(location: IndexLocation) -> None:
    """Damage that was recorded before is reported for a copy as well."""
    write_batch(location)
    with pytest.raises(database.DamagedIndex), database.translate_errors(location):
        raise duckdb.IOException("Corrupt database file: computed checksum")
    with pytest.raises(database.DamagedIndex), ExitStack() as stack:
        open_copy(location, stack)


@pytest.mark.usefixtures("short_wait")
def test_directory_without_locks(location: IndexLocation) -> None:
    """After the directory was deleted, the index is missing."""
    write_batch(location)
    shutil.rmtree(location.folder)
    with pytest.raises(NotIndexed), index_copy.open_index_or_copy(location):
        pass


def test_holder_of_a_free_index_is_unknown(location: IndexLocation) -> None:
    """Without another process, the user of an index is unknown."""
    write_batch(location)
    assert locks.find_index_holder(location.folder) is None
    assert str(index_copy.IndexHolder.find(location.folder)) == "another process"
