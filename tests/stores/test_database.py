"""An index opens quickly, privately, offline, and survives a kill at any moment."""

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
from stores.duckdb_engine import private
from stores.errors import Refused
from stores.locks import IndexBusy
from stores.migrations import NewerSchema
from stores.types import SCHEMA_VERSION
from tests.readonly_fs import read_only
from tests.stores.batches import CURRENT, Document, batch, place_in, sha
from tests.stores.processes import finished, line, running

# Writes batches of 20 commits for ever, and says each number once it is committed.
ENDLESS = """
import itertools
for number in itertools.count(int(sys.stdin.readline())):
    with database.writing(place) as connection:
        writer.begin_pass(connection, place, head="h", unreached=[], components=CURRENT)
        documents = [Document(number * 20 + n, {f"w{n}": 1, f"b{number}": 1}) for n in range(20)]
        writer.replace_batch(connection, batch(documents))
        say(number)
"""
# Opens the database the way a program does that knows nothing of our locks.
STRANGER = """
import duckdb
with duckdb.connect(str(place.database), read_only={read_only}):
    say("in"); sys.stdin.read()
"""

Opening = Callable[[index_location.Place], AbstractContextManager[duckdb.DuckDBPyConnection]]


def make(home: Path, documents: int = 1) -> index_location.Place:
    place = place_in(home)
    with database.writing(place) as connection:
        writer.begin_pass(connection, place, head="h" * 40, unreached=[], components=CURRENT)
        writer.replace_batch(connection, batch([Document(number) for number in range(documents)]))
    return place


def test_not_indexed(tmp_path: Path) -> None:
    """Reading what does not exist says what to do, and makes nothing."""
    with pytest.raises(NotIndexed, match="lineage index"), database.reading(place_in(tmp_path / "home")):
        pass
    assert not (tmp_path / "home").exists()


def test_files_are_private(tmp_path: Path) -> None:
    """Whatever the umask, nobody else can read the folder, the database or its log."""
    before = os.umask(0)
    try:
        place = make(tmp_path / "home")
        with database.writing(place) as connection:
            writer.replace_batch(connection, batch([Document(1)]))
            modes = {
                path: stat.S_IMODE(path.stat().st_mode) for path in [place.folder, *place.folder.iterdir()]
            }
        assert os.umask(0) == 0
    finally:
        os.umask(before)
    assert modes.pop(place.folder) == 0o700
    assert {path.name for path in modes} >= {"index.duckdb", "index.duckdb.wal"}
    assert set(modes.values()) == {0o600}


def test_reader_cannot_write(tmp_path: Path) -> None:
    """A connection for reading refuses to change the index."""
    with database.reading(make(tmp_path)) as connection, pytest.raises(duckdb.Error, match="read-only"):
        connection.execute("DELETE FROM commits")


def test_nothing_comes_from_the_network(tmp_path: Path) -> None:
    """Neither way of opening installs or loads an extension by itself."""
    place = make(tmp_path)
    for opened in (database.reading, database.writing):
        with opened(place) as connection:
            rows = connection.execute(
                "SELECT DISTINCT value FROM duckdb_settings() WHERE name LIKE 'auto%_known_extensions'"
            ).fetchall()
            assert rows == [("false",)]


def test_reader_replays_little(tmp_path: Path) -> None:
    """However many batches were written, what the next reader must replay stays small."""
    place = make(tmp_path)
    for number in range(8):
        with database.writing(place) as connection:
            documents = [Document(number * 200 + n) for n in range(200)]
            writer.replace_batch(connection, batch(documents))
        assert database.wal_size(place) <= database.LARGEST_WAL
    started = time.process_time()
    with database.reading(place) as connection:
        assert history.status(connection) is not None
    assert time.process_time() - started < 0.5  # of processor time; it is about 25 ms


def test_checkpoint_empties_the_buffers(tmp_path: Path) -> None:
    """What a long run has written leaves its memory once it is in the file, and is read again all the same."""
    place = make(tmp_path)
    with database.writing(place) as connection:
        documents = [Document(number) for number in range(4_000)]
        writer.replace_batch(connection, batch(documents))
        before = _buffered(connection)
        database.settle(connection, place)
        assert _buffered(connection) < before / 4
        assert connection.execute("SELECT count(*) FROM hunks").fetchall() == [(4_000,)]


def _buffered(connection: duckdb.DuckDBPyConnection) -> int:
    return sum(
        rows[0] for rows in connection.execute("SELECT memory_usage_bytes FROM duckdb_memory()").fetchall()
    )


