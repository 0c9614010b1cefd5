"""Contrastive training of the static word table, with its evaluation on held-out repositories.

python -m pipeline.training.train_static BAGS OUT [--held-out NAME]... [--passes N] [--seed N] [--dimension N]
    [--initial-vectors FILE] [--rate R]

BAGS is the directory written by `pipeline.training.word_bags`; `table.npz` in the directory OUT gets the table in
full precision. The most frequent words have a row each; all others share buckets by hash. The gradients are computed
without a framework, because they need few formulas, and a batch changes few rows.
"""

from __future__ import annotations

import argparse
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pipeline.encoders.static import Lexicon
from pipeline.training.static_dataset import (
    BLOCK_SIZE,
    NO_BAG,
    Bags,
    Ints,
    StaticTrainingSet,
    select_vocabulary,
)
from pipeline.training.word_bags import BagKind
from stores.compatibility import EMBEDDING_DIMENSION
from stores.errors import LineageError
from stores.vectors import fit_whitening

Floats: TypeAlias = npt.NDArray[np.float32]

logger = logging.getLogger(__name__)

# Number of hash buckets for words without their own row; a power of 2. MAX_WORDS (`static_dataset`) + BUCKET_COUNT =
# 65,536, so a row number fits in 16 bits.
BUCKET_COUNT: Final = 16_384
BLOCKS_PER_STEP: Final = 4
# Factor of the cosines before the softmax.
COSINE_SCALE: Final = 20.0
# Initial learning rate of the vectors.
VECTOR_LEARNING_RATE: Final = 0.12
# Initial learning rate of the log weights.
WEIGHT_LEARNING_RATE: Final = 0.05
# Steps between two checkpoints, and between two lines of the log.
CHECKPOINT_STEPS: Final = 50
# Smooth inverse frequency: the initial weight of a row falls with the share of bags that have the row. At this share,
# the weight is 0.7 of the weight of a rare row.
COMMON_SHARE: Final = 1e-3
# Lower bound of divisors.
TINY: Final = 1e-12
# Maximum number of queries of a repository in an evaluation.
MAX_QUERIES: Final = 500
# Number of ranks that count in an evaluation (MRR@10).
RANK_DEPTH: Final = 10


class NotEnoughData(LineageError):
    """The training data does not fill one step."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Training parameters.

    `passes`: number of epochs. `blocks`: blocks of changes per step. `rate`: initial learning rate of the vectors.
    """

    passes: float
    seed: int
    blocks: int = BLOCKS_PER_STEP
    rate: float = VECTOR_LEARNING_RATE


@dataclass(slots=True, eq=False)
class StaticTable:
    """Word table: a vector and a log weight per row. A text's vector is the normalized weighted sum of its rows.

    `vector_squares` and `weight_squares`: sums of squared gradients, one per row. The larger the sum, the lower is the
    learning rate of the row (Adagrad).
    """

    vectors: Floats
    log_weights: Floats
    vector_squares: Floats
    weight_squares: Floats

    @classmethod
    def from_vectors(cls, vectors: Floats, log_weights: Floats) -> StaticTable:
        """Create a table with these vectors and log weights, before the first step."""
        zeros = np.zeros(len(vectors), np.float32)
        return cls(vectors, log_weights, zeros, zeros.copy())

    def sum_rows(self, rows: Ints, starts: Ints) -> Floats:
        """Return the weighted sum of each text's rows; zeros for a text without rows.

        `rows`: row numbers of all texts, concatenated. `starts`: index in `rows` where each text starts.
        """
        weighted = self.vectors[rows] * np.exp(self.log_weights[rows])[:, None]
        sums = np.zeros((len(starts), self.vectors.shape[1]), np.float32)
        has_rows = np.diff(np.append(starts, len(rows))) > 0
        sums[has_rows] = np.add.reduceat(weighted, starts[has_rows], axis=0)
        return sums

    def update(self, rows: Ints, starts: Ints, gradients: Floats, rates: tuple[float, float]) -> None:
        """Apply one Adagrad step.

        `rows`, `starts`: as in `sum_rows`. `gradients`: gradients of the sums that it returned. `rates`: learning rates
        of vectors and log weights.
        """
        lengths = np.diff(np.append(starts, len(rows)))
        order = np.argsort(rows, kind="stable")
        texts = np.repeat(np.arange(len(starts)), lengths)[order]
        touched_rows, first = np.unique(rows[order], return_index=True)
        summed_gradients = np.add.reduceat(gradients[texts], first, axis=0)
        weights = np.exp(self.log_weights[touched_rows])
        weight_gradients = np.einsum("rd,rd->r", summed_gradients, self.vectors[touched_rows]) * weights
        vector_gradients = summed_gradients * weights[:, None]
        self.vector_squares[touched_rows] += np.square(vector_gradients).mean(axis=1)
        self.weight_squares[touched_rows] += np.square(weight_gradients)
        self.vectors[touched_rows] -= (
            rates[0] * vector_gradients / (np.sqrt(self.vector_squares[touched_rows]) + TINY)[:, None]
        )
        self.log_weights[touched_rows] -= (
            rates[1] * weight_gradients / (np.sqrt(self.weight_squares[touched_rows]) + TINY)
        )

    def apply_weights(self) -> Floats:
        """Return the rows multiplied by their weights, for the export."""
        return self.vectors * np.exp(self.log_weights)[:, None]


