"""How well a table ranks histories it was not trained on: subjects asked of changes whose message is hidden.

Words -> rows of a table: the most widely used have one each, all others share buckets by their hash.

Lessons -> the table: contrastive training, question against text, and a checkpoint after each part of a pass.

python -m pipeline.training.train_static LESSONS OUT [--held-out NAME]... [--passes N] [--seed N] [--started FILE]

LESSONS is the folder `pipeline.training.word_bags` wrote; OUT gets `table.npz` in full precision. Slopes are written
out: there
are few, and a batch touches few rows.
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
from pipeline.training.static_dataset import BLOCK, NONE, Bags, Ints, Material
from pipeline.training.word_bags import Kind, Lessons
from stores.errors import LineageError
from stores.types import EMBEDDING_DIMENSION
from stores.whitening import learnt

QUESTIONS: Final = 500
DEPTH: Final = 10


def vectors(bags: Bags, chosen: Ints, table: Floats) -> Floats:
    """The unit sums of each line's bags; of an empty line, zeros."""
    summed = np.empty((len(chosen), table.shape[1]), np.float32)
    rows, begins = bags.union(chosen)
    for line, (begin, end) in enumerate(pairwise([*begins.tolist(), len(rows)])):
        summed[line] = table[rows[begin:end]].sum(axis=0)
    summed /= np.maximum(np.linalg.norm(summed, axis=1, keepdims=True), np.float32(1e-9))
    return summed


def ranked(material: Material, history: int, table: Floats, kind: Kind = Kind.SUBJECT) -> float:
    """MRR@10 over a history's questions of a kind, whitened as an index is."""
    here = np.flatnonzero(material.history == history)
    commits = material.commit[here]
    shown = material.subject[commits] if kind is Kind.SENTENCE else np.full(len(here), NONE)
    texts = vectors(material.bags, np.stack([material.change[here], material.comment[here], shown], 1), table)
    of_kind = {Kind.SUBJECT: material.subject, Kind.SENTENCE: material.sentence, Kind.NEWS: material.news}[
        kind
    ]
    asked = np.unique(commits)
    asked = asked[of_kind[asked] != NONE]
    asked = np.random.default_rng(1).permutation(asked)[:QUESTIONS]
    questions = vectors(material.bags, of_kind[asked][:, None], table)
    space = learnt(texts)
    placed, wanted = (space.placed(part.astype(np.float64)) for part in (texts, questions))
    placed /= np.maximum(np.linalg.norm(placed, axis=1, keepdims=True), 1e-9)
    scores = wanted @ placed.T
    return float(
        np.mean([_reciprocal(line, commits, answer) for line, answer in zip(scores, asked, strict=True)])
    )


def _reciprocal(scores: npt.NDArray[np.float64], commits: Ints, answer: int) -> float:
    near = np.argsort(-scores, kind="stable")[: 20 * DEPTH]
    first = list(dict.fromkeys(commits[near].tolist()))[:DEPTH]
    return 1 / (first.index(answer) + 1) if answer in first else 0.0


# A word of fewer histories is theirs alone: a name, a key, a slip.
FEWEST_HISTORIES: Final = 3


def chosen(files: Iterable[Path], size: int) -> list[str]:
    """The words that most histories use, and of equally spread ones those in most bags."""
    spread: Counter[str] = Counter()
    often: Counter[str] = Counter()
    for file in files:
        lessons = Lessons.read(file)
        counts = np.bincount(lessons.flat, minlength=len(lessons.words))
        spread.update(lessons.words)
        # No history's own favourites weigh more than what several share.
        often.update({word: min(int(n), 200) for word, n in zip(lessons.words, counts, strict=True)})
    wide = [word for word, histories in spread.items() if histories >= FEWEST_HISTORIES]
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
KEPT_EVERY: Final = 50
# A word of which this share of bags is made weighs half of a rare one, as in smooth inverse frequency.
COMMON: Final = 1e-3
# Keeps a division by what is nothing from being one.
TINY: Final = 1e-12


class TooLittle(LineageError):
    """There is not enough to learn from."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to train: passes over all changes, the seed of every draw, blocks of a step, the rate it begins with."""

    passes: float
    seed: int
    blocks: int = BLOCKS
    rate: float = RATE


