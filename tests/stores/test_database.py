"""Opening an index: privacy, checkpoints, damage, kills, full disks and concurrent programs."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import duckdb
import pytest

from stores import database, duckdb_engine, history, index_location, maintenance, writer
from stores.database import DamagedIndex, NotIndexed
from stores.duckdb_engine import make_files_private, read_batches
from stores.errors import OutOfMemory, StorageError
from stores.locks import IndexBusy
from stores.migrations import SCHEMA_VERSION, NewerSchema
from tests.readonly_fs import make_read_only
from tests.stores.batches import CURRENT_VERSIONS, SampleCommit, make_batch, make_location, make_sha
from tests.stores.processes import read_line, run_script, wait_for_exit

# Script that writes batches of 20 commits until it is killed, and prints the number of each after its commit.
WRITE_BATCHES = """
import itertools
for number in itertools.count(int(sys.stdin.readline())):
    with database.open_for_writing(location) as connection:
        writer.record_run_start(
            connection, location, head="h", unreachable=[], components=CURRENT_VERSIONS, branch_patterns=()
        )
        commits = [SampleCommit(number * 20 + n, {f"w{n}": 1, f"b{number}": 1}) for n in range(20)]
        writer.replace_batch(connection, make_batch(commits))
        print(number)
"""
# Script that opens the database like another program, without taking the locks.
OPEN_WITHOUT_LOCKS = """
import duckdb
with duckdb.connect(str(location.database), read_only={read_only}):
    print("opened"); sys.stdin.read()
"""

OpenFunction = Callable[[index_location.IndexLocation], AbstractContextManager[duckdb.DuckDBPyConnection]]


def create_index(home: Path, commit_count: int = 1) -> index_location.IndexLocation:
    location = make_location(home)
    with database.open_for_writing(location) as connection:
        writer.record_run_start(
            connection,
            location,
            head="h" * 40,
            unreachable=[],
            components=CURRENT_VERSIONS,
            branch_patterns=(),
        )
        writer.replace_batch(connection, make_batch([SampleCommit(number) for number in range(commit_count)]))
    return location


def check_write_and_read(location: index_location.IndexLocation) -> None:
    """Write commit 1 to an index with commit 0, and check that a reader finds both."""
    with database.open_for_writing(location) as connection:
        writer.replace_batch(connection, make_batch([SampleCommit(1)]))
    with database.open_for_reading(location) as connection:
        assert history.find_recorded_commits(connection, [make_sha(0), make_sha(1)]) == {
            make_sha(0),
            make_sha(1),
        }


def test_not_indexed(tmp_path: Path) -> None:
    """Opening a missing index for reading names the command to run, and creates nothing."""
    with (
        pytest.raises(NotIndexed, match="lineage index"),
        database.open_for_reading(make_location(tmp_path / "home")),
    ):
        pass
    assert not (tmp_path / "home").exists()


def test_files_are_private(tmp_path: Path) -> None:
    """Only the owner can access the directory, the database and its log, with any umask."""
    before = os.umask(0)
    try:
        location = create_index(tmp_path / "home")
        with database.open_for_writing(location) as connection:
            writer.replace_batch(connection, make_batch([SampleCommit(1)]))
            modes = {
                path: stat.S_IMODE(path.stat().st_mode)
                for path in [location.folder, *location.folder.iterdir()]
            }
        assert os.umask(0) == 0
    finally:
        os.umask(before)
    assert modes.pop(location.folder) == 0o700
    assert {path.name for path in modes} >= {"index.duckdb", "index.duckdb.wal"}
    assert set(modes.values()) == {0o600}


def test_reader_cannot_write(tmp_path: Path) -> None:
    """A connection for reading refuses to change the index."""
    with (
        database.open_for_reading(create_index(tmp_path)) as connection,
        pytest.raises(duckdb.Error, match="read-only"),
    ):
        connection.execute("DELETE FROM commits")


def test_no_automatic_extensions(tmp_path: Path) -> None:
    """DuckDB does not install or load extensions by itself."""
    location = create_index(tmp_path)
    for open_index in (database.open_for_reading, database.open_for_writing):
        with open_index(location) as connection:
            rows = connection.execute(
                "SELECT DISTINCT value FROM duckdb_settings() WHERE name LIKE 'auto%_known_extensions'"
            ).fetchall()
            assert rows == [("false",)]


def test_wal_stays_small(tmp_path: Path) -> None:
    """After any number of batches the log stays small, so that the next reader opens fast."""
    location = create_index(tmp_path)
    for number in range(8):
        with database.open_for_writing(location) as connection:
            commits = [SampleCommit(number * 200 + n) for n in range(200)]
            writer.replace_batch(connection, make_batch(commits))
        assert database.get_wal_size(location) <= database.MAX_WAL_BYTES
    started = time.process_time()
    with database.open_for_reading(location) as connection:
        assert history.load_index_summary(connection) is not None
    assert time.process_time() - started < 0.5  # CPU time; about 25 ms measured


def test_checkpoint_frees_memory(tmp_path: Path) -> None:
    """A checkpoint frees the buffers of written data, which can still be read."""
    location = create_index(tmp_path)
    with database.open_for_writing(location) as connection:
        commits = [SampleCommit(number) for number in range(4_000)]
        writer.replace_batch(connection, make_batch(commits))
        before = _measure_memory(connection)
        database.checkpoint_wal(connection, location)
        assert _measure_memory(connection) < before / 4
        assert connection.execute("SELECT count(*) FROM hunks").fetchall() == [(4_000,)]


def _measure_memory(connection: duckdb.DuckDBPyConnection) -> int:
    return sum(
        rows[0] for rows in connection.execute("SELECT memory_usage_bytes FROM duckdb_memory()").fetchall()
    )


def test_block_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New indexes have small blocks; an index with DuckDB's default block size can be read and written."""
    block_size_sql = "SELECT block_size FROM pragma_database_size() WHERE database_name = 'ix'"
    monkeypatch.setattr(database, "BLOCK_SIZE", 262_144)
    old_location = create_index(tmp_path / "old")
    monkeypatch.undo()
    new_location = create_index(tmp_path / "new")
    for location, block_size in ((old_location, 262_144), (new_location, database.BLOCK_SIZE)):
        check_write_and_read(location)
        with database.open_for_reading(location) as connection:
            assert connection.execute(block_size_sql).fetchall() == [(block_size,)]


