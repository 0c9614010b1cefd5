"""Evidence -> probabilities -> order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.encoders.cross_encoder import Change
from serve.search import rerank
from serve.search.features import FEATURES, LITERAL, PARTS, Evidence, Found, Pairs, Wanted
from serve.search.rerank import FIT, EvidenceRanker, ReadingRanker, by_evidence, by_fusion
from serve.search.retrieval import Candidate
from stores.snapshot import Floats
from tests.repos import FIRST_DATE

# As far as the cross-encoder's scores go, nearly.
LITTLE: Final = 8.0
MUCH: Final = 17.0
CHANGES: Final = [Change(f"message {number}", f"hunk {number}") for number in range(5)]
NONE = np.zeros(0)
NOTHING = Found(
    Wanted((), (), NONE, NONE.astype(np.bool_), NONE.astype(np.bool_), 1.0, 1.0, frozenset()),
    np.zeros((len(PARTS), 0), np.int64),
)


@dataclass(frozen=True)
class Fixed:
    """A reranker that has its answers ready."""

    answers: tuple[float, ...]

    def probabilities(self, evidence: Evidence) -> Floats:
        return np.array(self.answers[: len(evidence.rows)])


@dataclass(frozen=True)
class Reads:
    """A cross-encoder that has its scores ready."""

    fits: Sequence[float]

    def scores(self, question: str, changes: Sequence[Change]) -> NDArray[np.float32]:
        assert question == "anything"
        return np.array(self.fits[: len(changes)], np.float32)


def candidates(count: int) -> list[Candidate]:
    return [Candidate(number, 1 / (number + 1), str(number), FIRST_DATE, "a.py") for number in range(count)]


def known(rows: Floats) -> Evidence:
    return Evidence(
        rows,
        (NOTHING,) * len(rows),
        np.arange(len(rows)) % 2 == 0,
        np.zeros((len(rows), len(LITERAL)), np.bool_),
        Pairs("anything", lambda: CHANGES[: len(rows)]),
    )


def test_a_weight_for_each_feature() -> None:
    """The numbers are for the evidence that is gathered, and more of anything never speaks against a hit."""
    assert tuple(rerank.WEIGHTS) == FEATURES
    assert tuple(rerank.READING_WEIGHTS) == (*FEATURES, FIT)
    assert min(rerank.WEIGHTS.values()) > 0 > rerank.BIAS
    assert rerank.READING_WEIGHTS[FIT] > 0 > rerank.READING_BIAS


def test_probabilities() -> None:
    """Nothing known is far below weak, all there can be near certainty, and more is always likelier."""
    rows = np.linspace(0, 1, 5)[:, None] * np.ones(len(FEATURES))
    fits = np.linspace(LITTLE, MUCH, 5).tolist()
    for ranker in (EvidenceRanker(), ReadingRanker(lambda: Reads(fits))):
        said = ranker.probabilities(known(rows))
        assert said[0] < rerank.WEAK and said[-1] > 0.95
        assert (np.diff(said) > 0).all()


def test_what_is_read_decides_between_equals() -> None:
    """Where the evidence is the same, the better fit is likelier; without reading, nothing is read."""
    rows = np.full((3, len(FEATURES)), 0.5)
    said = ReadingRanker(lambda: Reads([LITTLE, MUCH, LITTLE])).probabilities(known(rows))
    assert said[0] == said[2] < said[1]

    def unread() -> list[Change]:
        raise AssertionError("read")

    evidence = replace(known(rows), pairs=Pairs("anything", unread))
    assert len(set(EvidenceRanker().probabilities(evidence).tolist())) == 1
    with pytest.raises(AssertionError, match="read"):
        ReadingRanker(lambda: Reads([0, 0, 0])).probabilities(evidence)


def test_likeliest_first() -> None:
    """Reranked by probability; of equal ones fusion's order stays."""
    placed = by_evidence(
        candidates(4), known(np.zeros((4, len(FEATURES)))), Fixed((0.1, 0.7, 0.1, 0.9)), lambda _: 0
    )
    assert [one.candidate.hunk_id for one in placed] == [3, 1, 0, 2]
    assert [one.score for one in placed] == [0.9, 0.7, 0.1, 0.1]


@pytest.mark.parametrize(("older", "leader"), [(0.50, 1), (0.54, 0)])
def test_recency_only_breaks_ties(older: float, leader: int) -> None:
    """Recency raises a probability by its share: enough between near equals, too little for more."""
    placed = by_evidence(
        candidates(2),
        known(np.zeros((2, len(FEATURES)))),
        Fixed((older, 0.50)),
        lambda one: 0.05 * one.hunk_id,
    )
    assert placed[0].candidate.hunk_id == leader
    assert placed[0].probability in (older, 0.50)


def test_what_is_meant_to_the_letter_leads() -> None:
    """A path or a name that the question names raises who has it above near equals, both of them more, none to 1."""
    probabilities = (0.70, 0.50, 0.50, 0.50, 0.99)
    literal = np.array([[False, False], [True, False], [True, True], [False, False], [False, True]])
    evidence = replace(known(np.zeros((5, len(FEATURES)))), literal=literal)
    placed = by_evidence(candidates(5), evidence, Fixed(probabilities), lambda _: 0)
    assert [one.candidate.hunk_id for one in placed] == [4, 2, 1, 0, 3]
    assert all(0 < one.score < 1 for one in placed)
    assert placed[3].score == 0.70 and placed[4].score == 0.50
    assert placed[1].literal == (True, True)


def test_what_is_meant_to_the_letter_is_no_evidence() -> None:
    """Far likelier changes still lead, and nothing is taken for an answer because of where it is."""
    literal = np.array([[False, False], [True, False]])
    evidence = replace(known(np.zeros((2, len(FEATURES)))), literal=literal, told=np.ones(2, np.bool_))
    placed = by_evidence(candidates(2), evidence, Fixed((0.3, rerank.WEAK * 0.9)), lambda _: 0)
    assert [one.candidate.hunk_id for one in placed] == [0, 1]
    assert (placed[1].weak, placed[1].probability) == (True, rerank.WEAK * 0.9)
    assert placed[1].score > rerank.WEAK


def test_weak_where_it_is_known() -> None:
    """A likely hit is not weak; an unlikely one is, unless its commit says nothing to be judged by."""
    probabilities = (0.9, 0.8, rerank.WEAK / 2, rerank.WEAK / 3)
    placed = by_evidence(
        candidates(4), known(np.zeros((4, len(FEATURES)))), Fixed(probabilities), lambda _: 0
    )
    assert [one.weak for one in placed] == [False, False, True, None]
    assert by_fusion(candidates(1))[0].weak is None


def test_fusion_stands_without_a_reranker() -> None:
    """The candidates as they came, with fusion's scores and no claim about them."""
    placed = by_fusion(candidates(3))
    assert [(one.candidate.hunk_id, one.score, one.probability) for one in placed] == [
        (0, 1, None),
        (1, 1 / 2, None),
        (2, 1 / 3, None),
    ]