@dataclass(slots=True, eq=False)
class Rows:
    """One vector and one weight a row; a text is the weighted sum of its rows, with length 1.

    The rate of each row falls with what it has been moved (Adagrad, one number a row).
    """

    vectors: Floats
    weights: Floats
    moved: Floats
    weighed: Floats

    @classmethod
    def of(cls, vectors: Floats, weights: Floats) -> Rows:
        """Rows that begin here."""
        return cls(vectors, weights, np.zeros(len(vectors), np.float32), np.zeros(len(vectors), np.float32))

    def sums(self, rows: Ints, begins: Ints) -> Floats:
        """What the lines' rows add up to; zeros for a line without any."""
        weighted = self.vectors[rows] * np.exp(self.weights[rows])[:, None]
        found = np.zeros((len(begins), self.vectors.shape[1]), np.float32)
        there = np.diff(np.append(begins, len(rows))) > 0
        found[there] = np.add.reduceat(weighted, begins[there], axis=0)
        return found

    def step(self, rows: Ints, begins: Ints, slopes: Floats, rates: tuple[float, float]) -> None:
        """Move the lines' rows against the slopes of their sums, at the rates of vectors and of weights."""
        lengths = np.diff(np.append(begins, len(rows)))
        order = np.argsort(rows, kind="stable")
        lines = np.repeat(np.arange(len(begins)), lengths)[order]
        here, first = np.unique(rows[order], return_index=True)
        total = np.add.reduceat(slopes[lines], first, axis=0)
        said = np.exp(self.weights[here])
        of_weights = np.einsum("rd,rd->r", total, self.vectors[here]) * said
        of_vectors = total * said[:, None]
        self.moved[here] += np.square(of_vectors).mean(axis=1)
        self.weighed[here] += np.square(of_weights)
        self.vectors[here] -= rates[0] * of_vectors / (np.sqrt(self.moved[here]) + TINY)[:, None]
        self.weights[here] -= rates[1] * of_weights / (np.sqrt(self.weighed[here]) + TINY)

    def table(self) -> Floats:
        """What a text's rows are summed from."""
        return self.vectors * np.exp(self.weights)[:, None]


def started(rows: int, dimension: int, seed: int) -> Floats:
    """Unit vectors in random directions: different words begin as unlike as they can."""
    drawn = np.random.default_rng(seed).standard_normal((rows, dimension)).astype(np.float32)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return drawn


def weights(material: Material, rows: int) -> Floats:
    """By how rare a row is among all bags."""
    share = np.bincount(material.bags.flat, minlength=rows) / len(material.bags.ends)
    return (np.log(COMMON / (COMMON + share)) / 2).astype(np.float32)


def trained(material: Material, model: Rows, plan: Plan, told: Callable[[Rows], None] | None = None) -> Rows:
    """The model after its passes; the rate falls to nothing along a cosine."""
    if material.blocks < plan.blocks:
        raise TooLittle(
            f"The lessons fill {material.blocks} blocks of {BLOCK} changes of one history; a step takes {plan.blocks}.",
            hint="Extract lessons of more, or of longer, histories.",
        )
    chance = np.random.default_rng(plan.seed)
    steps = math.ceil(plan.passes * len(material.change) / BLOCK / plan.blocks)
    done, total = 0, 0.0
    while done < steps:
        for changes in material.batches(plan.blocks, chance):
            share = 0.5 + 0.5 * math.cos(math.pi * done / steps)
            total += _step(model, material, changes, chance, (share * plan.rate, share * WEIGHT_RATE))
            done += 1
            if done % 50 == 0:
                logger.info("step %d of %d: loss %.3f", done, steps, total / 50)
                total = 0.0
            if told and done % KEPT_EVERY == 0:
                told(model)
            if done == steps:
                break
    return model


def _step(
    model: Rows, material: Material, changes: Ints, chance: np.random.Generator, rates: tuple[float, float]
) -> float:
    """How far each question is from choosing its text among the batch's, and each text its question; and a step."""
    asked, texts = material.examples(changes, chance)
    of_asked, of_texts = material.bags.union(asked, chance), material.bags.union(texts, chance)
    commits = material.commit[changes]
    own = (commits[:, None] == commits[None]) & ~np.eye(len(changes), dtype=np.bool_)
    loss, slopes = contrasted(model.sums(*of_asked), model.sums(*of_texts), own)
    rows = np.concatenate([of_asked[0], of_texts[0]])
    begins = np.concatenate([of_asked[1], of_texts[1] + len(of_asked[0])])
    model.step(rows, begins, slopes, rates)
    return loss