def test_newer_schema_is_refused(tmp_path: Path) -> None:
    """An index with a newer schema is neither read nor written, and stays unchanged."""
    location = create_index(tmp_path)
    with database.open_for_writing(location) as connection:
        connection.execute("INSERT INTO migrations VALUES (?, now()::TIMESTAMP)", [SCHEMA_VERSION + 1])
        connection.execute("CHECKPOINT")
    before = location.database.read_bytes()
    for open_index in (database.open_for_reading, database.open_for_writing):
        with pytest.raises(NewerSchema, match=rf"schema {SCHEMA_VERSION + 1}"), open_index(location):
            pass
    assert location.database.read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database" * 1000, b"x"])
def test_damaged_file(tmp_path: Path, content: bytes) -> None:
    """The error for a file that is not a database names the rebuild command."""
    location = create_index(tmp_path)
    location.wal.unlink(missing_ok=True)
    location.database.write_bytes(content)
    for open_index in (database.open_for_reading, database.open_for_writing):
        with pytest.raises(DamagedIndex, match="--rebuild --yes"), open_index(location):
            pass


def test_other_program_has_the_file_open(tmp_path: Path) -> None:
    """If a program without our locks has the file open, the error after the timeout says to close it."""
    location = create_index(tmp_path)
    with run_script(OPEN_WITHOUT_LOCKS.format(read_only=False), tmp_path) as other:
        assert read_line(other) == "opened"
        for open_index in (database.open_for_reading, database.open_for_writing):
            with pytest.raises(IndexBusy, match="close the program"), open_index(location, wait=0.1):
                pass
    with run_script(OPEN_WITHOUT_LOCKS.format(read_only=True), tmp_path) as other:
        assert read_line(other) == "opened"
        with database.open_for_reading(location) as connection:
            assert history.find_recorded_commits(connection, [make_sha(0)]) == {make_sha(0)}
        with pytest.raises(IndexBusy), database.open_for_writing(location, wait=0.1):
            pass


def test_failed_body_keeps_committed_data(tmp_path: Path) -> None:
    """If the body fails, committed data stays and uncommitted changes are lost."""
    location = create_index(tmp_path)
    with pytest.raises(KeyboardInterrupt), database.open_for_writing(location) as connection:
        writer.replace_batch(connection, make_batch([SampleCommit(1)]))
        connection.execute("BEGIN")
        connection.execute("DELETE FROM commits")
        raise KeyboardInterrupt
    with database.open_for_reading(location) as connection:
        assert history.list_recorded_commits(connection) == [make_sha(0), make_sha(1)]


