"""Contrastive training of the static word table, with its vocabulary and its evaluation on held-out repositories.

python -m pipeline.training.train_static BAGS OUT [--held-out NAME]... [--passes N] [--seed N] [--started FILE]

BAGS is the directory written by `pipeline.training.word_bags`; OUT gets `table.npz` in full precision. The most
widespread words have a row each; all others share buckets by hash. Gradients are computed by hand: there are few, and a
batch touches few rows.
"""

from __future__ import annotations

import argparse
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pipeline.encoders.static import Lexicon
from pipeline.training.static_dataset import BLOCK, NONE, Bags, Ints, StaticTrainingSet
from pipeline.training.word_bags import BagDataset, BagKind
from stores.errors import LineageError
from stores.types import EMBEDDING_DIMENSION
from stores.whitening import fit_whitening

MAX_QUERIES: Final = 500
DEPTH: Final = 10


def text_vectors(bags: Bags, bag_numbers: Ints, table: Floats) -> Floats:
    """Return the unit vector of each line: the normalized sum of its bags' rows; zeros for an empty line."""
    sums = np.empty((len(bag_numbers), table.shape[1]), np.float32)
    rows, starts = bags.union(bag_numbers)
    for line, (start, end) in enumerate(pairwise([*starts.tolist(), len(rows)])):
        sums[line] = table[rows[start:end]].sum(axis=0)
    sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), np.float32(1e-9))
    return sums


def mean_reciprocal_rank(
    dataset: StaticTrainingSet, history: int, table: Floats, kind: BagKind = BagKind.SUBJECT
) -> float:
    """Return MRR@10 over a repository's queries of a kind, with whitened vectors as in an index."""
    rows = np.flatnonzero(dataset.history == history)
    commits = dataset.commit[rows]
    shown_subjects = dataset.subject[commits] if kind is BagKind.SENTENCE else np.full(len(rows), NONE)
    texts = text_vectors(
        dataset.bags, np.stack([dataset.change[rows], dataset.comment[rows], shown_subjects], 1), table
    )
    query_bags = {
        BagKind.SUBJECT: dataset.subject,
        BagKind.SENTENCE: dataset.sentence,
        BagKind.CHANGELOG: dataset.changelog,
    }[kind]
    answers = np.unique(commits)
    answers = answers[query_bags[answers] != NONE]
    answers = np.random.default_rng(1).permutation(answers)[:MAX_QUERIES]
    questions = text_vectors(dataset.bags, query_bags[answers][:, None], table)
    space = fit_whitening(texts)
    text_points, query_points = (space.transform(part.astype(np.float64)) for part in (texts, questions))
    text_points /= np.maximum(np.linalg.norm(text_points, axis=1, keepdims=True), 1e-9)
    scores = query_points @ text_points.T
    return float(
        np.mean(
            [_reciprocal_rank(line, commits, answer) for line, answer in zip(scores, answers, strict=True)]
        )
    )


def _reciprocal_rank(scores: npt.NDArray[np.float64], commits: Ints, answer: int) -> float:
    nearest = np.argsort(-scores, kind="stable")[: 20 * DEPTH]
    commits_in_order = list(dict.fromkeys(commits[nearest].tolist()))[:DEPTH]
    return 1 / (commits_in_order.index(answer) + 1) if answer in commits_in_order else 0.0


# Words of fewer repositories are specific to them: names, keys, typos.
MIN_HISTORIES: Final = 3


def select_vocabulary(files: Iterable[Path], size: int) -> list[str]:
    """Return the most frequent words that at least MIN_HISTORIES repositories use."""
    spread: Counter[str] = Counter()
    often: Counter[str] = Counter()
    for file in files:
        bags = BagDataset.read(file)
        counts = np.bincount(bags.flat, minlength=len(bags.words))
        spread.update(bags.words)
        # Cap per repository, so that words of one repository do not outweigh common ones.
        often.update({word: min(int(n), 200) for word, n in zip(bags.words, counts, strict=True)})
    wide = [word for word, histories in spread.items() if histories >= MIN_HISTORIES]
    return sorted(wide, key=lambda word: (-often[word], word))[:size]


