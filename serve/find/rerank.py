"""Candidates in fusion's order -> in the order of how likely each one's commit answers the question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.cross_encoder import Change
from serve.find.evidence import FEATURES, Evidence, Found
from serve.find.fuse import Candidate
from stores.ranking import Floats

# Learnt as `python -m tests.eval.learn` does, from 1,071 questions of the newest years of tox, virtualenv, urql, okio
# and moshi, and from 450 subjects asked of tox, okio and structlog without their messages. The latter moved MRR@10 on
# histories that were not learnt from little: 0.437 to 0.449 where messages are hidden, 0.910 to 0.916 on one changelog,
# 0.935 to 0.936 on another, 0.852 to 0.842 on a third.
# Symbols, the diff alone, the rarest word found, recency, the size of a commit and its message, ranks in lanes and
# fusion's own score were tried: none raised the order of histories that were not learnt from, and some lowered it
# by 0.02 to 0.06. Nor did what the other hunks of a commit have, the nearest of them excepted, which says what the
# weight of "hunk near" says. Learning from the 120 graded questions in `tests/eval/learning/sheets` as well gave the
# same order: nDCG@10 0.515 on 142 others, where these numbers gave 0.514.
WEIGHTS: Final = {
    "hunk near": 1.854,
    "hunk near, whitened": 3.937,
    "message near": 1.385,
    "words": 2.917,
    "words found": 1.930,
    "words in the subject": 1.511,
    "words in order": 1.647,
    "names found": 2.327,
    "words in the path": 0.880,
}
BIAS: Final = -6.927
# Of the best hits of questions that a history answers a fifth are below this, and of those it does not answer nine
# tenths (by the evidence alone, on three histories that were not learnt from; with the cross-encoder an eighth and nine
# tenths, on six that the ranker was learnt from). Where messages say nothing it is no bound: of questions that 1,000
# commits of flask answer, with every message replaced by one word, half would be below it.
WEAK: Final = 0.05


@dataclass(frozen=True, slots=True)
class Placed:
    """A candidate and the score that orders it; what it was found by, and its probability, where they are known.

    `told` says that its commit has a message to be judged by.
    """

    candidate: Candidate
    score: float
    found: Found | None = None
    probability: float | None = None
    told: bool = True

    @property
    def weak(self) -> bool | None:
        """Whether it is more likely no precedent, where that is known."""
        if self.probability is None or (self.probability < WEAK and not self.told):
            return None
        return self.probability < WEAK


class Reranker(Protocol):
    """Says from what is known of candidates how likely each one's commit answers."""

    def probabilities(self, evidence: Evidence) -> Floats:
        """A number from 0 to 1 for each row of the evidence."""
        ...


# What the cross-encoder makes of a candidate, beside the evidence.
FIT: Final = "fit"
# Learnt in the same way from 527 questions of tox, retrofit, okio and urql, 240 subjects asked of okio and structlog
# without their messages, and, of the first four, 360 that are another history's. The cross-encoder was trained on none.
# Where one history was left out of learning, MRR@10 on it rose from 0.547 to 0.617 and 0.456 to 0.527 without
# messages, from 0.811 to 0.847, 0.806 to 0.843 and 0.768 to 0.796 with them, and went from 0.803 to 0.801; nDCG@10 on
# 142 questions of four others rose by 0.020 [0.001, 0.039].
READING_WEIGHTS: Final = {
    "hunk near": 1.056,
    "hunk near, whitened": 3.069,
    "message near": 0.834,
    "words": 2.314,
    "words found": 1.865,
    "words in the subject": 0.586,
    "words in order": 1.216,
    "names found": 1.651,
    "words in the path": 0.474,
    FIT: 0.296,
}
READING_BIAS: Final = -10.400


class Reader(Protocol):
    """Says of a question and changes how well each one fits, as a cross-encoder does."""

    def scores(self, question: str, changes: Sequence[Change]) -> NDArray[np.float32]:
        """One number for each change, the higher the better."""
        ...


class EvidenceRanker:
    """A logistic regression: nothing to load, nothing to unload."""

    def probabilities(self, evidence: Evidence) -> Floats:
        """One product."""
        return _probable(evidence.rows, [WEIGHTS[feature] for feature in FEATURES], BIAS)


@dataclass(frozen=True, slots=True)
class ReadingRanker:
    """The same over the evidence and what the cross-encoder makes of question and change, the strongest piece of it.

    `model` is asked for at each question, so that its owner may unload it.
    """

    model: Callable[[], Reader]

    def probabilities(self, evidence: Evidence) -> Floats:
        """One product, once every candidate has been read."""
        pairs = evidence.pairs
        fits = self.model().scores(pairs.question, pairs.changes())
        known: Floats = np.column_stack((evidence.rows, fits)).astype(np.float64)
        return _probable(known, [READING_WEIGHTS[name] for name in (*FEATURES, FIT)], READING_BIAS)


def _probable(rows: Floats, weights: Sequence[float], bias: float) -> Floats:
    # Row by row: a matrix product may end differently for rows that are the same, and ties would not be fusion's.
    logits = (rows * np.array(weights)).sum(axis=1) + bias
    return np.asarray(1 / (1 + np.exp(-logits)))


def by_fusion(candidates: Sequence[Candidate]) -> list[Placed]:
    """The candidates as they came, which is what `no_rerank` asks for."""
    return [Placed(candidate, candidate.score) for candidate in candidates]


def by_evidence(
    candidates: Sequence[Candidate],
    evidence: Evidence,
    reranker: Reranker,
    recency: Callable[[Candidate], float],
) -> list[Placed]:
    """The likeliest first, raised by the recency of its commit; of equal scores fusion's order stays."""
    probabilities = reranker.probabilities(evidence).tolist()
    placed = [
        Placed(candidate, probability * (1 + recency(candidate)), found, probability, told)
        for candidate, found, told, probability in zip(
            candidates, evidence.found, evidence.told.tolist(), probabilities, strict=True
        )
    ]
    return sorted(placed, key=lambda one: -one.score)
