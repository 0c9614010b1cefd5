"""One run works, one waits, the rest leave: among real processes."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import pytest

from stores import index_location, locks
from stores.locks import RunAtWork
from tests.readonly_fs import read_only
from tests.stores.batches import place_in
from tests.stores.processes import finished, line, running

# Takes its turn, says what became of it, and works until it is told to stop.
TAKES_TURN = """
with locks.next_run(place, git_dir, lambda at_work: say("waits", at_work.message)) as run:
    if run: run.begin(); say("works"); sys.stdin.read()
    else: say("leaves")
"""


def test_second_run_finds_the_first(tmp_path: Path) -> None:
    """A second indexing run is told at once which process is at work; queries are not in its way."""
    program = "with locks.sole_run(place):\n    say('in'); sys.stdin.read()"
    with running(program, tmp_path) as first:
        assert line(first) == "in"
        with pytest.raises(RunAtWork, match=rf"process {first.pid}\)"), locks.sole_run(place_in(tmp_path)):
            pass
        first.kill()
        first.wait()
        with locks.sole_run(place_in(tmp_path)):
            pass


def test_one_works_one_waits_the_rest_leave(tmp_path: Path) -> None:
    """Of many runs at the same time, each hears at once which of the three it is."""
    with ExitStack() as stack:
        works, waits, *leave = (_started(stack, tmp_path) for _ in range(4))
        assert works.said == "works"
        assert waits.said.endswith(f"is at work on this repository (process {works.process.pid}).")
        assert [(one.said, finished(one.process)) for one in leave] == [("leaves", (0, "", ""))] * 2
        assert works.process.stdin is not None
        works.process.stdin.close()
        assert line(waits.process) == "works"


def test_one_waits_in_each_work_tree(tmp_path: Path) -> None:
    """Who waits in one work tree does not see what is new in another: there somebody waits too."""
    with ExitStack() as stack:
        works, waits = (_started(stack, tmp_path) for _ in range(2))
        linked = 'git_dir = git_dir / "worktrees" / "linked"\n'
        waits_there, leaves_there = (_started(stack, tmp_path, linked) for _ in range(2))
        assert waits_there.said == waits.said and leaves_there.said == "leaves"
        assert str(works.process.pid) in waits.said


def test_the_one_that_waits_goes_on_after_a_kill(tmp_path: Path) -> None:
    """`kill -9` of the run at work is its end as any other, and the place of the next one is free again."""
    with ExitStack() as stack:
        works, waits = (_started(stack, tmp_path) for _ in range(2))
        works.process.kill()
        assert line(waits.process) == "works"
        assert _started(stack, tmp_path).said.startswith("waits")


def test_a_killed_waiter_leaves_its_place(tmp_path: Path) -> None:
    """The waiting place dies with who waits there."""
    with ExitStack() as stack:
        _, waits = (_started(stack, tmp_path) for _ in range(2))
        waits.process.kill()
        waits.process.wait()
        assert _started(stack, tmp_path).said.startswith("waits")


def test_a_glance_refuses_nobody(tmp_path: Path) -> None:
    """A run that only looks whether there is something to do is not taken for one at work."""
    glance = "with locks.next_run(place, git_dir, say): say('looks'); time.sleep(0.2)"
    with running(glance, tmp_path) as looking:
        assert line(looking) == "looks"
        with locks.sole_run(place_in(tmp_path)):
            pass


def test_a_deleted_lock_file_keeps_nobody_out(tmp_path: Path) -> None:
    """Who waits on a file that was deleted meanwhile takes the lock of the one in its place."""
    place = place_in(tmp_path)
    with ExitStack() as stack:
        works, waits = (_started(stack, tmp_path) for _ in range(2))
        (place.folder / locks.RUN).unlink()
        works.process.kill()
        assert line(waits.process) == "works"
        with pytest.raises(RunAtWork, match=str(waits.process.pid)), locks.sole_run(place):
            pass


@dataclass(frozen=True, slots=True)
class Started:
    """A run, and the first thing it said: what became of it."""

    process: Popen[str]
    said: str


def _started(stack: ExitStack, home: Path, before: str = "") -> Started:
    process = stack.enter_context(running(before + TAKES_TURN, home))
    return Started(process, line(process))


def test_a_run_that_only_looks_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a home that may only be read a run may find nothing to do; one that begins is refused, by name."""
    place, git_dir = place_in(tmp_path), tmp_path / ".git"
    with locks.sole_run(place):
        pass
    place.folder.chmod(0o755)
    read_only(tmp_path, monkeypatch)
    with locks.next_run(place, git_dir, lambda _: None) as run:
        assert run is not None
        with pytest.raises(OSError, match=locks.RUN):
            run.begin()
    for refused in (
        locks.sole_run(place),
        locks.next_run(place_in(tmp_path, "new-01"), git_dir, lambda _: None),
    ):
        with pytest.raises(OSError, match="Read-only"), refused:
            pass


def test_a_foreign_folder_has_no_run(tmp_path: Path) -> None:
    """Behind a link under an index's name no lock file is made, whoever would run."""
    place, foreign = place_in(tmp_path / "home"), tmp_path / "foreign"
    foreign.mkdir()
    place.home.mkdir()
    place.folder.symlink_to(foreign)
    for refused in (locks.sole_run(place), locks.next_run(place, tmp_path / ".git", lambda _: None)):
        with pytest.raises(index_location.ForeignFolder), refused:
            pass
    assert list(foreign.iterdir()) == []
