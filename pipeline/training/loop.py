"""How long to learn, and how fast: a rate that rises in the first steps and falls to nothing by the clock.

What a training run of either transformer is given, and how it goes on: told of, and kept as it goes.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from pipeline.training.pair_dataset import files

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


CHECKPOINTS: Final = 4

logger = logging.getLogger(__name__)


class Parser(argparse.ArgumentParser):
    """The arguments of both: `lists`, `out`, `weights`, `held_out`, `minutes`, `rate` and `seed`."""

    def __init__(self, module: str, explained: str | None, rate: float) -> None:
        super().__init__(
            prog=f"python -m {module}",
            description=explained,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.add_argument("lists", type=Path)
        self.add_argument("out", type=Path)
        self.add_argument("--weights", type=Path, required=True, metavar="FOLDER")
        self.add_argument("--held-out", action="append", default=[], metavar="NAME")
        self.add_argument("--minutes", type=float, default=60.0)
        self.add_argument("--rate", type=float, default=rate)
        self.add_argument("--seed", type=int, default=1)

    def files(self, given: argparse.Namespace) -> tuple[list[Path], list[Path]]:
        """The lists to learn from and those held out, or the end with what to do about it."""
        try:
            taught, held = files(given.lists, given.held_out)
        except KeyError as missing:
            self.error(f"--held-out: no lists of {missing} in {given.lists}")
        if not taught:
            self.error(
                f"{given.lists} has no lists to learn from; `python -m pipeline.training.mine_pairs` makes them."
            )
        return taught, held


def followed(
    steps: Iterable[tuple[int, float]], clock: Timed, told_every: int, keep: Callable[[], None]
) -> None:
    """Take every step, tell the mean loss of so many, and keep what is learnt: four times, and at the end."""
    values: list[float] = []
    kept = 1
    for step, value in steps:
        values.append(value)
        if (step + 1) % told_every == 0:
            logger.info("step %d: loss %.3f", step + 1, np.mean(values[-told_every:]))
        if clock.done > kept / CHECKPOINTS:
            kept += 1
            keep()
    keep()
