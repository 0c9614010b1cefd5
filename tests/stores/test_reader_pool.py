"""A process keeps an index open between its questions, and neither they nor a writer wait for long."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from stores import database, history, locks, maintenance, writer
from stores.connections import Opened, Reading
from stores.database import Fingerprint, NotIndexed
from stores.index_location import Place
from stores.locks import IndexBusy
from tests.stores.batches import CURRENT, Document, batch, place_in, sha
from tests.stores.processes import IN_THE_ENGINE, finished, line, running

WRITES_ONCE = """
with database.writing(place) as connection:
    writer.replace_batch(connection, batch([Document(9)]))
say("written")
"""
WRITES_AGAIN_AND_AGAIN = """
for number in range(10, 20):
    started = time.monotonic()
    with database.writing(place) as connection:
        writer.replace_batch(connection, batch([Document(number)]))
    say(time.monotonic() - started)
"""
HOLDS = """
with database.writing(place) as connection:
    say("holding")
    sys.stdin.read()
"""
# The lookout is in the engine for a while when this process ends, which takes longer.
ENDS_WHILE_THE_LOOKOUT_WORKS = """
from stores.connections import Reading
reading = Reading(place)
with reading.question():
    pass
{gives_up}
began.wait()
"""
CLOSES_THE_INDEX = "reading._hold.closing.callback(work); reading._hold.ending = True"
# Its own are the last references to what it closed.
FREES_WHAT_IT_CLOSED = "reading._hold.fingerprint = type('Late', (), {'__del__': work})()"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = place_in(tmp_path / "home")
    write(place, 1)
    return place


@pytest.fixture
def reading(place: Place) -> Iterator[Reading]:
    with closing(Reading(place)) as reading:
        yield reading


def write(place: Place, *numbers: int) -> None:
    with database.writing(place) as connection:
        writer.begin_pass(connection, place, head="h" * 40, unreached=[], components=CURRENT)
        writer.replace_batch(connection, batch([Document(number) for number in numbers]))


def commits(opened: Opened) -> int:
    return len(history.all_recorded(opened.connection))


def ask(reading: Reading, wait: float = 5) -> int:
    with reading.question(wait=wait) as opened:
        return commits(opened)


def fingerprint(reading: Reading) -> Fingerprint:
    with reading.question() as opened:
        return opened.fingerprint


def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


def lookouts() -> int:
    return sum(thread.name == "index-lookout" for thread in threading.enumerate())


def test_questions_share_one_opening(reading: Reading) -> None:
    """While nobody else wants the index it stays open, and the next question has the same connection."""
    with reading.question() as first:
        assert commits(first) == 1
    with reading.question() as second:
        assert second == first


def test_several_ask_at_once(reading: Reading) -> None:
    """Each question has a connection of its own; none waits for another to end."""
    together = threading.Barrier(4, timeout=10)

    def one(_: int) -> tuple[int, int]:
        with reading.question() as opened:
            together.wait()
            return id(opened.connection), commits(opened)

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(one, range(4)))
    assert len({connection for connection, _ in found}) == 4
    assert {count for _, count in found} == {1}


def test_a_writer_gets_in_between_questions(reading: Reading, place: Place) -> None:
    """It waits for no further question; the next one sees what it wrote, and knows that the state is another."""
    before = fingerprint(reading)
    assert fingerprint(reading) == before
    started = time.monotonic()
    write(place, 2)
    assert time.monotonic() - started < 2
    assert ask(reading) == 2
    assert fingerprint(reading) != before


def test_no_question_passes_a_waiting_writer(reading: Reading, place: Place) -> None:
    """While a writer waits for a question to end, a later question waits for the writer."""
    with running(WRITES_ONCE, place.home) as writer, ThreadPoolExecutor(1) as threads:
        with reading.question() as opened:
            until(lambda: locks.wanted(place.folder))
            later = threads.submit(ask, reading, 30)
            time.sleep(0.2)
            assert commits(opened) == 1
            assert not later.done()
        assert later.result() == 2
        assert finished(writer) == (0, "written", "")


def test_nobody_starves(reading: Reading, place: Place) -> None:
    """Under a steady stream of overlapping questions every batch is written soon, and questions go on."""
    over = threading.Event()

    def stream(_: int) -> list[int]:
        seen = []
        while not over.is_set():
            with reading.question(wait=30) as opened:
                seen.append(commits(opened))
                time.sleep(0.01)
        return seen

    with ThreadPoolExecutor(3) as threads, running(WRITES_AGAIN_AND_AGAIN, place.home) as writer:
        streams = [threads.submit(stream, number) for number in range(3)]
        try:
            took = [float(line(writer)) for _ in range(10)]
        finally:
            over.set()
        assert finished(writer) == (0, "", "")
    assert max(took) < 5
    for seen in (one.result() for one in streams):
        assert seen == sorted(seen)
        assert len(set(seen)) > 3
    assert ask(reading) == 11


def test_an_index_nobody_asks_is_given_up(place: Place) -> None:
    """After a time without questions it is closed, its lookout ends, and the next question opens it again."""
    before = lookouts()
    with closing(Reading(place, idle=0.2)) as reading:
        assert ask(reading) == 1
        assert lookouts() == before + 1
        with reading.question() as opened:
            time.sleep(0.5)  # a long question is no idleness
            assert commits(opened) == 1
        until(lambda: lookouts() == before)
        with database.writing(place, wait=0):
            pass
        assert ask(reading) == 1


def test_closing_waits_for_the_question_at_work(place: Place) -> None:
    """What is closed stays good for the question that has it, and is free when that ends."""
    reading = Reading(place)
    with reading.question() as opened:
        reading.close()
        assert commits(opened) == 1
        with pytest.raises(IndexBusy), database.writing(place, wait=0):
            pass
    with database.writing(place, wait=0):
        pass


@pytest.mark.parametrize("gives_up", [CLOSES_THE_INDEX, FREES_WHAT_IT_CLOSED])
def test_a_process_may_end_while_its_index_is_given_up(place: Place, gives_up: str) -> None:
    """No thread comes back from the engine to an interpreter that is gone: the process would be aborted."""
    program = IN_THE_ENGINE + ENDS_WHILE_THE_LOOKOUT_WORKS.replace("{gives_up}", gives_up)
    with running(program, place.home) as process:
        assert finished(process) == (0, "", "")


def test_an_index_nobody_could_look_after_is_closed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a lookout no writer would ever get in."""

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    reading = Reading(place)
    with pytest.raises(RuntimeError, match="new thread"), reading.question():
        pass
    monkeypatch.undo()
    write(place, 2)
    with closing(reading), reading.question() as opened:
        assert commits(opened) == 2


