"""What is said once: a failing watch fails at every event, and nobody reads the same line twice."""

from __future__ import annotations

import logging
import threading

logger = logging.getLogger(__name__)


class Once:
    """Says things to the log, and keeps some of them for the next who asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said: set[str] = set()
        self._untold: list[str] = []

    def say(self, what: str, *, tell: bool = False) -> None:
        """Say something if it was not said yet; `tell` has it told to who asks, too."""
        with self._lock:
            if what in self._said:
                return
            self._said.add(what)
            self._untold += [what] if tell else []
        logger.warning("event=watching %s", what)

    def tell(self, what: str) -> None:
        """Say something that whoever asks next should know."""
        self.say(what, tell=True)

    def told(self) -> str:
        """What was kept for who asks now."""
        with self._lock:
            told, self._untold = " ".join(self._untold), []
        return told