def contrasted(questions: Floats, texts: Floats, apart: npt.NDArray[np.bool_]) -> tuple[float, Floats]:
    """The cross-entropy of choosing each one's own in both directions, and its slopes, of questions before texts.

    A question and the text in its row belong together; pairs that are `apart` are not compared.
    """
    (asked, of_asked), (found, of_found) = _normal(questions), _normal(texts)
    scores: Floats = np.where(apart, -np.inf, SCALE * (asked @ found.T))
    chosen, named = _softmax(scores, 1), _softmax(scores, 0)
    own = np.arange(len(scores))
    loss = -(np.log(chosen[own, own]) + np.log(named[own, own])).mean() / 2
    wrong = np.asarray((chosen + named) / 2, scores.dtype)
    wrong[own, own] -= 1
    wrong *= SCALE / len(scores)
    slopes = [_through(wrong @ found, asked, of_asked), _through(wrong.T @ asked, found, of_found)]
    return float(loss), np.concatenate(slopes)


def _normal(sums: Floats) -> tuple[Floats, Floats]:
    """The rows with length 1, and their lengths."""
    lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), TINY)
    return sums / lengths, lengths


def _through(slopes: Floats, normal: Floats, lengths: Floats) -> Floats:
    """The slopes of sums, from those of the sums with length 1: what lies along a row changes no direction."""
    along = np.einsum("nd,nd->n", slopes, normal)[:, None]
    return np.asarray((slopes - along * normal) / lengths)


def _softmax(scores: Floats, axis: int) -> Floats:
    raised = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return np.asarray(raised / raised.sum(axis=axis, keepdims=True))


def cut(rows: Floats, dimension: int = EMBEDDING_DIMENSION) -> Floats:
    """The rows along their own first axes: fewer numbers, and of their products what can be kept."""
    if rows.shape[1] <= dimension:
        return rows
    wide = rows.astype(np.float64)
    _, directions = np.linalg.eigh(wide.T @ wide)
    kept: Floats = (wide @ directions[:, ::-1][:, :dimension]).astype(np.float32)
    return kept


def measured(material: Material, table: Floats) -> str:
    """MRR@10 of each held-out history: subjects, then sentences with the message shown."""
    histories = range(int(material.history.max()) + 1)
    lines = [
        " ".join(f"{ranked(material, history, table, kind):.3f}" for history in histories)
        for kind in (Kind.SUBJECT, Kind.SENTENCE)
    ]
    return " | ".join(lines)


def main() -> None:
    """Train, keep the table, tell of the held-out histories."""
    parser = _parser()
    given = parser.parse_args()
    if given.dimension < EMBEDDING_DIMENSION:
        parser.error(f"--dimension has to be at least {EMBEDDING_DIMENSION}, which are kept.")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    files = sorted(given.lessons.glob("*.npz"))
    held = [file for file in files if file.stem in given.held_out]
    taught = [file for file in files if file not in held]
    if not taught:
        parser.error(f"{given.lessons} has no lessons; `python -m pipeline.training.word_bags` makes them.")
    known = chosen(taught, WORDS)
    lexicon = Lexicon({word: row for row, word in enumerate(known)}, BUCKETS)
    material, rows = Material.read(taught, lexicon), len(known) + BUCKETS
    logger.info("%d histories, %d changes, %d rows", len(taught), len(material.change), rows)
    begun = started(rows, given.dimension, given.seed)
    if given.started:
        _begin(begun, known, given.started)
    given.out.mkdir(parents=True, exist_ok=True)

    def kept(now: Rows) -> None:
        words = np.frombuffer("\n".join(known).encode(), np.uint8)
        np.savez(given.out / "table.npz", words=words, rows=now.table())

    plan = Plan(given.passes, given.seed, rate=given.rate)
    try:
        model = trained(material, Rows.of(begun, weights(material, rows)), plan, kept)
    except TooLittle as error:
        raise SystemExit(str(error)) from error
    kept(model)
    if held:
        logger.info("held out: %s", measured(Material.read(held, lexicon), cut(model.table())))


def _begin(begun: Floats, known: Sequence[str], file: Path) -> None:
    """Put what the file has of the words in the place of what was drawn."""
    with np.load(file) as start:
        told, vectors = start["words"].tobytes().decode().split("\n"), start["vectors"]
    place = {word: row for row, word in enumerate(told)}
    for row, word in enumerate(known):
        if word in place:
            begun[row, : vectors.shape[1]] = vectors[place[word]]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pipeline.training.train_static", description=__doc__)
    parser.add_argument("lessons", type=Path)
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
