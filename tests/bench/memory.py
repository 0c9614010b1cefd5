"""Memory of a process and all its descendants.

A program runs in a new session, and all processes of the session are summed: workers keep their
session even when their parent dies. Shared pages count once (proportional set size) on Linux;
elsewhere resident sizes are summed, which is too high.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

# Peaks last tenths of a second; a reading takes a few milliseconds.
INTERVAL_SECONDS: Final = 0.1

_PROC: Final = Path("/proc")


@dataclass(slots=True)
class PeakMemory:
    """Peak memory of a session, sampled by a thread between `start` and `stop`."""

    session: int
    bytes: int = 0
    _done: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _sample(self) -> None:
        while not self._done.wait(INTERVAL_SECONDS):
            self.bytes = max(self.bytes, measure_session(self.session))


def measure_session(session: int) -> int:
    """Return the memory of all processes of a session, in bytes."""
    if _PROC.is_dir():
        return sum(map(_measure_process, _iter_session_processes(session)))
    listing = subprocess.run(["ps", "-axo", "pgid=,rss="], capture_output=True, text=True, check=True)
    rows = (line.split() for line in listing.stdout.splitlines())
    return sum(int(size) * 1024 for group, size in rows if int(group) == session)


def _iter_session_processes(session: int) -> Iterator[Path]:
    for folder in _PROC.glob("[0-9]*"):
        try:
            # The process name may contain brackets and spaces.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            yield folder


def _measure_process(folder: Path) -> int:
    """Return the proportional set size; 0 for a process that has exited."""
    try:
        lines = (folder / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
