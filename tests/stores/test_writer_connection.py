"""A run keeps the index from batch to batch, and nobody waits for it longer than for a batch."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import duckdb
import pytest

from stores import connections, database, history, maintenance, writer
from stores.connections import LARGEST_HELD_WAL, Held
from stores.database import LARGEST_WAL, IndexGone
from stores.errors import Refused
from stores.index_location import DATABASE, Place
from tests.stores.batches import CURRENT, Document, batch, place_in
from tests.stores.processes import IN_THE_ENGINE, finished, running

# The lookout is in the engine when the run ends, until it was interrupted as often as it is to be, and a while longer.
INTERRUPTED = """
import signal
from stores.connections import Held
def interrupt(*_):
    left.pop()
    if not left:
        signal.setitimer(signal.ITIMER_REAL, 0)
    raise KeyboardInterrupt
def look(*_):
    while left:
        work()
    work()
    return False
left = [None] * {times}
signal.signal(signal.SIGALRM, interrupt)
index = Held(place).__enter__()
with index.batch():
    pass
from stores import locks
locks.wanted = look
began.wait()
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
try:
    index.__exit__(None, None, None)
except KeyboardInterrupt:
    say("interrupted")
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = place_in(tmp_path / "home")
    with database.writing(place) as connection:
        writer.begin_pass(connection, place, head="h" * 40, unreached=[], components=CURRENT)
    return place


def commits(place: Place, wait: float = 5) -> int:
    with database.reading(place, wait=wait) as connection:
        return len(history.all_recorded(connection))


def write(index: Held, *numbers: int) -> None:
    with index.batch() as connection:
        writer.replace_batch(connection, batch([Document(number) for number in numbers]))


def test_batches_share_one_opening(place: Place) -> None:
    """While nobody waits the connection stays the same; when the run ends it is given up, the log short."""
    with Held(place) as index:
        with index.batch() as first:
            pass
        write(index, 1)
        with index.batch() as second:
            assert second is first
    assert commits(place, wait=0.5) == 1
    assert database.wal_size(place) <= LARGEST_WAL


def test_what_a_checkpoint_took_in_is_let_go(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each the index is opened again, with nothing to replay: an open one remembers all that was written."""
    monkeypatch.setattr(connections, "LARGEST_HELD_WAL", 0)
    with Held(place) as index:
        with index.batch() as first:
            writer.replace_batch(first, batch([Document(1)]))
        assert database.wal_size(place) == 0
        with index.batch() as second:
            assert second is not first
            assert len(history.all_recorded(second)) == 1


def test_a_reader_gets_in_between_batches(place: Place) -> None:
    """It waits for no next batch, sees what is committed, and the run goes on after it."""
    with Held(place) as index:
        write(index, 1)
        started = time.monotonic()
        assert commits(place) == 1
        assert time.monotonic() - started < 2
        write(index, 2)
        assert commits(place) == 2


def test_a_batch_that_fails_leaves_nothing_and_lets_go(place: Place) -> None:
    """Its error reaches the caller, the batch before stays, and the next one opens the index again."""

    def fail(index: Held) -> None:
        with index.batch() as connection:
            connection.execute("BEGIN")
            connection.execute("DELETE FROM commits")
            raise ValueError("half a batch")

    with Held(place) as index:
        write(index, 1)
        with pytest.raises(ValueError, match="half a batch"):
            fail(index)
        assert commits(place, wait=0) == 1  # at once: nobody had to look out for it
        write(index, 2)
    assert commits(place) == 2


def test_what_is_let_go_is_free_at_once(place: Place) -> None:
    """For whoever writes by another way, as compaction does."""
    with Held(place) as index:
        write(index, 1)
        index.let_go()
        with database.writing(place, wait=0) as connection:
            assert len(history.all_recorded(connection)) == 1


@pytest.mark.parametrize("largest", [LARGEST_HELD_WAL, 0])
def test_a_deleted_index_is_named(place: Place, monkeypatch: pytest.MonkeyPatch, largest: int) -> None:
    """What is written into a folder that is gone would be lost: the next batch says so, also where it opens first."""
    monkeypatch.setattr(connections, "LARGEST_HELD_WAL", largest)
    with Held(place) as index:
        write(index, 1)
        shutil.rmtree(place.folder)
        with pytest.raises(IndexGone, match="was deleted"):
            for number in range(2, 100):
                write(index, number)


@pytest.mark.parametrize("largest", [LARGEST_HELD_WAL, 0])
def test_a_deleted_file_is_no_index_any_more(
    place: Place, monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    """Where only the database's files went, no batch goes to nobody, and nothing empty takes their place."""
    monkeypatch.setattr(connections, "LARGEST_HELD_WAL", largest)
    with Held(place) as index:
        write(index, 1)
        delete(place)
        with pytest.raises(IndexGone, match="was deleted"):
            for number in range(2, 100):
                write(index, number)
    assert not list(place.folder.glob("index.duckdb*"))


def test_another_file_in_its_place_is_not_the_index(place: Place) -> None:
    """What a run has open is looked for by what it is, and not by its name."""
    with Held(place) as index:
        write(index, 1)
        delete(place)
        place.database.write_bytes(b"another's")
        with pytest.raises(IndexGone, match="was deleted"):
            for number in range(2, 100):
                write(index, number)
    assert place.database.read_bytes() == b"another's"


def test_an_index_that_went_at_the_end_is_not_made_anew(place: Place) -> None:
    """What a run does last, to leave the file compact, finds out, too."""
    with Held(place) as index:
        write(index, 1)
    for files in (place.database, place.folder):
        delete(place)
        shutil.rmtree(files, ignore_errors=True)
        for last in (maintenance.tidy, maintenance.compact):
            with pytest.raises(IndexGone, match="Run `lineage index` again"):
                last(place)
        assert not place.database.exists()
    assert not place.folder.exists()


def delete(place: Place) -> None:
    """`rm index.duckdb*`."""
    for file in place.folder.glob(f"{DATABASE}*"):
        file.unlink()


def test_what_fails_beside_the_batches_is_told_with_the_next(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lookout's error is no message of a thread that nobody reads."""

    def fail(*_: object) -> None:
        raise duckdb.IOException("no space left on device")

    with Held(place) as index:
        write(index, 1)
        monkeypatch.setattr(database, "settle", fail)
        with pytest.raises(Refused, match="Make room"), database.reading(place):
            write(index, 2)


@pytest.mark.parametrize("times", [1, 2])
def test_a_run_may_be_interrupted_while_it_gives_up_the_index(place: Place, times: int) -> None:
    """Where it waits for its lookout, and again where it closes the index: the process ends like any other."""
    program = IN_THE_ENGINE + INTERRUPTED.replace("{times}", str(times))
    with running(program, place.home) as process:
        assert finished(process) == (0, "interrupted", "")
    with database.writing(place, wait=0):
        pass
