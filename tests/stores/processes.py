"""Scripts in other processes, for tests of locks, concurrent access and kills."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
# Beginning of every script. `location`: location of the index in the directory `home` that was passed to `run_script`.
PRELUDE: Final = """
import functools, sys, time
from pathlib import Path
from stores import database, history, index_location, locks, writer
from tests.stores.batches import CURRENT_VERSIONS, SampleCommit, make_batch, make_location, make_sha
location = make_location(Path(sys.argv[1]))
git_dir = Path("/somewhere/repo/.git")
print = functools.partial(print, flush=True)
"""

# Beginning of a script whose process takes a second to exit. `run_queries` sets `started` and queries for 0.3 s.
SLOW_EXIT_PRELUDE: Final = """
import threading
import duckdb
class SlowExit:
    def __del__(self): time.sleep(1)
slow_exit, started = SlowExit(), threading.Event()
def run_queries(*_):
    started.set()
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        duckdb.sql("SELECT sum(range) FROM range(1_000_000)").fetchall()
"""


@contextmanager
def run_script(script: str, home: Path) -> Iterator[subprocess.Popen[str]]:
    """Run the script in another process, which is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + script, str(home)],
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


def read_line(process: subprocess.Popen[str]) -> str:
    """Return the next line of the process's stdout."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def wait_for_exit(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Close the process's stdin; return its exit status, the rest of its stdout, and its stderr."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out.strip(), err.strip()


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Poll until the condition holds, or fail."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timeout"
        time.sleep(0.001)


def wait_until_suspended(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Wait until a signal has suspended the process."""
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), process.communicate()
