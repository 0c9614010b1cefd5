"""Many readers or one writer, among real processes: nobody starves and nobody waits for ever."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from stores import database, history, index_location, locks
from stores.locks import Deadline, IndexBusy
from tests.readonly_fs import read_only
from tests.stores.batches import place_in
from tests.stores.processes import finished, line, running

HOLD = """
index_location.claim(place)
with locks.entered(place.folder, exclusive={exclusive}, deadline=locks.Deadline.after(10)):
    say("in"); sys.stdin.read()
"""
# Commits batches until told to stop, and says how many.
WRITER = """
import itertools, os
until, batches = time.monotonic() + {seconds}, 0
for number in itertools.count():
    with database.writing(place) as connection:
        if not number:
            writer.begin_pass(connection, place, head="h", unreached=[], components=CURRENT)
        writer.replace_batch(connection, batch([Document(number * 20 + n) for n in range(20)]))
    if not number: say("ready")
    if time.monotonic() > until: break
say(number + 1)
"""
# Asks again and again, every {pause} seconds, and says how often it was answered and the longest wait.
READER = """
until, answered, longest, before = time.monotonic() + {seconds}, 0, 0.0, -1
while time.monotonic() < until:
    asked = time.monotonic()
    with database.reading(place) as connection:
        commits = history.status(connection).commits
        assert commits % 20 == 0 and commits >= before, commits
        before = commits
    longest, answered = max(longest, time.monotonic() - asked), answered + 1
    time.sleep({pause})
say(answered, longest)
"""

# Writes five batches behind the first, however long that takes; a writer that starves is IndexBusy in the end.
FIVE_BATCHES = """
for number in range(1, 6):
    with database.writing(place, wait=50) as connection:
        writer.replace_batch(connection, batch([Document(number * 20 + n) for n in range(20)]))
"""
# Asks without a pause until its stdin is closed, and says how often it was answered.
ENDLESS_READER = """
import threading
told, answered = threading.Event(), 0
threading.Thread(target=lambda: (sys.stdin.read(), told.set()), daemon=True).start()
while not told.is_set():
    with database.reading(place, wait=50) as connection:
        assert history.status(connection).commits % 20 == 0
    if not answered: say("asks")
    answered += 1
say(answered)
"""


@pytest.mark.parametrize(
    ("first", "second", "enters"), [(0, 0, True), (0, 1, False), (1, 0, False), (1, 1, False)]
)
def test_who_enters_beside_whom(tmp_path: Path, first: int, second: int, enters: bool) -> None:
    """Readers enter beside readers; a writer is alone; waiting ends with advice."""
    folder = place_in(tmp_path).folder
    with running(HOLD.format(exclusive=bool(first)), tmp_path) as holder:
        assert line(holder) == "in"
        with ExitStack() as stack:
            if not enters:
                stack.enter_context(pytest.raises(IndexBusy, match="Wait for the other"))
            with locks.entered(folder, exclusive=bool(second), deadline=Deadline.after(0.1)):
                pass


def test_killed_holder_holds_nothing(tmp_path: Path) -> None:
    """A lock dies with its process."""
    with running(HOLD.format(exclusive=True), tmp_path) as holder:
        assert line(holder) == "in"
        holder.kill()
        with locks.entered(place_in(tmp_path).folder, exclusive=True, deadline=Deadline.after(5)):
            pass


def test_holder_sees_who_waits(tmp_path: Path) -> None:
    """Whoever holds the index for long can tell that somebody waits for it."""
    place = place_in(tmp_path)
    index_location.claim(place)
    with locks.entered(place.folder, exclusive=True, deadline=Deadline.after(1)):
        assert not locks.wanted(place.folder)
        with running(HOLD.format(exclusive=False), tmp_path):
            until = time.monotonic() + 10
            while not locks.wanted(place.folder):
                assert time.monotonic() < until
                time.sleep(0.01)


def test_deleted_lock_file_keeps_nobody_in(tmp_path: Path) -> None:
    """A lock on a file that was deleted and made again counts for nothing."""
    place = place_in(tmp_path)
    index_location.claim(place)
    with locks.entered(place.folder, exclusive=True, deadline=Deadline.after(1)):
        (place.folder / locks.LOCK).unlink()
        with locks.entered(place.folder, exclusive=True, deadline=Deadline.after(1)):
            assert (place.folder / locks.LOCK).exists()


def test_queries_during_a_constant_writer(tmp_path: Path) -> None:
    """Two queries a second are all answered soon while batches are written without a pause."""
    with running(WRITER.format(seconds=3), tmp_path) as writer:
        assert line(writer) == "ready"
        with running(READER.format(seconds=2.5, pause=0.5), tmp_path) as reader:
            status, said, complaint = finished(reader)
        assert (status, complaint) == (0, "")
        answered, longest = said.split()
        assert int(answered) >= 3
        assert float(longest) < 2
        assert finished(writer)[0] == 0


def test_writer_under_a_stream_of_readers(tmp_path: Path) -> None:
    """A writer makes progress while several readers ask without a pause, and none of them meets an error."""
    with running(WRITER.format(seconds=0), tmp_path) as first:
        assert finished(first)[0] == 0
    with ExitStack() as stack:
        readers = [stack.enter_context(running(ENDLESS_READER, tmp_path)) for _ in range(3)]
        # Each has begun, and goes on until it is told: so there is no moment without a reader.
        assert [line(reader) for reader in readers] == ["asks"] * 3
        status, _, complaint = finished(stack.enter_context(running(FIVE_BATCHES, tmp_path)))
        assert (status, complaint) == (0, "")
        for reader in readers:
            status, answered, complaint = finished(reader)  # which closes its stdin
            assert (status, complaint) == (0, "") and int(answered) > 0
    with database.reading(place_in(tmp_path)) as connection:
        seen = history.status(connection)
    assert seen is not None and seen.commits == 6 * 20


def test_who_only_reads_needs_no_leave_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lock files that may only be read are locked all the same by readers, and refused to a writer, by name."""
    place = place_in(tmp_path)
    index_location.claim(place)
    with locks.entered(place.folder, exclusive=True, deadline=Deadline.after(1)):
        pass
    read_only(tmp_path, monkeypatch)
    with locks.entered(place.folder, exclusive=False, deadline=Deadline.after(1)):
        inside = os.open(place.folder / locks.LOCK, os.O_RDONLY)
        with locks.closing(inside):
            assert not locks.took(inside, fcntl.LOCK_EX)
        with (
            pytest.raises(OSError, match=locks.DOOR),
            locks.entered(place.folder, exclusive=True, deadline=Deadline.after(1)),
        ):
            pass
    monkeypatch.undo()
    (place.folder / locks.LOCK).unlink()
    read_only(tmp_path, monkeypatch)
    with (
        pytest.raises(OSError, match="Read-only"),
        locks.entered(place.folder, exclusive=False, deadline=Deadline.after(1)),
    ):
        pass


def test_last_batch_is_seen(tmp_path: Path) -> None:
    """A reader sees what was committed last, checkpointed or not."""
    with running(WRITER.format(seconds=0.5), tmp_path) as writer:
        status, said, _ = finished(writer)
    assert status == 0
    with database.reading(place_in(tmp_path)) as connection:
        seen = history.status(connection)
    assert seen is not None and seen.commits == 20 * int(said.split()[-1])
