"""Other processes that hold, read, write and die, for tests of what happens between processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
# What every program here starts with; `place` is the index in the folder given.
PRELUDE: Final = """
import sys, time
from pathlib import Path
from stores import database, history, locks, index_location, writer
from tests.stores.batches import CURRENT, Document, batch, place_in, sha
place = place_in(Path(sys.argv[1]))
git_dir = Path("/somewhere/repo/.git")
def say(*words): print(*words, flush=True)
"""

# A process that takes a second to end, and a thread of it that stays within the engine for a while; it says so by
# `began`.
IN_THE_ENGINE: Final = """
import threading
import duckdb
class Slow:
    def __del__(self): time.sleep(1)
slow, began = Slow(), threading.Event()
def work(*_):
    began.set()
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        duckdb.sql("SELECT sum(range) FROM range(1_000_000)").fetchall()
"""


@contextmanager
def running(program: str, home: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that runs the program; killed at the end if it still does."""
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + program, str(home)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    """The next line it says."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit status, the rest of what it said, and its complaints."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out.strip(), err.strip()
