"""Candidates in fusion's order -> in the order of how likely each one's commit answers the question.

Placed hunks -> one for each commit: where it stands, and the hunk that it is shown by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.encoders.cross_encoder import Change
from pipeline.file_roles import Role, role_of
from serve.search.features import FEATURES, Evidence, Found
from serve.search.retrieval import Candidate
from stores.snapshot import Floats

# Learnt by `python -m tests.eval.learn` from 1,383 questions of tox, retrofit, okio, urql and structlog, from 150
# subjects asked of okio without its messages, and from 766 questions that are another history's. The encoder learnt
# from none of these. Each history left out of learning, MRR@10 is 0.834, 0.812, 0.815, 0.843 and 0.985. To learn from
# subjects of all five, asked without messages, as well moved that by 0.003, and without messages by -0.001. Symbols,
# the diff alone, the rarest word found, recency, the size of a commit and its message, ranks in lanes and fusion's own
# score were tried: none raised the order of histories that were not learnt from, and some lowered it by 0.02 to 0.06.
# Nor did what the other hunks of a commit have, the nearest of them excepted, which says what the weight of "hunk near"
# says. Indexes of the static encoder are ordered no better by numbers learnt over them.
WEIGHTS: Final = {
    "hunk near": 2.754,
    "hunk near, whitened": 3.720,
    "message near": 1.985,
    "words": 2.131,
    "words found": 2.136,
    "words in the subject": 0.327,
    "words in order": 2.272,
    "names found": 1.838,
    "words in the path": 0.707,
}
BIAS: Final = -7.637
# Of the best hits of questions that these histories answer one in thirteen is below this, and of those they do not
# answer six in seven; below 0.1 one in seven and fourteen in fifteen. Where messages say nothing it is no bound: many
# a right answer is below it.
WEAK: Final = 0.05


# What a path or a quoted name in the question adds to the logit of a candidate that has it: 0.5 comes to 0.82, 0.1 to
# 0.33. So of changes that are about as likely those lead that were asked for, and a far likelier one elsewhere still
# comes first: a hint is no filter. Without it reranking took back what the lanes had preferred.
LITERAL: Final = 1.5


@dataclass(frozen=True, slots=True)
class Placed:
    """A candidate and the score that orders it; what it was found by, and its probability, where they are known.

    `told` says that its commit has a message to be judged by, `literal` what it has of what the question says to the
    letter. The probability is that of the evidence alone: where something was looked for makes no answer of it.
    """

    candidate: Candidate
    score: float
    found: Found | None = None
    probability: float | None = None
    told: bool = True
    literal: tuple[bool, ...] = ()

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
# Learnt with `--samples 100` of the same histories, from 1,033, 100 and 566 questions; the cross-encoder was trained on
# none of the histories. Each left out, MRR@10 is 0.827, 0.769, 0.773, 0.810 and 0.992, on average 0.015 more than by
# evidence alone of the same questions; without messages 0.028 more.
READING_WEIGHTS: Final = {
    "hunk near": 2.145,
    "hunk near, whitened": 2.779,
    "message near": 1.330,
    "words": 1.669,
    "words found": 1.764,
    "words in the subject": 0.000,
    "words in order": 1.612,
    "names found": 1.444,
    "words in the path": 0.706,
    FIT: 0.207,
}
READING_BIAS: Final = -9.353


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


def _raised(probabilities: Floats, amounts: Floats) -> Floats:
    """The probabilities with these amounts added to their logits; bit by bit the same where there is nothing to add."""
    odds = np.exp(amounts)
    return np.where(
        amounts == 0, probabilities, probabilities * odds / (1 - probabilities + probabilities * odds)
    )


def by_fusion(candidates: Sequence[Candidate]) -> list[Placed]:
    """The candidates as they came, which is what `no_rerank` asks for."""
    return [Placed(candidate, candidate.score) for candidate in candidates]


def by_evidence(
    candidates: Sequence[Candidate],
    evidence: Evidence,
    reranker: Reranker,
    recency: Callable[[Candidate], float],
) -> list[Placed]:
    """The likeliest first, raised by what it has to the letter and by the recency of its commit.

    Of equal scores fusion's order stays.
    """
    probabilities = reranker.probabilities(evidence)
    raised = _raised(probabilities, LITERAL * evidence.literal.sum(axis=1))
    placed = [
        Placed(candidate, probable * (1 + recency(candidate)), found, probability, told, tuple(literal))
        for candidate, found, told, literal, probability, probable in zip(
            candidates,
            evidence.found,
            evidence.told.tolist(),
            evidence.literal.tolist(),
            probabilities.tolist(),
            raised.tolist(),
            strict=True,
        )
    ]
    return sorted(placed, key=lambda one: -one.score)


# Who asks how something was done wants to see the code. A changelog says the same in fewer words, and a test in more of
# the question's, so that either is often likelier than the change itself: of 280 hits of 56 questions to httpx, 67 were
# shown by one though the commit's code was a candidate. In 57 of these it had half the likelihood or more, and all but
# three of these changes were what the commit did about the question; of the 10 below, half were of another matter.
LIKELY_ENOUGH: Final = 0.5


def best_of_each_commit(ordered: Iterable[Placed], count: int, roles: frozenset[Role]) -> tuple[Placed, ...]:
    """The first commits, each as likely as its best hunk, shown by its change to the program where that answers too.

    `roles` are what else the question asks for.
    """
    of_commits: dict[str, list[Placed]] = {}
    for placed in ordered:
        of_commits.setdefault(placed.candidate.commit_sha, []).append(placed)
    return tuple(_shown(own, roles | {"source"}) for own in islice(of_commits.values(), count))


def _shown(own: Sequence[Placed], wanted: frozenset[Role]) -> Placed:
    """The first of a commit's hunks, as the likeliest of them that is wanted where one is likely enough."""
    first = own[0]
    if first.probability is None:  # fusion's order is also the order within a commit
        return first
    least = LIKELY_ENOUGH * first.probability
    likely = (one for one in own if (one.probability or 0.0) >= least and _as_literal(one, first))
    shown = next((one for one in likely if role_of(one.candidate.file_path) in wanted), first)
    return replace(first, candidate=shown.candidate, found=shown.found)


def _as_literal(one: Placed, first: Placed) -> bool:
    """Whether it has all that the first has of what the question says to the letter."""
    return all(mine or not others for mine, others in zip(one.literal, first.literal, strict=True))