Floats: TypeAlias = npt.NDArray[np.float32]

logger = logging.getLogger(__name__)

WORDS: Final = 49_152
BUCKETS: Final = 16_384
BLOCKS: Final = 4
# Cosines are multiplied by this before they are compared.
SCALE: Final = 20.0
RATE: Final = 0.12
WEIGHT_RATE: Final = 0.05
# Steps between two checkpoints.
CHECKPOINT_STEPS: Final = 50
# A word of which this share of bags is made weighs half of a rare one, as in smooth inverse frequency.
COMMON: Final = 1e-3
# Keeps a division by what is nothing from being one.
TINY: Final = 1e-12


class NotEnoughData(LineageError):
    """The training data does not fill one step."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Training parameters: epochs, random seed, blocks per step, initial learning rate."""

    passes: float
    seed: int
    blocks: int = BLOCKS
    rate: float = RATE


@dataclass(slots=True, eq=False)
class StaticTable:
    """Word table: a vector and a log weight per row; a text is the normalized weighted sum of its rows.

    The rate of each row falls with what it has been moved (Adagrad, one number a row).
    """

    vectors: Floats
    weights: Floats
    vector_squares: Floats
    weight_squares: Floats

    @classmethod
    def from_vectors(cls, vectors: Floats, weights: Floats) -> StaticTable:
        """Start from these vectors and log weights."""
        return cls(vectors, weights, np.zeros(len(vectors), np.float32), np.zeros(len(vectors), np.float32))

    def sums(self, rows: Ints, starts: Ints) -> Floats:
        """Return the weighted sum of each line's rows; zeros for an empty line."""
        weighted = self.vectors[rows] * np.exp(self.weights[rows])[:, None]
        found = np.zeros((len(starts), self.vectors.shape[1]), np.float32)
        there = np.diff(np.append(starts, len(rows))) > 0
        found[there] = np.add.reduceat(weighted, starts[there], axis=0)
        return found

    def update(self, rows: Ints, starts: Ints, gradients: Floats, rates: tuple[float, float]) -> None:
        """Apply one Adagrad step for the gradients of the lines' sums; `rates` are those of vectors and weights."""
        lengths = np.diff(np.append(starts, len(rows)))
        order = np.argsort(rows, kind="stable")
        lines = np.repeat(np.arange(len(starts)), lengths)[order]
        touched, first = np.unique(rows[order], return_index=True)
        total = np.add.reduceat(gradients[lines], first, axis=0)
        scales = np.exp(self.weights[touched])
        weight_gradients = np.einsum("rd,rd->r", total, self.vectors[touched]) * scales
        vector_gradients = total * scales[:, None]
        self.vector_squares[touched] += np.square(vector_gradients).mean(axis=1)
        self.weight_squares[touched] += np.square(weight_gradients)
        self.vectors[touched] -= (
            rates[0] * vector_gradients / (np.sqrt(self.vector_squares[touched]) + TINY)[:, None]
        )
        self.weights[touched] -= rates[1] * weight_gradients / (np.sqrt(self.weight_squares[touched]) + TINY)

    def final_rows(self) -> Floats:
        """Return the weighted rows, as they are exported."""
        return self.vectors * np.exp(self.weights)[:, None]