def test_without_an_index(tmp_path: Path) -> None:
    """What is not there is named as by any reader, and is found once it is."""
    place = place_in(tmp_path / "home")
    with closing(Reading(place)) as reading:
        with pytest.raises(NotIndexed):
            ask(reading)
        write(place, 1, 2)
        assert ask(reading) == 2


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("by", [writer.delete_index, lambda place: shutil.rmtree(place.folder)])
def test_a_deleted_index_is_noticed(place: Place, by: Callable[[Place], None], held: bool) -> None:
    """Whoever deletes it, a question afterwards finds none, and one made anew is another state."""
    with closing(Reading(place)) as reading:
        before = fingerprint(reading)
        if not held:
            reading.close()
        by(place)
        with pytest.raises(NotIndexed):
            ask(reading)
        write(place, 5)
        with reading.question() as opened:
            assert history.all_recorded(opened.connection) == [sha(5)]
            assert opened.fingerprint != before


def test_a_compacted_index_is_noticed(reading: Reading, place: Place) -> None:
    """Compaction does not wait for questions to stop, and the next one reads the new file."""
    before = fingerprint(reading)
    maintenance.compact(place)
    assert ask(reading) == 1
    assert fingerprint(reading) != before


def test_a_busy_index_is_named(reading: Reading, place: Place) -> None:
    """Behind a writer that does not end, a question waits for as long as it was told to, and says so."""
    with running(HOLDS, place.home) as writer:
        assert line(writer) == "holding"
        started = time.monotonic()
        with pytest.raises(IndexBusy, match="waited"):
            ask(reading, wait=0.3)
        assert time.monotonic() - started < 3


def test_a_question_that_fails_spoils_no_other(reading: Reading) -> None:
    """After an error of the database the next question starts from the file."""
    with pytest.raises(duckdb.Error), reading.question() as opened:
        opened.connection.execute("SELECT nothing FROM nowhere")
    assert ask(reading) == 1
    with pytest.raises(ValueError, match="mine"), reading.question():
        raise ValueError("mine")
    assert ask(reading) == 1


def test_no_reader_can_write(reading: Reading) -> None:
    """The connection of a question refuses to change the index."""
    with pytest.raises(duckdb.Error, match="read-only"), reading.question() as opened:
        opened.connection.execute("DELETE FROM commits")
