"""What changed, for everybody to hear at their own pace.

Nobody has a queue: each map that changed is kept once, with the number of its last change, and whoever listens
remembers one number. So a browser that is slow, or slept, is told of each changed map once, however often it changed.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from mindmap.moments import now

# Maps that changed since the viewer began; whoever missed more than these has to look at everything.
MOST_KEPT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Change:
    """The last change of a map."""

    number: int
    mindmap_id: str
    timestamp: str


class News:
    """Changes in their order; for one event loop. `epoch` tells this run's numbers from another's."""

    def __init__(self) -> None:
        self.epoch = secrets.token_hex(4)
        self.number = 0
        self.is_over = False
        self._forgotten = 0
        self._changes: dict[str, Change] = {}
        self._next: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(self, mindmap_id: str) -> None:
        """A map changed."""
        self.number += 1
        self._changes.pop(mindmap_id, None)
        self._changes[mindmap_id] = Change(self.number, mindmap_id, now())
        if len(self._changes) > MOST_KEPT:
            self._forgotten = self._changes.pop(next(iter(self._changes))).number
        self._wake()

    def end(self) -> None:
        """There will be no more."""
        self.is_over = True
        self._wake()

    def since(self, number: int) -> list[Change] | None:
        """What changed after this number, oldest first; None where that is not known any more."""
        if number < self._forgotten:
            return None
        newer = takewhile(lambda change: change.number > number, reversed(self._changes.values()))
        return list(newer)[::-1]

    def heard(self, last_event_id: str) -> int:
        """Up to which number somebody who comes back has heard; now, for anybody else."""
        epoch, _, number = last_event_id.partition("-")
        if epoch != self.epoch or not number.isdecimal() or len(number) > len(str(self.number)):
            return self.number
        return min(int(number), self.number)

    def event_id(self, number: int) -> str:
        """What a browser says when it comes back."""
        return f"{self.epoch}-{number}"

    async def more(self, seconds: float, gone: asyncio.Future[None]) -> None:
        """Wait for the next change, for this long, or until the listener has gone."""
        await asyncio.wait({self._next, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    def _wake(self) -> None:
        waited, self._next = self._next, asyncio.get_running_loop().create_future()
        waited.set_result(None)