def random_unit_vectors(rows: int, dimension: int, seed: int) -> Floats:
    """Return random unit vectors."""
    vectors = np.random.default_rng(seed).standard_normal((rows, dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def initial_weights(dataset: StaticTrainingSet, rows: int) -> Floats:
    """Return initial log weights from the rarity of each row."""
    share = np.bincount(dataset.bags.flat, minlength=rows) / len(dataset.bags.ends)
    return (np.log(COMMON / (COMMON + share)) / 2).astype(np.float32)


def train(
    dataset: StaticTrainingSet,
    model: StaticTable,
    plan: Plan,
    checkpoint: Callable[[StaticTable], None] | None = None,
) -> StaticTable:
    """Train the table; the learning rate follows a cosine to zero."""
    if dataset.block_count < plan.blocks:
        raise NotEnoughData(
            f"The bags fill {dataset.block_count} blocks of {BLOCK} changes; a step needs {plan.blocks}.",
            hint="Extract bags of more or longer repositories with `python -m pipeline.training.word_bags`.",
        )
    generator = np.random.default_rng(plan.seed)
    steps = math.ceil(plan.passes * len(dataset.change) / BLOCK / plan.blocks)
    step, loss_sum = 0, 0.0
    while step < steps:
        for changes in dataset.batches(plan.blocks, generator):
            share = 0.5 + 0.5 * math.cos(math.pi * step / steps)
            loss_sum += _training_step(
                model, dataset, changes, generator, (share * plan.rate, share * WEIGHT_RATE)
            )
            step += 1
            if step % 50 == 0:
                logger.info("step %d of %d: loss %.3f", step, steps, loss_sum / 50)
                loss_sum = 0.0
            if checkpoint and step % CHECKPOINT_STEPS == 0:
                checkpoint(model)
            if step == steps:
                break
    return model


def _training_step(
    model: StaticTable,
    dataset: StaticTrainingSet,
    changes: Ints,
    generator: np.random.Generator,
    rates: tuple[float, float],
) -> float:
    """Apply one training step to the changes; return its loss."""
    queries, texts = dataset.examples(changes, generator)
    query_rows, text_rows = dataset.bags.union(queries, generator), dataset.bags.union(texts, generator)
    commits = dataset.commit[changes]
    same_commit = (commits[:, None] == commits[None]) & ~np.eye(len(changes), dtype=np.bool_)
    loss, gradients = contrastive_loss(model.sums(*query_rows), model.sums(*text_rows), same_commit)
    rows = np.concatenate([query_rows[0], text_rows[0]])
    starts = np.concatenate([query_rows[1], text_rows[1] + len(query_rows[0])])
    model.update(rows, starts, gradients, rates)
    return loss


def contrastive_loss(
    query_sums: Floats, text_sums: Floats, excluded: npt.NDArray[np.bool_]
) -> tuple[float, Floats]:
    """Return the symmetric contrastive loss and its gradients, of query sums before text sums.

    Row i of queries and texts belong together; `excluded` pairs are not compared.
    """
    (queries, query_lengths), (texts, text_lengths) = _normalize(query_sums), _normalize(text_sums)
    scores: Floats = np.where(excluded, -np.inf, SCALE * (queries @ texts.T))
    text_probabilities, query_probabilities = _softmax(scores, 1), _softmax(scores, 0)
    own = np.arange(len(scores))
    loss = -(np.log(text_probabilities[own, own]) + np.log(query_probabilities[own, own])).mean() / 2
    score_gradients = np.asarray((text_probabilities + query_probabilities) / 2, scores.dtype)
    score_gradients[own, own] -= 1
    score_gradients *= SCALE / len(scores)
    gradients = [
        _normalization_gradient(score_gradients @ texts, queries, query_lengths),
        _normalization_gradient(score_gradients.T @ queries, texts, text_lengths),
    ]
    return float(loss), np.concatenate(gradients)


def _normalize(sums: Floats) -> tuple[Floats, Floats]:
    """Return the normalized rows and their lengths."""
    lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), TINY)
    return sums / lengths, lengths


def _normalization_gradient(gradients: Floats, normal: Floats, lengths: Floats) -> Floats:
    """Return the gradients of the sums, given those of the normalized sums."""
    projection = np.einsum("nd,nd->n", gradients, normal)[:, None]
    return np.asarray((gradients - projection * normal) / lengths)