def generate_unit_vectors(count: int, dimension: int, seed: int) -> Floats:
    """Return random unit vectors of shape (count, dimension)."""
    vectors = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def compute_initial_weights(dataset: StaticTrainingSet, row_count: int) -> Floats:
    """Return the initial log weight of each row: the rarer, the larger."""
    share = np.bincount(dataset.bags.rows, minlength=row_count) / len(dataset.bags.ends)
    return (np.log(COMMON_SHARE / (COMMON_SHARE + share)) / 2).astype(np.float32)


def train(
    dataset: StaticTrainingSet,
    model: StaticTable,
    plan: Plan,
    save_checkpoint: Callable[[StaticTable], None] | None = None,
) -> StaticTable:
    """Train the table in place and return it; the learning rate follows a cosine to zero.

    Raises NotEnoughData if the training set does not fill one step.
    """
    if dataset.block_count < plan.blocks:
        raise NotEnoughData(
            f"The bags fill {dataset.block_count} blocks of {BLOCK_SIZE} changes; a step needs {plan.blocks}.",
            hint="Extract bags of more or longer repositories with `python -m pipeline.training.word_bags`.",
        )
    generator = np.random.default_rng(plan.seed)
    steps = math.ceil(plan.passes * len(dataset.change) / BLOCK_SIZE / plan.blocks)
    step, loss_sum = 0, 0.0
    while step < steps:
        for changes in dataset.iter_batches(plan.blocks, generator):
            rate_factor = 0.5 + 0.5 * math.cos(math.pi * step / steps)
            loss_sum += _run_step(
                model,
                dataset,
                changes,
                generator,
                (rate_factor * plan.rate, rate_factor * WEIGHT_LEARNING_RATE),
            )
            step += 1
            if step % CHECKPOINT_STEPS == 0:
                logger.info("step %d of %d: loss %.3f", step, steps, loss_sum / CHECKPOINT_STEPS)
                loss_sum = 0.0
                if save_checkpoint:
                    save_checkpoint(model)
            if step == steps:
                break
    return model


def _run_step(
    model: StaticTable,
    dataset: StaticTrainingSet,
    changes: Ints,
    generator: np.random.Generator,
    rates: tuple[float, float],
) -> float:
    """Train on the changes of one step; return the loss."""
    queries, texts = dataset.draw_examples(changes, generator)
    query_rows, text_rows = (
        dataset.bags.merge_bags(queries, generator),
        dataset.bags.merge_bags(texts, generator),
    )
    commits = dataset.commit[changes]
    is_excluded = (commits[:, None] == commits[None]) & ~np.eye(len(changes), dtype=np.bool_)
    loss, gradients = compute_contrastive_loss(
        model.sum_rows(*query_rows), model.sum_rows(*text_rows), is_excluded
    )
    rows = np.concatenate([query_rows[0], text_rows[0]])
    starts = np.concatenate([query_rows[1], text_rows[1] + len(query_rows[0])])
    model.update(rows, starts, gradients, rates)
    return loss