def test_killed_writer_keeps_complete_batches(tmp_path: Path) -> None:
    """After a kill at any moment the index has only complete batches, all committed ones included."""
    number = 0
    for attempt in range(6):
        with run_script(WRITE_BATCHES, tmp_path) as process:
            assert process.stdin is not None
            print(number, file=process.stdin, flush=True)
            last_number = int(read_line(process))
            # The attempts end at different steps of opening, writing and checkpointing.
            time.sleep(0.013 * attempt)
            process.kill()
            output = wait_for_exit(process)[1].split()
        last_number = int(output[-1]) if output else last_number
        with database.open_for_reading(make_location(tmp_path)) as connection:
            number = _count_batches(connection)
        assert number in {last_number + 1, last_number + 2}


def _count_batches(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the number of batches, after checking that all are complete and the last one is the watermark."""
    summary = history.load_index_summary(connection)
    assert summary is not None
    number, remainder = divmod(summary.commits, 20)
    assert (remainder, summary.hunks) == (0, summary.commits)
    assert summary.last_indexed_commit == make_sha(summary.commits - 1)
    rows = connection.execute("SELECT count(*), count(DISTINCT hunk_id) FROM hunk_postings").fetchall()
    assert rows == [(2 * summary.hunks, summary.hunks)]
    assert connection.execute("SELECT count(*) FROM vectors").fetchall() == [(2 * summary.commits,)]
    return number


def test_reader_engines_are_reused(tmp_path: Path) -> None:
    """Concurrent readers have an engine each, which later readers reuse; an engine of a failed reader is dropped."""
    location = create_index(tmp_path / "home")

    def count_idle() -> int:
        return sum(engine_location == location for engine_location, _ in duckdb_engine._idle_engines)

    with database.open_for_reading(location) as first, database.open_for_reading(location) as second:
        assert first.execute("FROM migrations").fetchall() == second.execute("FROM migrations").fetchall()
        assert count_idle() == 0
    assert count_idle() == 2
    with database.open_for_reading(location):
        assert count_idle() == 1
    with pytest.raises(ZeroDivisionError), database.open_for_reading(location):
        raise ZeroDivisionError
    assert count_idle() == 1


def test_idle_engine_has_no_open_file(tmp_path: Path) -> None:
    """After a reader has closed, a writer can open the file, and the next reader sees the new rows."""
    location = create_index(tmp_path / "home")
    with database.open_for_reading(location) as connection:
        before = connection.execute("SELECT count(*) FROM migrations").fetchone()
    with database.open_for_writing(location, wait=1) as connection:
        connection.execute("INSERT INTO migrations SELECT * FROM migrations LIMIT 1")
    with database.open_for_reading(location) as connection:
        assert connection.execute("SELECT count(*) FROM migrations").fetchone() != before


@pytest.mark.parametrize(
    ("error_class", "prefix"),
    [
        (duckdb.InterruptException, ""),
        (OSError, ""),
        (
            duckdb.InvalidInputException,
            "Invalid Input Error: Attempting to execute an unsuccessful or closed pending query result\nError: ",
        ),
    ],
)
def test_lost_message(tmp_path: Path, error_class: type[Exception], prefix: str) -> None:
    """If DuckDB reports another thread's interruption in place of the error, the message says so."""
    location = create_index(tmp_path / "home")
    with (
        pytest.raises(
            StorageError, match=r"DuckDB failed while it used .*index\.duckdb, and did not report why"
        ) as caught,
        database.open_for_reading(location),
    ):
        raise error_class(f"{prefix}INTERRUPT Error: Interrupted!")
    assert "lineage doctor" in caught.value.hint


# Script that writes batches until a file exceeds the size limit.
WRITE_TO_LIMIT = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes}, {bytes}))
number = int(sys.stdin.readline())
try:
    while True:
        with database.open_for_writing(location) as connection:
            writer.record_run_start(
                connection, location, head="h", unreachable=[], components=CURRENT_VERSIONS, branch_patterns=()
            )
            commits = [SampleCommit(number * 20 + n, {{f"w{{n}}": 1, f"b{{number}}": 1}}) for n in range(20)]
            writer.replace_batch(connection, make_batch(commits))
        number += 1
except Exception as error:
    print(number, type(error).__name__, error)
