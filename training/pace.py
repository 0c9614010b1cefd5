"""How long to learn, and how fast: a rate that rises in the first steps and falls to nothing by the clock."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final, Protocol

LEAST_RATE: Final = 0.02


class Timed(Protocol):
    """What tells how much of the time is over."""

    @property
    def done(self) -> float:
        """From 0 to 1."""
        ...


@dataclass(frozen=True, slots=True)
class Clock:
    """How much of the time is over."""

    seconds: float
    begun: float = field(default_factory=time.monotonic)

    @property
    def done(self) -> float:
        """From 0 to 1."""
        return (time.monotonic() - self.begun) / self.seconds


def paced(step: int, warming: int, done: float) -> float:
    """What the highest rate is multiplied by at a step."""
    return min(1, (step + 1) / warming) * max(LEAST_RATE, 1 - done)