def compute_contrastive_loss(
    query_sums: Floats, text_sums: Floats, is_excluded: npt.NDArray[np.bool_]
) -> tuple[float, Floats]:
    """Return the symmetric contrastive loss and its gradients: first those of the query sums, then of the text sums.

    Text i answers query i. `is_excluded`, of shape (queries, texts), is True for pairs that are not compared.
    """
    (queries, query_lengths), (texts, text_lengths) = _normalize(query_sums), _normalize(text_sums)
    scores: Floats = np.where(is_excluded, -np.inf, COSINE_SCALE * (queries @ texts.T))
    text_probabilities, query_probabilities = _softmax(scores, 1), _softmax(scores, 0)
    diagonal = np.arange(len(scores))
    log_likelihoods = np.log(text_probabilities[diagonal, diagonal]) + np.log(
        query_probabilities[diagonal, diagonal]
    )
    loss = -log_likelihoods.mean() / 2
    score_gradients = np.asarray((text_probabilities + query_probabilities) / 2, scores.dtype)
    score_gradients[diagonal, diagonal] -= 1
    score_gradients *= COSINE_SCALE / len(scores)
    gradients = [
        _compute_sum_gradients(score_gradients @ texts, queries, query_lengths),
        _compute_sum_gradients(score_gradients.T @ queries, texts, text_lengths),
    ]
    return float(loss), np.concatenate(gradients)


def _normalize(sums: Floats) -> tuple[Floats, Floats]:
    """Return the rows divided by their lengths, and the lengths."""
    lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), TINY)
    return sums / lengths, lengths


def _compute_sum_gradients(gradients: Floats, units: Floats, lengths: Floats) -> Floats:
    """Return the gradients of the sums. `gradients`: gradients of `units`, the sums divided by `lengths`."""
    projection = np.einsum("nd,nd->n", gradients, units)[:, None]
    return np.asarray((gradients - projection * units) / lengths)


def _softmax(scores: Floats, axis: int) -> Floats:
    exponentials = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=axis, keepdims=True))


def reduce_dimension(rows: Floats, dimension: int = EMBEDDING_DIMENSION) -> Floats:
    """Project the rows onto their first `dimension` principal axes.

    Rows with `dimension` components or fewer are returned unchanged.
    """
    if rows.shape[1] <= dimension:
        return rows
    rows64 = rows.astype(np.float64)
    _, directions = np.linalg.eigh(rows64.T @ rows64)
    projected: Floats = (rows64 @ directions[:, ::-1][:, :dimension]).astype(np.float32)
    return projected


def embed_texts(bags: Bags, bag_numbers: Ints, table: Floats) -> Floats:
    """Return one unit vector per text, or zeros for a text without words.

    `bag_numbers`, of shape (texts, bags): the bags of each text.
    """
    sums = np.empty((len(bag_numbers), table.shape[1]), np.float32)
    rows, starts = bags.merge_bags(bag_numbers)
    for text, (start, end) in enumerate(pairwise([*starts.tolist(), len(rows)])):
        sums[text] = table[rows[start:end]].sum(axis=0)
    sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), np.float32(1e-9))
    return sums


def compute_mean_reciprocal_rank(
    dataset: StaticTrainingSet, repository: int, table: Floats, kind: BagKind = BagKind.SUBJECT
) -> float:
    """Return MRR@10 over a repository's queries of a kind, with whitened vectors as in an index.

    `repository`: its number. A query's answer is its commit, ranked by its best change.
    """
    changes = np.flatnonzero(dataset.repository == repository)
    commits = dataset.commit[changes]
    # A text includes its commit's subject only for sentence queries: a subject query would find itself.
    subjects_in_text = dataset.subject[commits] if kind is BagKind.SENTENCE else np.full(len(changes), NO_BAG)
    text_vectors = embed_texts(
        dataset.bags,
        np.stack([dataset.change[changes], dataset.comment[changes], subjects_in_text], 1),
        table,
    )
    query_bags = {
        BagKind.SUBJECT: dataset.subject,
        BagKind.SENTENCE: dataset.first_sentence,
        BagKind.CHANGELOG: dataset.changelog,
    }[kind]
    commits_with_query = np.unique(commits[query_bags[commits] != NO_BAG])
    answers = np.random.default_rng(1).permutation(commits_with_query)[:MAX_QUERIES]
    query_vectors = embed_texts(dataset.bags, query_bags[answers][:, None], table)
    space = fit_whitening(text_vectors)
    text_points, query_points = (
        space.transform(vectors.astype(np.float64)) for vectors in (text_vectors, query_vectors)
    )
    # Queries are not normalized: their length does not change the order of the texts.
    text_points /= np.maximum(np.linalg.norm(text_points, axis=1, keepdims=True), 1e-9)
    scores = query_points @ text_points.T
    reciprocal_ranks = [
        _compute_reciprocal_rank(query_scores, commits, answer)
        for query_scores, answer in zip(scores, answers, strict=True)
    ]
    return float(np.mean(reciprocal_ranks))