def test_a_file_keeps_its_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new index has small blocks; one that was made with DuckDB's own is read and written as it is."""
    size = "SELECT block_size FROM pragma_database_size() WHERE database_name = 'ix'"
    monkeypatch.setattr(database, "BLOCK_SIZE", 262_144)
    old = make(tmp_path / "old")
    monkeypatch.undo()
    new = make(tmp_path / "new")
    for place, blocks in ((old, 262_144), (new, database.BLOCK_SIZE)):
        with database.writing(place) as connection:
            writer.replace_batch(connection, batch([Document(1)]))
        with database.reading(place) as connection:
            assert history.recorded(connection, [sha(0), sha(1)]) == {sha(0), sha(1)}
            assert connection.execute(size).fetchall() == [(blocks,)]


def test_newer_schema_is_refused(tmp_path: Path) -> None:
    """An index of a newer schema is neither read nor written, and stays as it is."""
    place = make(tmp_path)
    with database.writing(place) as connection:
        connection.execute("INSERT INTO migrations VALUES (?, now()::TIMESTAMP)", [SCHEMA_VERSION + 1])
        connection.execute("CHECKPOINT")
    before = place.database.read_bytes()
    for opened in (database.reading, database.writing):
        with pytest.raises(NewerSchema, match=rf"schema {SCHEMA_VERSION + 1}"), opened(place):
            pass
    assert place.database.read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database" * 1000, b"x"])
def test_damaged_file(tmp_path: Path, content: bytes) -> None:
    """A file that is no database is reported with the command that makes it anew."""
    place = make(tmp_path)
    place.wal.unlink(missing_ok=True)
    place.database.write_bytes(content)
    for opened in (database.reading, database.writing):
        with pytest.raises(DamagedIndex, match="--rebuild --yes"), opened(place):
            pass


def test_stranger_holds_the_file(tmp_path: Path) -> None:
    """A program that ignores our locks makes us wait, then give up with advice, never with DuckDB's error."""
    place = make(tmp_path)
    with running(STRANGER.format(read_only=False), tmp_path) as stranger:
        assert line(stranger) == "in"
        for opened in (database.reading, database.writing):
            with pytest.raises(IndexBusy, match="close the program"), opened(place, wait=0.1):
                pass
    with running(STRANGER.format(read_only=True), tmp_path) as stranger:
        assert line(stranger) == "in"
        with database.reading(place) as connection:
            assert history.recorded(connection, [sha(0)]) == {sha(0)}
        with pytest.raises(IndexBusy), database.writing(place, wait=0.1):
            pass


def test_failed_body_leaves_the_committed(tmp_path: Path) -> None:
    """What a writer did not commit before it failed is gone; what it committed stays."""
    place = make(tmp_path)
    with pytest.raises(KeyboardInterrupt), database.writing(place) as connection:
        writer.replace_batch(connection, batch([Document(1)]))
        connection.execute("BEGIN")
        connection.execute("DELETE FROM commits")
        raise KeyboardInterrupt
    with database.reading(place) as connection:
        assert history.all_recorded(connection) == [sha(0), sha(1)]


def test_killed_writer_leaves_the_last_batch(tmp_path: Path) -> None:
    """Killed at any moment, again and again, a writer leaves whole batches, every one it had committed."""
    number = 0
    for attempt in range(6):
        with running(ENDLESS, tmp_path) as writer:
            assert writer.stdin is not None
            print(number, file=writer.stdin, flush=True)
            committed = int(line(writer))
            # Every moment of the cycle of opening, writing and checkpointing is hit by some attempt.
            time.sleep(0.013 * attempt)
            writer.kill()
            said = finished(writer)[1].split()
        committed = int(said[-1]) if said else committed
        with database.reading(place_in(tmp_path)) as connection:
            number = _whole_batches(connection)
        assert number in {committed + 1, committed + 2}


def _whole_batches(connection: duckdb.DuckDBPyConnection) -> int:
    """How many batches are there, all of them whole and the watermark at the last."""
    seen = history.status(connection)
    assert seen is not None
    number, rest = divmod(seen.commits, 20)
    assert (rest, seen.hunks) == (0, seen.commits)
    assert seen.last_indexed_commit == sha(seen.commits - 1)
    rows = connection.execute("SELECT count(*), count(DISTINCT hunk_id) FROM hunk_postings").fetchall()
    assert rows == [(2 * seen.hunks, seen.hunks)]
    assert connection.execute("SELECT count(*) FROM vectors").fetchall() == [(2 * seen.commits,)]
    return number


def test_readers_leave_their_engines(tmp_path: Path) -> None:
    """Readers at once have an engine each and leave it to the next; one that failed is not used again."""
    place = make(tmp_path / "home")

    def left() -> int:
        return sum(found == place for found, _ in duckdb_engine._left)

    with database.reading(place) as first, database.reading(place) as second:
        assert first.execute("FROM migrations").fetchall() == second.execute("FROM migrations").fetchall()
        assert left() == 0
    assert left() == 2
    with database.reading(place):
        assert left() == 1
    with pytest.raises(ZeroDivisionError), database.reading(place):
        raise ZeroDivisionError
    assert left() == 1


