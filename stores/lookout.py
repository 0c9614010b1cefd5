"""A thread that looks after an open index, and is waited for when Python ends."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

# How long a process that ends waits for one: long beside the second that a full log takes to be taken in.
LEAVING_SECONDS: Final = 10.0


class Lookout(threading.Thread):
    """Looks until `ended` is set: by whoever started it, or by a Python that ends."""

    def __init__(self, look: Callable[[], None], ended: threading.Event) -> None:
        super().__init__(target=look, name="index-lookout", daemon=True)
        self.ended = ended
        # Python before 3.13 takes a thread for ended whose `join` was interrupted.
        self._done = threading.Event()
        _lookouts.add(self)

    def run(self) -> None:
        """Look, let go of what was looked after, and say so."""
        try:
            super().run()
        finally:
            self._done.set()

    def stop(self) -> None:
        """Come back when it does nothing any more, was never started, or is stuck."""
        self.ended.set()
        if self.ident is not None:
            self._done.wait(LEAVING_SECONDS)


_lookouts: Final[WeakSet[Lookout]] = WeakSet()


@atexit.register
def _stop_all() -> None:
    """A thread that is still within the engine, or frees what is the engine's, while Python ends aborts the process."""
    lookouts = tuple(_lookouts)
    for lookout in lookouts:
        lookout.ended.set()
    for lookout in lookouts:
        lookout.stop()