def _compute_reciprocal_rank(scores: npt.NDArray[np.float64], commits: Ints, answer: int) -> float:
    # Several changes of one commit often rank close together. The best 20 x RANK_DEPTH changes should contain
    # RANK_DEPTH commits.
    nearest = np.argsort(-scores, kind="stable")[: 20 * RANK_DEPTH]
    ranked_commits = list(dict.fromkeys(commits[nearest].tolist()))[:RANK_DEPTH]
    return 1 / (ranked_commits.index(answer) + 1) if answer in ranked_commits else 0.0


def evaluate(dataset: StaticTrainingSet, table: Floats) -> str:
    """Return a line for the log with MRR@10 of each held-out repository: first for subjects, then for sentences."""
    repositories = range(int(dataset.repository.max()) + 1)
    columns = [
        " ".join(
            f"{compute_mean_reciprocal_rank(dataset, repository, table, kind):.3f}"
            for repository in repositories
        )
        for kind in (BagKind.SUBJECT, BagKind.SENTENCE)
    ]
    return " | ".join(columns)


def main() -> None:
    """Run the command line."""
    parser = _build_parser()
    arguments = parser.parse_args()
    if arguments.dimension < EMBEDDING_DIMENSION:
        parser.error(
            f"--dimension is {arguments.dimension}. The exported table needs at least {EMBEDDING_DIMENSION}."
        )
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    files = sorted(arguments.bags.glob("*.npz"))
    held_out_files = [file for file in files if file.stem in arguments.held_out]
    training_files = [file for file in files if file not in held_out_files]
    if not training_files:
        parser.error(
            f"No bags to train on in {arguments.bags}. Run `python -m pipeline.training.word_bags`, or hold out fewer "
            "repositories."
        )
    vocabulary = select_vocabulary(training_files)
    lexicon = Lexicon({word: row for row, word in enumerate(vocabulary)}, BUCKET_COUNT)
    dataset, row_count = StaticTrainingSet.read(training_files, lexicon), len(vocabulary) + BUCKET_COUNT
    logger.info("%d repositories, %d changes, %d rows", len(training_files), len(dataset.change), row_count)
    vectors = generate_unit_vectors(row_count, arguments.dimension, arguments.seed)
    if arguments.initial_vectors:
        _copy_initial_vectors(vectors, vocabulary, arguments.initial_vectors)
    arguments.out.mkdir(parents=True, exist_ok=True)

    def save_table(table: StaticTable) -> None:
        words = np.frombuffer("\n".join(vocabulary).encode(), np.uint8)
        np.savez(arguments.out / "table.npz", words=words, rows=table.apply_weights())

    plan = Plan(arguments.passes, arguments.seed, rate=arguments.rate)
    try:
        model = train(
            dataset,
            StaticTable.from_vectors(vectors, compute_initial_weights(dataset, row_count)),
            plan,
            save_table,
        )
    except NotEnoughData as error:
        raise SystemExit(str(error)) from error
    save_table(model)
    if held_out_files:
        logger.info(
            "held out: %s",
            evaluate(
                StaticTrainingSet.read(held_out_files, lexicon), reduce_dimension(model.apply_weights())
            ),
        )


def _copy_initial_vectors(vectors: Floats, vocabulary: Sequence[str], file: Path) -> None:
    """Copy each vector in the file over the first components of the vector of the same word."""
    with np.load(file) as arrays:
        words, initial = arrays["words"].tobytes().decode().split("\n"), arrays["vectors"]
    initial_rows = {word: row for row, word in enumerate(words)}
    for row, word in enumerate(vocabulary):
        if word in initial_rows:
            vectors[row, : initial.shape[1]] = initial[initial_rows[word]]


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.training.train_static",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bags", type=Path, metavar="BAGS")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument(
        "--held-out",
        action="append",
        default=[],
        metavar="NAME",
        help="repository to evaluate on instead of training on it",
    )
    parser.add_argument("--passes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--dimension",
        type=int,
        default=EMBEDDING_DIMENSION,
        help="dimension in training, reduced at the export",
    )
    parser.add_argument(
        "--initial-vectors",
        type=Path,
        metavar="FILE",
        help="file with initial vectors, written by `static_dataset`",
    )
    parser.add_argument("--rate", type=float, default=VECTOR_LEARNING_RATE)
    return parser


if __name__ == "__main__":
    main()