def test_an_engine_that_was_left_holds_nothing(tmp_path: Path) -> None:
    """After a reader the file is free for a writer, and the next reader sees what was written."""
    place = make(tmp_path / "home")
    with database.reading(place) as connection:
        before = connection.execute("SELECT count(*) FROM migrations").fetchone()
    with database.writing(place, wait=1) as connection:
        connection.execute("INSERT INTO migrations SELECT * FROM migrations LIMIT 1")
    with database.reading(place) as connection:
        assert connection.execute("SELECT count(*) FROM migrations").fetchone() != before


# Writes batches with the lid that a disk has: files may be so long and no longer.
WITHOUT_ROOM = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes}, {bytes}))
number = int(sys.stdin.readline())
try:
    while True:
        with database.writing(place) as connection:
            writer.begin_pass(connection, place, head="h", unreached=[], components=CURRENT)
            documents = [Document(number * 20 + n, {{f"w{{n}}": 1, f"b{{number}}": 1}}) for n in range(20)]
            writer.replace_batch(connection, batch(documents))
        number += 1
except Exception as error:
    say(number, type(error).__name__, error)
"""


@pytest.mark.parametrize("room", [0, 1_000, 100_000, 700_000, 1_500_000])
def test_no_room(tmp_path: Path, room: int) -> None:
    """Wherever it ends, the disk is what is told of; every batch stays that was committed, and the next run goes on."""
    with running(WITHOUT_ROOM.format(bytes=room), tmp_path) as process:
        assert process.stdin is not None
        process.stdin.write("0\n")
        status, said, complaint = finished(process)
    assert (status, complaint) == (0, "")
    number, kind, words = said.split(" ", 2)
    assert kind in {"Refused", "OSError"} and "File too large" in words and str(tmp_path) in words
    place = place_in(tmp_path)
    if int(number):
        with database.reading(place) as connection:
            # A commit that failed in the end may be there whole: what it lacked was room for a checkpoint.
            assert _whole_batches(connection) in {int(number), int(number) + 1}
    with database.writing(place) as connection:
        writer.begin_pass(connection, place, head="h", unreached=[], components=CURRENT)
        writer.replace_batch(connection, batch([Document(9999)]))


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
@pytest.mark.parametrize("opened", [database.reading, database.writing])
def test_a_full_disk_is_no_damage(tmp_path: Path, opened: Opening, error: duckdb.Error) -> None:
    """What the engine says of a disk without room is told as that, with the file, and with what to do."""
    place = make(tmp_path)
    with pytest.raises(Refused, match="Make room there") as raised, opened(place):
        raise error
    assert str(place.database) in raised.value.message


def test_the_first_error_is_told(tmp_path: Path) -> None:
    """What fails while an index is closed after a failure does not take its place; the next batch starts afresh."""
    place = make(tmp_path)
    with pytest.raises(ZeroDivisionError), database.writing(place) as connection:
        connection.close()
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), database.reading(place) as connection:
        connection.close()
        raise ZeroDivisionError
    with database.writing(place) as connection:
        writer.replace_batch(connection, batch([Document(1)]))
    with database.reading(place) as connection:
        assert history.recorded(connection, [sha(0), sha(1)]) == {sha(0), sha(1)}


@pytest.mark.parametrize("opened", [database.reading, database.writing])
def test_damage_deep_in_a_file(tmp_path: Path, opened: Opening) -> None:
    """An index that opens, and of which some block is not what it was, is reported like one that does not open."""
    place = make(tmp_path, 1_000)
    with database.writing(place) as connection:
        database.settle(connection, place)
    whole = place.database.read_bytes()
    found = 0
    for block in range(3 * 4096, len(whole), 3 * database.BLOCK_SIZE):
        place.database.write_bytes(whole[: block + 30_000] + b"x" * 200 + whole[block + 30_200 :])
        opens = False
        try:
            with opened(place) as connection:
                opens = True
                maintenance.read_all(connection)
        except DamagedIndex as error:
            assert "--rebuild --yes" in error.hint
            found += opens
    assert found > 3


def test_privacy_is_shared_by_threads(tmp_path: Path) -> None:
    """Files stay their owner's alone until the last thread that wants it has done; then the umask is as it was."""
    before = os.umask(0o022)
    try:
        first, second = private(), private()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        (tmp_path / "secret").touch()
        second.__exit__(None, None, None)
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_reading_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index on a file system that is read-only, its log not yet taken in, is read as any other."""
    place = make(tmp_path)
    assert place.wal.exists()
    read_only(tmp_path, monkeypatch)
    with database.reading(place) as connection:
        assert history.recorded(connection, [sha(0)]) == {sha(0)}
    with pytest.raises(OSError, match="Read-only"), database.writing(place):
        pass