def _softmax(scores: Floats, axis: int) -> Floats:
    exponentials = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=axis, keepdims=True))


def reduce_dimension(rows: Floats, dimension: int = EMBEDDING_DIMENSION) -> Floats:
    """Project the rows onto their first principal axes."""
    if rows.shape[1] <= dimension:
        return rows
    rows64 = rows.astype(np.float64)
    _, directions = np.linalg.eigh(rows64.T @ rows64)
    projected: Floats = (rows64 @ directions[:, ::-1][:, :dimension]).astype(np.float32)
    return projected


def evaluate(dataset: StaticTrainingSet, table: Floats) -> str:
    """Return a log line with MRR@10 of each held-out repository: subjects, then sentences."""
    histories = range(int(dataset.history.max()) + 1)
    lines = [
        " ".join(f"{mean_reciprocal_rank(dataset, history, table, kind):.3f}" for history in histories)
        for kind in (BagKind.SUBJECT, BagKind.SENTENCE)
    ]
    return " | ".join(lines)


def main() -> None:
    """Train the table, save it, and evaluate it on the held-out repositories."""
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.dimension < EMBEDDING_DIMENSION:
        parser.error(f"--dimension has to be at least {EMBEDDING_DIMENSION}, which are kept.")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    files = sorted(arguments.bags.glob("*.npz"))
    held_out = [file for file in files if file.stem in arguments.held_out]
    training_files = [file for file in files if file not in held_out]
    if not training_files:
        parser.error(f"{arguments.bags} has no bags; run `python -m pipeline.training.word_bags` first.")
    vocabulary = select_vocabulary(training_files, WORDS)
    lexicon = Lexicon({word: row for row, word in enumerate(vocabulary)}, BUCKETS)
    dataset, rows = StaticTrainingSet.read(training_files, lexicon), len(vocabulary) + BUCKETS
    logger.info("%d histories, %d changes, %d rows", len(training_files), len(dataset.change), rows)
    vectors = random_unit_vectors(rows, arguments.dimension, arguments.seed)
    if arguments.started:
        _copy_initial_vectors(vectors, vocabulary, arguments.started)
    arguments.out.mkdir(parents=True, exist_ok=True)

    def save_table(table: StaticTable) -> None:
        words = np.frombuffer("\n".join(vocabulary).encode(), np.uint8)
        np.savez(arguments.out / "table.npz", words=words, rows=table.final_rows())

    plan = Plan(arguments.passes, arguments.seed, rate=arguments.rate)
    try:
        model = train(
            dataset, StaticTable.from_vectors(vectors, initial_weights(dataset, rows)), plan, save_table
        )
    except NotEnoughData as error:
        raise SystemExit(str(error)) from error
    save_table(model)
    if held_out:
        logger.info(
            "held out: %s",
            evaluate(StaticTrainingSet.read(held_out, lexicon), reduce_dimension(model.final_rows())),
        )


def _copy_initial_vectors(vectors: Floats, vocabulary: Sequence[str], file: Path) -> None:
    """Copy the file's vectors of known words over the random ones."""
    with np.load(file) as arrays:
        words, initial = arrays["words"].tobytes().decode().split("\n"), arrays["vectors"]
    initial_rows = {word: row for row, word in enumerate(words)}
    for row, word in enumerate(vocabulary):
        if word in initial_rows:
            vectors[row, : initial.shape[1]] = initial[initial_rows[word]]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pipeline.training.train_static", description=__doc__)
    parser.add_argument("bags", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--held-out", action="append", default=[], metavar="NAME", help="measure on it instead"
    )
    parser.add_argument("--passes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dimension", type=int, default=EMBEDDING_DIMENSION, help="before it is cut")
    parser.add_argument("--started", type=Path, help="vectors to begin with")
    parser.add_argument("--rate", type=float, default=RATE)
    return parser


if __name__ == "__main__":
    main()
