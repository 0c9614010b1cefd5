"""What `lineage init` costs the one who commits: `git commit` with its hooks and without.

python -m tests.bench.hooks CLONE...

Commits take turns, with the hooks and with none; each waits until the run of the one before has ended. Then some
follow each other at once, as a script makes them, beside the run that the first of them started.
"""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pipeline.git.repository import open_repository
from serve.cli.entry import HOOKS_WORDS
from serve.repositories import place_of
from serve.setup.init import Wishes, initialize
from stores import locks
from stores.locks import closing, opened
from stores.locks import took as taken
from tests.bench.histories import History, cut
from tests.bench.programs import lineage, surroundings
from tests.bench.report import Asked, Row, main, median
from tests.repos import Repo
from tests.serve.setup.hook_helpers import indexed_head, real, running

SECONDS: Final = 0.05
# A commit takes a few milliseconds, and others use the machine: more rounds than elsewhere, for a steady median.
ROUNDS: Final = 4
IN_A_ROW: Final = 20
# A start of Python with a little room.
LEAVING_SECONDS: Final = 0.15
# A hook has returned before its run is seen among the processes; for longer than this nobody is on the way.
STARTING_SECONDS: Final = 60
ENDING_SECONDS: Final = 600

NO_HOOKS: Final = ("-c", f"core.hooksPath={os.devnull}")
COMMIT: Final = ("commit", "--quiet", "--allow-empty", "--message=One more")


def measure(clone: Path, folder: Path, asked: Asked) -> Sequence[Row]:
    """Rows of one history; its index is built first, untimed."""
    history, home = cut(clone, folder / "clone", asked.commits), folder / "home"
    lineage(home, "index", history.path, "--no-progress")
    initialize(history.path, Wishes())
    program = real(folder / "bin").parent
    return [
        one_by_one(history, home, program, asked.runs * ROUNDS),
        in_a_row(history, home, program),
        leaving(history, home, asked.runs),
    ]


def one_by_one(history: History, home: Path, program: Path, rounds: int) -> Row:
    """The difference that the hooks make to a commit while nothing else is at work."""
    without, with_hooks = [], []
    for _ in range(rounds):
        without.append(_commit(history, home, program, *NO_HOOKS))
        with_hooks.append(_commit(history, home, program))
        _settled(history, home, program)
    detail = f"{1000 * median(with_hooks):.1f} ms for {1000 * median(without):.1f} ms, {rounds} of each"
    return Row(
        history.name,
        "git commit, seconds more with hooks",
        median(with_hooks) - median(without),
        SECONDS,
        detail,
    )


def in_a_row(history: History, home: Path, program: Path) -> Row:
    """The same for commits that follow each other at once, each of which starts a run."""
    without = median([_commit(history, home, program, *NO_HOOKS) for _ in range(IN_A_ROW)])
    with_hooks = median([_commit(history, home, program) for _ in range(IN_A_ROW)])
    _settled(history, home, program)
    detail = f"{1000 * with_hooks:.1f} ms for {1000 * without:.1f} ms, {IN_A_ROW} in a row"
    return Row(history.name, "the same, commits in a row", with_hooks - without, SECONDS, detail)


def leaving(history: History, home: Path, rounds: int) -> Row:
    """Processor time of a run that finds another waiting."""
    repository = open_repository(history.path)
    here = locks.waiting_place(place_of(home, repository), repository.git_dir)
    with closing(opened(here)) as waiting:
        assert taken(waiting, fcntl.LOCK_EX)
        took = [_leave(history, home) for _ in range(rounds)]
    return Row(
        history.name,
        "a run that leaves, processor seconds",
        median(took),
        LEAVING_SECONDS,
        f"{min(took):.2f}-{max(took):.2f} s",
    )


def _leave(history: History, home: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = (sys.executable, "-P", "-m", "serve.cli.entry", *HOOKS_WORDS)
    environment = surroundings(home)
    subprocess.run(command, cwd=history.path, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _commit(history: History, home: Path, program: Path, *options: str) -> float:
    environment = surroundings(home)
    environment["PATH"] = os.pathsep.join([str(program), environment["PATH"]])
    started = time.perf_counter()
    subprocess.run(["git", *options, *COMMIT], cwd=history.path, env=environment, check=True)
    return time.perf_counter() - started


def _settled(history: History, home: Path, program: Path) -> None:
    """Wait until HEAD is indexed and nobody is at work; runs have the lowest priority, and may take their time."""
    repo, started = Repo(history.path), time.monotonic()
    quiet_since = started
    while (at_work := bool(running(program))) or not indexed_head(repo, home):
        now = time.monotonic()
        quiet_since = now if at_work else quiet_since
        assert now - quiet_since < STARTING_SECONDS, "HEAD was not indexed"
        assert now - started < ENDING_SECONDS, "a run did not end"
        time.sleep(SECONDS)


if __name__ == "__main__":
    main(measure, __doc__ or "")
