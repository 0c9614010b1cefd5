"""Files that are made meanwhile are their owner's alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final


class _Privacy:
    """A process's umask, which all its threads share: how many want it strict, and what it was before the first."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._inside = 0
        self._before = 0

    def __enter__(self) -> None:
        with self._turn:
            if not self._inside:
                self._before = os.umask(0o077)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._turn:
            self._inside -= 1
            if not self._inside:
                os.umask(self._before)


_privacy: Final = _Privacy()


@contextmanager
def private() -> Iterator[None]:
    """Files made meanwhile, the write-ahead log among them, are readable by their owner only."""
    with _privacy:
        yield