"""


@pytest.mark.parametrize("max_bytes", [0, 1_000, 100_000, 700_000, 1_500_000])
def test_file_size_limit(tmp_path: Path, max_bytes: int) -> None:
    """At any size limit the error reports the file size, committed batches stay, and the next run continues."""
    with run_script(WRITE_TO_LIMIT.format(bytes=max_bytes), tmp_path) as process:
        assert process.stdin is not None
        process.stdin.write("0\n")
        status, output, stderr = wait_for_exit(process)
    assert (status, stderr) == (0, "")
    number, error_type, message = output.split(" ", 2)
    assert error_type in {"StorageError", "OSError"}
    assert "File too large" in message and str(tmp_path) in message
    location = make_location(tmp_path)
    if int(number):
        with database.open_for_reading(location) as connection:
            # The last batch is complete if it failed during its checkpoint.
            assert _count_batches(connection) in {int(number), int(number) + 1}
    with database.open_for_writing(location) as connection:
        writer.record_run_start(
            connection, location, head="h", unreachable=[], components=CURRENT_VERSIONS, branch_patterns=()
        )
        writer.replace_batch(connection, make_batch([SampleCommit(9999)]))


@pytest.mark.parametrize(
    "error",
    [
        duckdb.IOException('Could not write file "x": No space left on device'),
        duckdb.TransactionException("Failed to commit: Could not write all bytes to file"),
        duckdb.FatalException(
            "invalidated because of a previous fatal error. Original error: No space left on device"
        ),
    ],
)
@pytest.mark.parametrize("open_index", [database.open_for_reading, database.open_for_writing])
def test_full_disk_is_not_reported_as_damage(
    tmp_path: Path, open_index: OpenFunction, error: duckdb.Error
) -> None:
    """DuckDB's errors for a full disk become a StorageError with the file and what to do."""
    location = create_index(tmp_path)
    with pytest.raises(StorageError, match="Free some space") as error_info, open_index(location):
        raise error
    assert str(location.database) in error_info.value.message


@pytest.mark.parametrize("open_index", [database.open_for_reading, database.open_for_writing])
def test_lack_of_memory_is_not_reported_as_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_index: OpenFunction
) -> None:
    """If DuckDB gets no memory to attach the index, the error does not advise to rebuild it, and the file stays."""
    location = create_index(tmp_path)
    duckdb_engine._start_writer_engine.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(duckdb_engine, "MEMORY_LIMIT", "100KB")
        with pytest.raises(OutOfMemory), open_index(location):
            pass
    check_write_and_read(location)


@pytest.mark.parametrize(
    "error",
    [
        duckdb.TransactionException(
            "Failed to commit: could not allocate block of size 256.0 KiB: SET memory_limit"
        ),
        duckdb.FatalException(
            "because of a previous fatal error. Original error: Out of Memory Error: none left"
        ),
    ],
    ids=lambda error: type(error).__name__,
)
def test_commit_without_memory_is_not_reported_as_damage(tmp_path: Path, error: duckdb.Error) -> None:
    """DuckDB's errors for a commit that got no memory are no failed write and no damage."""
    location = create_index(tmp_path)
    with pytest.raises(OutOfMemory), database.open_for_writing(location):
        raise error


def test_first_error_is_raised(tmp_path: Path) -> None:
    """An error while closing does not replace the body's error, and the next batch works."""
    location = create_index(tmp_path)
    with pytest.raises(ZeroDivisionError), database.open_for_writing(location) as connection:
        connection.close()
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), database.open_for_reading(location) as connection:
        connection.close()
        raise ZeroDivisionError
    check_write_and_read(location)


@pytest.mark.parametrize("open_index", [database.open_for_reading, database.open_for_writing])
def test_damaged_blocks(tmp_path: Path, open_index: OpenFunction) -> None:
    """Damaged blocks that are found only while reading are reported like a file that does not open."""
    location = create_index(tmp_path, 1_000)
    with database.open_for_writing(location) as connection:
        database.checkpoint_wal(connection, location)
    content = location.database.read_bytes()
    late_detections = 0
    for block in range(3 * 4096, len(content), 3 * database.BLOCK_SIZE):
        location.database.write_bytes(content[: block + 30_000] + b"x" * 200 + content[block + 30_200 :])
        is_open = False
        try:
            with open_index(location) as connection:
                is_open = True
                maintenance.read_all_rows(connection)
        except DamagedIndex as error:
            assert "--rebuild --yes" in error.hint
            late_detections += is_open
    assert late_detections > 3


