"""What the daemon has done, what runs, and when it is time to go."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

# A session that pauses to think or to test comes back within minutes; what it costs to load again is 0.3 s.
UNLOAD_SECONDS: Final = 600.0
# Starting costs half a second, staying 60 MB.
LEAVE_SECONDS: Final = 3_600.0


@dataclass(slots=True)
class Life:
    """The daemon's clock and its counts; for use by several threads.

    `unload_after` and `leave_after` are seconds without a question; 0 means never.
    """

    unload_after: float = UNLOAD_SECONDS
    leave_after: float = LEAVE_SECONDS
    began: float = field(default_factory=time.monotonic)
    answered: int = 0
    running: int = 0
    _asked: float = field(default_factory=time.monotonic)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def question(self) -> Iterator[None]:
        """While a question is answered."""
        with self._turn:
            self.running += 1
        try:
            yield
        finally:
            with self._turn:
                self.running -= 1
                self.answered += 1
                self._asked = time.monotonic()

    @property
    def uptime_seconds(self) -> float:
        """Since the daemon began."""
        return time.monotonic() - self.began

    @property
    def idle_seconds(self) -> float:
        """Since the last question was answered; 0 while one is."""
        return 0.0 if self.running else time.monotonic() - self._asked

    @property
    def is_over(self) -> bool:
        """Whether nobody has needed the daemon for long enough."""
        return bool(self.leave_after) and self.idle_seconds >= self.leave_after

    @property
    def may_unload(self) -> bool:
        """Whether the models have been idle for long enough."""
        return bool(self.unload_after) and self.idle_seconds >= self.unload_after


def resident_bytes() -> int | None:
    """Memory of this process; None where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * 4096
