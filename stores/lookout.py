"""A thread that looks after an open index, and is waited for when Python ends."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

# How long a process that ends waits for an index that is being closed: long beside a tenth of a second.
LEAVING_SECONDS: Final = 10.0


class Lookout(threading.Thread):
    """Looks until `ended` is set: by whoever started it, or by a Python that ends."""

    def __init__(self, look: Callable[[], None], ended: threading.Event) -> None:
        super().__init__(target=look, name="index-lookout", daemon=True)
        self._ended = ended
        _lookouts.add(self)

    def stop(self) -> None:
        """Come back when it does nothing any more, or is stuck."""
        self._ended.set()
        if self.is_alive():
            self.join(LEAVING_SECONDS)


_lookouts: Final[WeakSet[Lookout]] = WeakSet()


@atexit.register
def _stop_all() -> None:
    """A thread that is still within the engine, or frees what is the engine's, while Python ends aborts the process."""
    for lookout in tuple(_lookouts):
        lookout.stop()