@pytest.mark.parametrize("read", [lambda cursor: cursor.fetchall(), lambda cursor: cursor.to_arrow_table()])
def test_damage_is_remembered(tmp_path: Path, read: Callable[[duckdb.DuckDBPyConnection], object]) -> None:
    """A corrupt block that a reader found, also through Arrow, is reported by each later opening until a rebuild."""
    location = create_index(tmp_path, 1_000)
    with database.open_for_writing(location) as connection:
        database.checkpoint_wal(connection, location)
    content = bytearray(location.database.read_bytes())
    position = content.index(b"Ada Lovelace")  # in a block of the commits
    content[position : position + 200] = b"x" * 200
    location.database.write_bytes(content)
    with (
        pytest.raises(DamagedIndex, match="Corrupt database file") as first,
        database.open_for_reading(location) as connection,
    ):
        read(connection.execute("SELECT * FROM commits"))
    for open_index in (database.open_for_reading, database.open_for_writing):
        with pytest.raises(DamagedIndex) as later, open_index(location):
            pass
        assert str(later.value) == str(first.value)
    maintenance.delete_index(location)
    with database.open_for_writing(location):
        pass
    assert not location.damage.exists()


@pytest.mark.parametrize(
    "read",
    [
        lambda connection, sql: connection.execute(sql).fetchall(),
        lambda connection, sql: connection.execute(sql).fetchmany(10_000),
        lambda connection, sql: connection.execute(sql).to_arrow_table(),
        lambda connection, sql: list(connection.execute(sql).to_arrow_reader(100)),
        lambda connection, sql: list(read_batches(connection, sql, 100)),
    ],
)
def test_truncated_file(tmp_path: Path, read: Callable[[duckdb.DuckDBPyConnection, str], object]) -> None:
    """However rows are read, a missing end of the file is reported as damage, and by each later opening."""
    location = create_index(tmp_path, 1_000)
    with database.open_for_writing(location) as connection:
        database.checkpoint_wal(connection, location)
        tables = [name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
    os.truncate(location.database, location.database.stat().st_size - 200_000)
    with (
        pytest.raises(DamagedIndex, match="Could not read enough bytes"),
        database.open_for_reading(location) as connection,
    ):
        for table in tables:
            read(connection, f"SELECT * FROM {table}")
    for open_index in (database.open_for_reading, database.open_for_writing):
        with pytest.raises(DamagedIndex, match="Could not read enough bytes"), open_index(location):
            pass


@pytest.mark.parametrize("phrase", ["Corrupt database file", "Could not read enough bytes"])
def test_damage_in_the_words_of_a_statement(tmp_path: Path, phrase: str) -> None:
    """An error that only quotes the words of a statement is no damage, and nothing is recorded."""
    location = create_index(tmp_path)
    for statement in (
        f"SELECT '{phrase}' FROM nope",
        f"SELECT 'IO Error: {phrase}'::INT",
        f"SELECT error('{phrase}')",
    ):
        with (
            pytest.raises(duckdb.Error, match=phrase),
            database.open_for_reading(location) as connection,
            database.translate_errors(location),
        ):
            connection.execute(statement).fetchall()
    assert not location.damage.exists()


def test_private_files_in_threads(tmp_path: Path) -> None:
    """New files are private until the last thread leaves `make_files_private`; then the umask is restored."""
    before = os.umask(0o022)
    try:
        first, second = make_files_private(), make_files_private()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        (tmp_path / "secret").touch()
        second.__exit__(None, None, None)
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_reading_on_read_only_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index with a log can be read on a read-only file system, but not written."""
    location = create_index(tmp_path)
    assert location.wal.exists()
    make_read_only(tmp_path, monkeypatch)
    with database.open_for_reading(location) as connection:
        assert history.find_recorded_commits(connection, [make_sha(0)]) == {make_sha(0)}
    with pytest.raises(OSError, match="Read-only"), database.open_for_writing(location):
        pass


def link_to_nothing(path: Path) -> None:
    path.symlink_to("nothing")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, link_to_nothing])
@pytest.mark.parametrize("name", ["index.duckdb", "index.duckdb.wal", "index.duckdb.damage"])
def test_something_else_in_place_of_the_index(
    tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    """A directory, pipe or broken link in place of the database or a file beside it is damage; a rebuild removes it."""
    location = make_location(tmp_path)
    with database.open_for_writing(location):
        pass
    (location.folder / name).unlink(missing_ok=True)
    make(location.folder / name)
    for open_index in (database.open_for_reading, database.open_for_writing):
        with pytest.raises(DamagedIndex, match="is no regular file") as error, open_index(location):
            pass
        assert error.value.hint == database.REBUILD_HINT
    maintenance.delete_index(location)
    with database.open_for_writing(location):
        assert location.database.is_file()
