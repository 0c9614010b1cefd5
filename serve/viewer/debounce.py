"""Many writes, few news: a map that is being written is told of when it pauses, and now and then if it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

QUIET_SECONDS: Final = 0.1
# Of a map that never pauses.
MOST_SECONDS: Final = 0.5


class Handle(Protocol):
    """A call to come."""

    def cancel(self) -> None:
        """Have it not come."""


class Clock(Protocol):
    """The part of an event loop that knows the time."""

    def time(self) -> float:
        """Seconds, from any start."""

    def call_at(self, when: float, callback: Callable[..., object], *arguments: object) -> Handle:
        """Call back at that time."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    began: float
    handle: Handle


@dataclass(frozen=True, slots=True)
class Debounce:
    """Passes each name on once it has been quiet; each name has a clock of its own."""

    clock: Clock
    settled: Callable[[str], object]
    _waiting: dict[str, _Waiting] = field(default_factory=dict)

    def touch(self, name: str) -> None:
        """Something happened to it."""
        now = self.clock.time()
        before = self._waiting.get(name)
        began = before.began if before else now
        if before:
            before.handle.cancel()
        due = min(now + QUIET_SECONDS, began + MOST_SECONDS)
        self._waiting[name] = _Waiting(began, self.clock.call_at(due, self._pass_on, name))

    def _pass_on(self, name: str) -> None:
        del self._waiting[name]
        self.settled(name)
