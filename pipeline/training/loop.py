"""Training loop of encoder and cross-encoder: arguments, learning-rate schedule, logging and checkpoints.

The learning rate warms up over the first steps and then falls linearly with elapsed time.
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

from pipeline.training.list_dataset import split_files

logger = logging.getLogger(__name__)

# Smallest share of the maximum learning rate, so that the last steps still change the weights.
MIN_RATE_SHARE: Final = 0.02
# Checkpoints during a training, in equal parts of the time.
CHECKPOINT_COUNT: Final = 4


class TimeSource(Protocol):
    """Source of the elapsed share of the training time."""

    @property
    def elapsed_share(self) -> float:
        """Elapsed share of the training time: 0 at the start, 1 at the end, more after it."""
        ...


@dataclass(frozen=True, slots=True)
class Clock:
    """Clock of a training run: its duration in seconds, and its start on the monotonic clock."""

    seconds: float
    start_time: float = field(default_factory=time.monotonic)

    @property
    def elapsed_share(self) -> float:
        """Elapsed share of the training time: 0 at the start, 1 at the end, more after it."""
        return (time.monotonic() - self.start_time) / self.seconds


def compute_learning_rate_factor(step: int, warmup_steps: int, elapsed_share: float) -> float:
    """Return the factor of the maximum learning rate at a step: warm-up, then a linear fall with elapsed time."""
    return min(1, (step + 1) / warmup_steps) * max(MIN_RATE_SHARE, 1 - elapsed_share)


class TrainingArgumentParser(argparse.ArgumentParser):
    """Argument parser of both training commands. `rate`: default of the maximum learning rate."""

    def __init__(self, module: str, description: str | None, rate: float) -> None:
        super().__init__(
            prog=f"python -m {module}",
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.add_argument("lists", type=Path, metavar="LISTS")
        self.add_argument("out", type=Path, metavar="OUT")
        self.add_argument("--weights", type=Path, required=True, metavar="FOLDER")
        self.add_argument("--held-out", action="append", default=[], metavar="NAME")
        self.add_argument("--minutes", type=float, default=60.0)
        self.add_argument("--rate", type=float, default=rate)
        self.add_argument("--seed", type=int, default=1)

    def select_files(self, arguments: argparse.Namespace) -> tuple[list[Path], list[Path]]:
        """Return the files to train on and the held-out files.

        Exit with a message if a held-out repository has no file, or if no file is left to train on.
        """
        try:
            training_files, held_out_files = split_files(arguments.lists, arguments.held_out)
        except KeyError as missing_name:
            self.error(
                f"{arguments.lists} has no lists of {missing_name}. "
                "Give `--held-out` the name of a list file without its extension."
            )
        if not training_files:
            self.error(
                f"{arguments.lists} has no training lists. Run `python -m pipeline.training.mine_lists` first."
            )
        return training_files, held_out_files


def train_with_checkpoints(
    steps: Iterable[tuple[int, float]], clock: TimeSource, log_every: int, save_checkpoint: Callable[[], None]
) -> None:
    """Run all steps, and log their mean loss every `log_every` steps.

    Save a checkpoint after each quarter of the time and at the end. `steps` yields the number and loss of each step.
    """
    losses: list[float] = []
    next_checkpoint = 1
    for step, loss in steps:
        losses.append(loss)
        if (step + 1) % log_every == 0:
            logger.info("step %d: loss %.3f", step + 1, np.mean(losses[-log_every:]))
        if clock.elapsed_share > next_checkpoint / CHECKPOINT_COUNT:
            next_checkpoint += 1
            save_checkpoint()
    save_checkpoint()
