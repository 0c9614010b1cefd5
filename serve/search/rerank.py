"""Reranking of candidates, and the choice of one hunk for each commit.

- `FeatureReranker`: logistic regression over the features of a candidate.
- `CrossEncoderReranker`: this regression; for the likeliest commits, a cross-encoder's score adjusts the logit.
- `select_best_hunks`: choice of one hunk for each commit.
- `merge_copies`: choice of one candidate for all commits with the same patch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.encoders.cross_encoder import ChangeText
from pipeline.file_classification import FileRole, classify_role
from serve.search.features import CROSS_ENCODER_COMMITS, FEATURES, CandidateFeatures, MatchedTerms
from serve.search.retrieval import Candidate
from stores.snapshot import Floats


@dataclass(frozen=True, slots=True)
class LogisticModel:
    """Logistic regression: a weight for each feature, and the bias of the logit."""

    weights: Mapping[str, float]
    bias: float


# For questions and sentences (`Query.is_question`). See "How the reranker was trained" in serve/README.md.
QUESTION_MODEL: Final = LogisticModel(
    {
        "hunk similarity": 5.05,
        "hunk similarity, whitened": 2.62,
        "message similarity": 1.51,
        "BM25": 2.69,
        "matched words": 1.56,
        "matched words in subject": 0.0,
        "matched word pairs in message": 0.15,
        "matched identifiers": 2.55,
        "matched words in path": 0.76,
        "similarity of other files": 1.13,
        "file of requested role": 0.79,
        "subject as asked": 0.63,
        "removed lines": 1.32,
    },
    bias=-7.47,
)
# For other queries, which are often words of a subject. The weights were fitted to words of subjects, then scaled so
# that a commit with query words in its code only is not below WEAK_PROBABILITY.
KEYWORD_MODEL: Final = LogisticModel(
    {
        "hunk similarity": 1.71,
        "hunk similarity, whitened": 2.22,
        "message similarity": 1.79,
        "BM25": 2.15,
        "matched words": 2.12,
        "matched words in subject": 2.08,
        "matched word pairs in message": 1.94,
        "matched identifiers": 1.24,
        "matched words in path": 0.45,
        "similarity of other files": 1.19,
        "file of requested role": 0.41,
        "subject as asked": 0.83,
        "removed lines": 1.26,
    },
    bias=-6.8,
)
# Weight of the cross-encoder's score in the logit. With 0.1, nDCG@10 on the development questions was 0.007 lower.
CROSS_ENCODER_WEIGHT: Final = 0.05
# Mean score of the cross-encoder. A commit with this score keeps its probability.
CROSS_ENCODER_MEAN: Final = 14.0

# Hits below this probability are weak. The best hit is weak for 1 in 7 of the development questions (tests/eval) that
# have an answer, and for half of those that have none.
WEAK_PROBABILITY: Final = 0.1
# Added to the logit for each text of the query that the hunk has literally (`features.LITERAL_HINTS`): a probability of
# 0.5 becomes 0.82, 0.1 becomes 0.33. A much likelier candidate without such a text still comes first.
LITERAL_BOOST: Final = 1.5
# A hunk of a requested role can replace the best hunk of its commit if its probability is at least this share of the
# best hunk's. See "Which hunk of a commit is shown" in serve/README.md.
MIN_RELATIVE_PROBABILITY: Final = 0.5


@dataclass(frozen=True, slots=True)
class ScoredCandidate:
    """A candidate with the score that orders it.

    `matched_terms` counts the query terms in the candidate. `probability` is the prediction of the reranker, without
    boosts. `has_informative_message`: as in `CandidateFeatures`. `literal_matches` has a value for each of
    `features.LITERAL_HINTS`: True if the hunk has the text. Without reranking, only candidate and score are set.
    """

    candidate: Candidate
    score: float
    matched_terms: MatchedTerms | None = None
    probability: float | None = None
    has_informative_message: bool = True
    literal_matches: tuple[bool, ...] = ()

    @property
    def is_weak(self) -> bool | None:
        """True if the candidate is probably no answer; None if unknown.

        A low probability says nothing about a commit without an informative message, because many right answers
        without such a message have a low probability.
        """
        if self.probability is None:
            return None
        if self.candidate.is_referring:
            return False
        if self.probability < WEAK_PROBABILITY and not self.has_informative_message:
            return None
        return self.probability < WEAK_PROBABILITY


class Reranker(Protocol):
    """Model that predicts from features whether a candidate answers the query."""

    def predict(self, features: CandidateFeatures) -> Floats:
        """Return a probability for each candidate."""
        ...


class FeatureReranker:
    """Logistic regression over the features, without a cross-encoder."""

    def predict(self, features: CandidateFeatures) -> Floats:
        """Return the probabilities by `QUESTION_MODEL` or `KEYWORD_MODEL`."""
        return _to_probabilities(_compute_logits(features))


class CrossEncoderScorer(Protocol):
    """Cross-encoder that scores how well changes answer a question."""

    def score_changes(self, question: str, changes: Sequence[ChangeText]) -> NDArray[np.float32]:
        """Return one score for each change, the higher the better."""
        ...


@dataclass(frozen=True, slots=True)
class CrossEncoderReranker:
    """Logistic regression over the features, adjusted by a cross-encoder's scores of the likeliest commits.

    Every query calls `load_model`. The reranker holds no model, so the caller can unload it between queries.
    """

    load_model: Callable[[], CrossEncoderScorer]

    def predict(self, features: CandidateFeatures) -> Floats:
        """Score the likeliest hunk of each of the likeliest commits, and return the probabilities.

        The weighted score is added to the logits of all candidates of the commit, which keep their order.
        """
        logits, inputs = _compute_logits(features), features.rerank_inputs
        best_index_by_commit: dict[str, int] = {}
        for index in np.argsort(-logits, kind="stable").tolist():
            best_index_by_commit.setdefault(features.commits[index], index)
        scored_index_by_commit = dict(islice(best_index_by_commit.items(), CROSS_ENCODER_COMMITS))
        if not scored_index_by_commit:
            return _to_probabilities(logits)
        changes = inputs.load_changes(list(scored_index_by_commit.values()))
        scores = self.load_model().score_changes(inputs.question, changes).tolist()
        score_by_commit = dict(zip(scored_index_by_commit, scores, strict=True))
        all_scores = [score_by_commit.get(commit, CROSS_ENCODER_MEAN) for commit in features.commits]
        corrections = CROSS_ENCODER_WEIGHT * (np.array(all_scores) - CROSS_ENCODER_MEAN)
        return _to_probabilities(logits + corrections)


def _compute_logits(features: CandidateFeatures) -> Floats:
    model = QUESTION_MODEL if features.is_question else KEYWORD_MODEL
    weights = np.array([model.weights[feature] for feature in FEATURES])
    # Not a matrix product, because its results for equal rows can differ in the last bit, so ties would not stay ties.
    return np.asarray((features.matrix * weights).sum(axis=1) + model.bias)


def _to_probabilities(logits: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-logits)))


def score_by_fusion(candidates: Sequence[Candidate]) -> list[ScoredCandidate]:
    """Return the candidates in the given order with their scores of rank fusion, for searches without reranking."""
    return [ScoredCandidate(candidate, candidate.score) for candidate in candidates]


def rerank_by_features(
    candidates: Sequence[Candidate],
    features: CandidateFeatures,
    probabilities: Floats,
    compute_recency_weight: Callable[[Candidate], float],
) -> list[ScoredCandidate]:
    """Order candidates by probability, boosted by literal matches and by the recency of the commit.

    Candidates of `Query.referring_commits` come first. Ties keep the order of `candidates`, which is the order of rank
    fusion. `probabilities`: prediction of a reranker for the features.
    `compute_recency_weight`: returns the share by which the recency of the commit raises the score.
    """
    boosted_probabilities = _add_to_logits(
        probabilities, LITERAL_BOOST * features.literal_matches.sum(axis=1)
    )
    scored_candidates = [
        ScoredCandidate(
            candidate,
            score=boosted_probability * (1 + compute_recency_weight(candidate)),
            matched_terms=matched_terms,
            probability=probability,
            has_informative_message=has_informative_message,
            literal_matches=tuple(literal_matches),
        )
        for candidate, matched_terms, has_informative_message, literal_matches, probability, boosted_probability in zip(
            candidates,
            features.matched_terms,
            features.has_informative_message.tolist(),
            features.literal_matches.tolist(),
            probabilities.tolist(),
            boosted_probabilities.tolist(),
            strict=True,
        )
    ]
    return sorted(scored_candidates, key=get_sort_key)


def get_sort_key(scored: ScoredCandidate) -> tuple[bool, float]:
    """Return the key that sorts candidates, the best first."""
    return not scored.candidate.is_referring, -scored.score


def _add_to_logits(probabilities: Floats, amounts: Floats) -> Floats:
    """Return the probabilities after adding the amounts to their logits. An amount of 0 changes no bit."""
    odds_factors = np.exp(amounts)
    scaled = probabilities * odds_factors
    return np.where(amounts == 0, probabilities, scaled / (1 - probabilities + scaled))


def select_best_hunks(
    ranked_candidates: Iterable[ScoredCandidate], count: int, roles: frozenset[FileRole]
) -> tuple[ScoredCandidate, ...]:
    """Return one hunk for each of the first `count` commits, with the score of the commit's best hunk.

    A hunk is preferred if its file is source code or has one of `roles`, if it has all literal matches of the commit's
    best hunk, and if its probability is at least MIN_RELATIVE_PROBABILITY of the best hunk's. The result is the
    preferred hunk with the highest product of its probability and the share of the query's words in its path, symbols
    and change. Without a preferred hunk, it is the best hunk. `roles`: file roles that the query names.
    """
    by_commit: dict[str, list[ScoredCandidate]] = {}
    for scored in ranked_candidates:
        by_commit.setdefault(scored.candidate.commit_sha, []).append(scored)
    requested_roles: frozenset[FileRole] = roles | {"source"}
    return tuple(_choose_hunk(hunks, requested_roles) for hunks in islice(by_commit.values(), count))


def merge_copies(
    best_candidates: Sequence[ScoredCandidate], copies: Mapping[str, Collection[str]]
) -> tuple[ScoredCandidate, ...]:
    """Return the oldest candidate of each group of copies, with rank and score of the group's best candidate.

    `copies`: for each commit, the other commits with the same patch. A candidate replaces the best one only if
    both or neither belong to `Query.referring_commits` (`Candidate.is_referring`).
    """
    hits: list[ScoredCandidate] = []
    merged_commits: set[str] = set()
    for best in best_candidates:
        sha = best.candidate.commit_sha
        if sha in merged_commits:
            continue
        group = {sha, *copies.get(sha, ())}
        merged_commits |= group
        oldest = min(
            (
                scored.candidate
                for scored in best_candidates
                if scored.candidate.commit_sha in group
                and scored.candidate.is_referring == best.candidate.is_referring
            ),
            key=lambda candidate: candidate.commit_date,
        )
        hits.append(best if oldest is best.candidate else replace(best, candidate=oldest))
    return tuple(hits)


def _choose_hunk(hunks: Sequence[ScoredCandidate], roles: frozenset[FileRole]) -> ScoredCandidate:
    """Return the hunk of a commit to show, with the score of the commit's first hunk.

    See `select_best_hunks` for the choice. `hunks`: hunks of the commit, the best first. `roles`: preferred file roles.
    """
    first = hunks[0]
    if first.probability is None:  # without reranking, the probabilities are unknown
        return first
    minimum = MIN_RELATIVE_PROBABILITY * first.probability
    likely_hunks = (
        hunk
        for hunk in hunks
        if (hunk.probability or 0.0) >= minimum
        and _has_literal_matches_of(hunk, first)
        and classify_role(hunk.candidate.file_path) in roles
    )
    shown_hunk = max(likely_hunks, key=_rate_hunk, default=first)
    return replace(first, candidate=shown_hunk.candidate, matched_terms=shown_hunk.matched_terms)


def _rate_hunk(hunk: ScoredCandidate) -> float:
    """Return the probability times the share of the query's words in path, symbols and change."""
    share = hunk.matched_terms.compute_share_outside_message() if hunk.matched_terms else 0.0
    return share * (hunk.probability or 0.0)


def _has_literal_matches_of(hunk: ScoredCandidate, first: ScoredCandidate) -> bool:
    """Check whether a hunk has every literal match of the first hunk."""
    pairs = zip(hunk.literal_matches, first.literal_matches, strict=True)
    return all(is_match or not is_first_match for is_match, is_first_match in pairs)
