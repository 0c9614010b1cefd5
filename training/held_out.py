"""How well a table ranks histories it was not trained on: subjects asked of changes whose message is hidden."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from stores.space import learnt
from training.lessons import Kind
from training.material import NONE, Bags, Ints, Material

Floats = npt.NDArray[np.float32]

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
