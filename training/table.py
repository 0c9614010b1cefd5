"""Lessons -> the table: contrastive training, question against text, and a checkpoint after each part of a pass.

python -m training.table LESSONS OUT [--held-out NAME]... [--passes N] [--seed N] [--started FILE]

LESSONS is the folder `training.extract` wrote; OUT gets `table.npz` in full precision. Needs torch, which nothing
that runs does.
"""

from __future__ import annotations

import argparse
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pipeline.static import Lexicon
from stores.versions import EMBEDDING_DIMENSION
from training import vocabulary
from training.held_out import ranked
from training.lessons import Kind
from training.material import BLOCK, Ints, Material

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


@dataclass(frozen=True, slots=True)
class Plan:
    """How to train: passes over all changes, the seed of every draw, dimensions before they are cut."""

    passes: float
    seed: int
    dimension: int = EMBEDDING_DIMENSION
    threads: int = 2
    blocks: int = BLOCKS
    rate: float = RATE


@dataclass(slots=True, eq=False)
class Rows:
    """One vector and one weight a row; a text is the weighted sum of its rows, with length 1.

    Gradients are written out: only rows of the batch are touched, each step in one pass over its words, and the
    rate of each row falls with what it has been moved (Adagrad, one number a row).
    """

    vectors: torch.Tensor
    weights: torch.Tensor
    moved: torch.Tensor
    weighed: torch.Tensor

    @classmethod
    def of(cls, vectors: npt.NDArray[np.float32], weights: npt.NDArray[np.float32]) -> Rows:
        """Rows that begin here."""
        begun = torch.from_numpy(vectors), torch.from_numpy(weights)
        return cls(*begun, torch.zeros(len(vectors)), torch.zeros(len(vectors)))

    def sums(self, rows: Ints, begins: Ints) -> torch.Tensor:
        """What the lines' rows add up to."""
        places = torch.from_numpy(rows)
        said = self.weights[places].exp()
        found = nn.functional.embedding_bag(
            places, self.vectors, torch.from_numpy(begins), mode="sum", per_sample_weights=said
        )
        return found.requires_grad_()

    def step(self, rows: Ints, begins: Ints, slopes: torch.Tensor, rates: tuple[float, float]) -> None:
        """Move the lines' rows against the slopes of their sums, at the rates of vectors and of weights."""
        lengths = np.diff(np.append(begins, len(rows)))
        order = np.argsort(rows, kind="stable")
        lines = torch.from_numpy(np.repeat(np.arange(len(begins)), lengths)[order])
        which, first = np.unique(rows[order], return_index=True)
        here = torch.from_numpy(which)
        total = nn.functional.embedding_bag(lines, slopes, torch.from_numpy(first), mode="sum")
        said = self.weights[here].exp()
        of_weights = torch.linalg.vecdot(total, self.vectors[here]) * said
        # In place: what is as large as the rows of a batch costs more to come by than to work with.
        of_vectors = total.mul_(said[:, None])
        self.moved[here] += torch.linalg.vector_norm(of_vectors, dim=1).square() / of_vectors.shape[1]
        self.weighed[here] += of_weights.square()
        of_vectors.mul_((rates[0] / (self.moved[here].sqrt() + 1e-12))[:, None])
        self.vectors.index_add_(0, here, of_vectors, alpha=-1)
        self.weights[here] -= rates[1] * of_weights / (self.weighed[here].sqrt() + 1e-12)

    def table(self) -> npt.NDArray[np.float32]:
        """What a text's rows are summed from."""
        found: npt.NDArray[np.float32] = (self.vectors * self.weights.exp()[:, None]).numpy()
        return found


def started(rows: int, dimension: int, seed: int) -> npt.NDArray[np.float32]:
    """Unit vectors in random directions: different words begin as unlike as they can."""
    drawn = np.random.default_rng(seed).standard_normal((rows, dimension)).astype(np.float32)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return drawn


def weights(material: Material, rows: int) -> npt.NDArray[np.float32]:
    """By how rare a row is among all bags."""
    share = np.bincount(material.bags.flat, minlength=rows) / len(material.bags.ends)
    return (np.log(COMMON / (COMMON + share)) / 2).astype(np.float32)


def trained(material: Material, model: Rows, plan: Plan, told: Callable[[Rows], None] | None = None) -> Rows:
    """The model after its passes; the rate falls to nothing along a cosine."""
    torch.set_num_threads(plan.threads)
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
    questions, found = model.sums(*of_asked), model.sums(*of_texts)
    commits = torch.from_numpy(material.commit[changes])
    own = (commits[:, None] == commits[None]) & ~torch.eye(len(changes), dtype=torch.bool)
    normal = nn.functional.normalize
    scores = (SCALE * normal(questions) @ normal(found).T).masked_fill(own, -math.inf)
    right = torch.arange(len(changes))
    loss = (nn.functional.cross_entropy(scores, right) + nn.functional.cross_entropy(scores.T, right)) / 2
    loss.backward()
    rows = np.concatenate([of_asked[0], of_texts[0]])
    begins = np.concatenate([of_asked[1], of_texts[1] + len(of_asked[0])])
    model.step(rows, begins, torch.cat([questions.grad, found.grad]), rates)
    return float(loss.item())


def measured(material: Material, table: npt.NDArray[np.float32]) -> str:
    """MRR@10 of each held-out history: subjects, then sentences with the message shown."""
    histories = range(int(material.history.max()) + 1)
    lines = [
        " ".join(f"{ranked(material, history, table, kind):.3f}" for history in histories)
        for kind in (Kind.SUBJECT, Kind.SENTENCE)
    ]
    return " | ".join(lines)


def main() -> None:
    """Train, tell of the held-out histories, keep the table."""
    given = _parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    files = sorted(given.lessons.glob("*.npz"))
    held = [file for file in files if file.stem in given.held_out]
    taught = [file for file in files if file not in held]
    known = vocabulary.chosen(taught, WORDS)
    lexicon = Lexicon({word: row for row, word in enumerate(known)}, BUCKETS)
    material, aside = Material.read(taught, lexicon), Material.read(held, lexicon)
    rows = len(known) + BUCKETS
    logger.info("%d histories, %d changes, %d rows", len(taught), len(material.change), rows)
    begun = started(rows, given.dimension, given.seed)
    if given.started:
        with np.load(given.started) as start:
            told, vectors = start["words"].tobytes().decode().split("\n"), start["vectors"]
        place = {word: row for row, word in enumerate(told)}
        for row, word in enumerate(known):
            if word in place:
                begun[row, : vectors.shape[1]] = vectors[place[word]]
    model = Rows.of(begun, weights(material, rows))
    given.out.mkdir(parents=True, exist_ok=True)

    def kept(now: Rows) -> None:
        words = np.frombuffer("\n".join(known).encode(), np.uint8)
        np.savez(given.out / "table.npz", words=words, rows=now.table())

    trained(
        material, model, Plan(given.passes, given.seed, given.dimension, given.threads, rate=given.rate), kept
    )
    kept(model)
    logger.info("trained: %s", measured(aside, model.table()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m training.table", description=__doc__)
    parser.add_argument("lessons", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--held-out", action="append", default=[], metavar="NAME", help="measure on it instead"
    )
    parser.add_argument("--passes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dimension", type=int, default=EMBEDDING_DIMENSION)
    parser.add_argument("--started", type=Path, help="vectors to begin with")
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--threads", type=int, default=2)
    return parser


if __name__ == "__main__":
    main()
