"""Rerankers: probabilities from features, the order they give, and the hunk to show for each commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.encoders.cross_encoder import ChangeText
from pipeline.file_classification import FileRole
from serve.search import rerank
from serve.search.features import (
    CROSS_ENCODER_COMMITS,
    FEATURES,
    FIELDS,
    LITERAL_HINTS,
    CandidateFeatures,
    MatchedTerms,
    QueryTerms,
    RerankInputs,
)
from serve.search.rerank import (
    CROSS_ENCODER_MEAN,
    MIN_RELATIVE_PROBABILITY,
    WEAK_PROBABILITY,
    CrossEncoderReranker,
    FeatureReranker,
    ScoredCandidate,
    merge_copies,
    rerank_by_features,
    score_by_fusion,
    select_best_hunks,
)
from serve.search.retrieval import Candidate
from stores.snapshot import Floats
from tests.repos import FIRST_DATE

# Nearly the range of the cross-encoder's scores.
LOW_SCORE: Final = 8.0
HIGH_SCORE: Final = 17.0
EMPTY_ARRAY = np.zeros(0)
NO_MATCH = MatchedTerms(
    QueryTerms(
        (), (), EMPTY_ARRAY, EMPTY_ARRAY.astype(np.bool_), EMPTY_ARRAY.astype(np.bool_), 1.0, 1.0, frozenset()
    ),
    np.zeros((len(FIELDS), 0), np.int64),
)


@dataclass(frozen=True)
class FixedScorer:
    """Cross-encoder with a fixed score for each candidate, and the rows that it has read."""

    scores: Sequence[float]
    rows: list[int] = field(default_factory=list)

    def score_changes(self, question: str, changes: Sequence[ChangeText]) -> NDArray[np.float32]:
        assert question == "anything"
        self.rows[:] = [int(change.hunk) for change in changes]
        return np.array([self.scores[row] for row in self.rows], np.float32)


def make_candidates(count: int) -> list[Candidate]:
    return [Candidate(number, 1 / (number + 1), str(number), FIRST_DATE, "a.py") for number in range(count)]


def load_changes(rows: Sequence[int]) -> list[ChangeText]:
    return [ChangeText("", str(row)) for row in rows]


def make_features(
    rows: Floats, commits: Sequence[str] = (), *, is_question: bool = True
) -> CandidateFeatures:
    return CandidateFeatures(
        rows,
        tuple(commits or map(str, range(len(rows)))),
        (NO_MATCH,) * len(rows),
        np.arange(len(rows)) % 2 == 0,
        np.zeros((len(rows), len(LITERAL_HINTS)), np.bool_),
        RerankInputs("anything", load_changes),
        is_question=is_question,
    )


@pytest.mark.parametrize("model", [rerank.QUESTION_MODEL, rerank.KEYWORD_MODEL])
def test_every_feature_has_a_weight(model: rerank.LogisticModel) -> None:
    """Every feature has a weight, and no weight is negative."""
    assert tuple(model.weights) == FEATURES
    assert min(model.weights.values()) >= 0 > model.bias


def test_keywords_have_weights_of_their_own() -> None:
    """A pair of matched words in the message counts more for a list of words than for a question."""
    rows = np.zeros((2, len(FEATURES)))
    rows[1, FEATURES.index("matched word pairs in message")] = 1
    gains = []
    for is_question in (True, False):
        without, with_pair = FeatureReranker().predict(make_features(rows, is_question=is_question))
        gains.append(with_pair / without)
    assert 1 < gains[0] < 2 < gains[1]


def test_probabilities() -> None:
    """Features of 0 give a weak probability, features of 1 one near 1, and higher features a higher one."""
    rows = np.linspace(0, 1, 5)[:, None] * np.ones(len(FEATURES))
    scores = np.linspace(LOW_SCORE, HIGH_SCORE, 5).tolist()
    for reranker in (FeatureReranker(), CrossEncoderReranker(lambda: FixedScorer(scores))):
        probabilities = reranker.predict(make_features(rows))
        assert probabilities[0] < rerank.WEAK_PROBABILITY and probabilities[-1] > 0.95
        assert (np.diff(probabilities) > 0).all()


def test_cross_encoder_orders_equal_features() -> None:
    """For equal features a better score gives a higher probability; the feature reranker loads no changes."""
    rows = np.full((3, len(FEATURES)), 0.5)
    probabilities = CrossEncoderReranker(lambda: FixedScorer([LOW_SCORE, HIGH_SCORE, LOW_SCORE])).predict(
        make_features(rows)
    )
    assert probabilities[0] == probabilities[2] < probabilities[1]

    def fail_to_load(_: Sequence[int]) -> list[ChangeText]:
        raise AssertionError("loaded")

    features = replace(make_features(rows), rerank_inputs=RerankInputs("anything", fail_to_load))
    assert len(set(FeatureReranker().predict(features).tolist())) == 1
    with pytest.raises(AssertionError, match="loaded"):
        CrossEncoderReranker(lambda: FixedScorer([0, 0, 0])).predict(features)


def test_cross_encoder_reads_the_likeliest_commits() -> None:
    """The cross-encoder reads the likeliest hunk of each of the likeliest commits; others keep their probability."""
    count = 2 * CROSS_ENCODER_COMMITS + 2
    rows = np.linspace(1, 0, count)[:, None] * np.ones(len(FEATURES))
    features = make_features(rows, [str(number // 2) for number in range(count)])
    scorer = FixedScorer([HIGH_SCORE] * count)
    before, after = (
        FeatureReranker().predict(features),
        CrossEncoderReranker(lambda: scorer).predict(features),
    )
    assert scorer.rows == list(range(0, 2 * CROSS_ENCODER_COMMITS, 2))
    assert (after[:-2] > before[:-2]).all() and (after[-2:] == before[-2:]).all()
    assert (np.diff(after) < 0).all()

    typical = FixedScorer([CROSS_ENCODER_MEAN] * count)
    assert (CrossEncoderReranker(lambda: typical).predict(features) == before).all()


def test_order_by_probability() -> None:
    """Candidates are ordered by probability; equal ones keep the order of fusion."""
    ranked_candidates = rerank_by_features(
        make_candidates(4),
        make_features(np.zeros((4, len(FEATURES)))),
        np.array((0.1, 0.7, 0.1, 0.9)),
        lambda _: 0,
    )
    assert [hit.candidate.hunk_id for hit in ranked_candidates] == [3, 1, 0, 2]
    assert [hit.score for hit in ranked_candidates] == [0.9, 0.7, 0.1, 0.1]


@pytest.mark.parametrize(("older", "leader"), [(0.50, 1), (0.54, 0)])
def test_recency_only_breaks_ties(older: float, leader: int) -> None:
    """Recency raises a probability by its share, which only decides between nearly equal candidates."""
    ranked = rerank_by_features(
        make_candidates(2),
        make_features(np.zeros((2, len(FEATURES)))),
        np.array((older, 0.50)),
        lambda hit: 0.05 * hit.hunk_id,
    )
    assert ranked[0].candidate.hunk_id == leader
    assert ranked[0].probability in (older, 0.50)


def test_literal_matches_are_boosted() -> None:
    """A path or name of the query raises a score, both raise it more, and no score reaches 1."""
    probabilities = (0.70, 0.50, 0.50, 0.50, 0.99)
    literal = np.array([[False, False], [True, False], [True, True], [False, False], [False, True]])
    features = replace(make_features(np.zeros((5, len(FEATURES)))), literal_matches=literal)
    ranked = rerank_by_features(make_candidates(5), features, np.array(probabilities), lambda _: 0)
    assert [hit.candidate.hunk_id for hit in ranked] == [4, 2, 1, 0, 3]
    assert all(0 < hit.score < 1 for hit in ranked)
    assert ranked[3].score == 0.70 and ranked[4].score == 0.50
    assert ranked[1].literal_matches == (True, True)


def test_literal_matches_do_not_change_the_probability() -> None:
    """Much likelier candidates still lead, and a boost does not change the probability or weakness."""
    literal = np.array([[False, False], [True, False]])
    features = replace(
        make_features(np.zeros((2, len(FEATURES)))),
        literal_matches=literal,
        has_informative_message=np.ones(2, np.bool_),
    )
    ranked = rerank_by_features(
        make_candidates(2), features, np.array((0.6, rerank.WEAK_PROBABILITY * 0.9)), lambda _: 0
    )
    assert [hit.candidate.hunk_id for hit in ranked] == [0, 1]
    assert (ranked[1].is_weak, ranked[1].probability) == (True, rerank.WEAK_PROBABILITY * 0.9)
    assert ranked[1].score > rerank.WEAK_PROBABILITY


def test_weak_hits() -> None:
    """A likely hit is not weak; an unlikely one is, unless its commit message is uninformative."""
    probabilities = (0.9, 0.8, rerank.WEAK_PROBABILITY / 2, rerank.WEAK_PROBABILITY / 3)
    ranked = rerank_by_features(
        make_candidates(4),
        make_features(np.zeros((4, len(FEATURES)))),
        np.array(probabilities),
        lambda _: 0,
    )
    assert [hit.is_weak for hit in ranked] == [False, False, True, None]
    assert score_by_fusion(make_candidates(1))[0].is_weak is None


def test_order_without_reranker() -> None:
    """Without a reranker, order and scores are those of fusion, and probabilities are unknown."""
    ranked = score_by_fusion(make_candidates(3))
    assert [(hit.candidate.hunk_id, hit.score, hit.probability) for hit in ranked] == [
        (0, 1, None),
        (1, 1 / 2, None),
        (2, 1 / 3, None),
    ]


def make_candidate(path: str, commit: str = "one") -> Candidate:
    return Candidate(hash(path), 0.01, commit, FIRST_DATE, path)


def make_scored_candidate(
    path: str, probability: float, *literal_matches: bool, commit: str = "one"
) -> ScoredCandidate:
    return ScoredCandidate(
        make_candidate(path, commit), 1.05 * probability, None, probability, literal_matches=literal_matches
    )


def show_commit(*hunks: ScoredCandidate, roles: frozenset[FileRole] = frozenset()) -> str:
    (best,) = select_best_hunks(hunks, 5, roles)
    return best.candidate.file_path


@pytest.mark.parametrize(
    "first", ["CHANGELOG.md", "tests/test_pool.py", "setup.py", "core/api/core.api", "uv.lock"]
)
def test_source_code_is_preferred(first: str) -> None:
    """A hunk of source code is shown instead of other files; the most likely one if there are several."""
    hunks = (
        make_scored_candidate(first, 0.9),
        make_scored_candidate("docs/pool.md", 0.8),
        make_scored_candidate("src/pool.py", 0.7),
        make_scored_candidate("src/a.py", 0.6),
    )
    assert show_commit(*hunks) == "src/pool.py"


def test_code_that_covers_the_query_is_shown() -> None:
    """Of several files of source code, the one whose path and change have most of the words, for its probability."""
    query_terms = replace(
        NO_MATCH.query_terms,
        terms=("cooki", "sign"),
        typed_words=("cookies", "signed"),
        weights=np.ones(2),
        is_content=np.ones(2, np.bool_),
        total_weight=2.0,
    )

    def make_hunk(path: str, probability: float, /, **fields: tuple[int, int]) -> ScoredCandidate:
        counts = np.array([fields.get(name, (0, 0)) for name in FIELDS])
        scored = make_scored_candidate(path, probability)
        return replace(scored, matched_terms=MatchedTerms(query_terms, counts))

    message_only = make_hunk("src/app.py", 0.9, message=(3, 3))
    half = make_hunk("src/globals.py", 0.8, change=(5, 0))
    full = make_hunk("src/sessions.py", 0.6, path=(1, 0), symbols=(0, 1))
    (best,) = select_best_hunks((message_only, half, full), 5, frozenset())
    assert (best.candidate, best.matched_terms) == (full.candidate, full.matched_terms)
    assert (best.score, best.probability) == (message_only.score, message_only.probability)
    assert show_commit(message_only, half, replace(full, probability=0.46)) == "src/sessions.py"
    assert show_commit(message_only, half, replace(full, probability=0.44)) == "src/globals.py"
    assert show_commit(message_only, make_hunk("src/b.py", 0.8)) == "src/app.py"
    assert show_commit(message_only, make_hunk("tests/test_b.py", 0.9, change=(1, 1))) == "src/app.py"


def test_order_and_scores_are_those_of_the_best_hunk() -> None:
    """Order, score and weakness of a commit are those of its best hunk, whichever hunk is shown."""
    first = (
        make_scored_candidate("README.md", WEAK_PROBABILITY * 1.5),
        make_scored_candidate("src/a.py", WEAK_PROBABILITY),
    )
    second = (
        make_scored_candidate("README.md", WEAK_PROBABILITY * 0.9, commit="two"),
        make_scored_candidate("src/a.py", WEAK_PROBABILITY * 0.8, commit="two"),
    )
    ranked_candidates = sorted((*first, *second), key=lambda hit: -hit.score)
    best = select_best_hunks(ranked_candidates, 5, frozenset())
    assert [(hit.candidate.commit_sha, hit.score, hit.is_weak) for hit in best] == [
        ("one", first[0].score, False),
        ("two", second[0].score, True),
    ]
    assert {hit.candidate.file_path for hit in best} == {"src/a.py"}
    assert select_best_hunks(ranked_candidates, 1, frozenset()) == best[:1]


def test_unlikely_code_is_not_shown() -> None:
    """Code with less than half the probability of the best hunk is not shown."""
    minimum = 0.9 * MIN_RELATIVE_PROBABILITY
    assert (
        show_commit(make_scored_candidate("README.md", 0.9), make_scored_candidate("src/a.py", minimum))
        == "src/a.py"
    )
    assert (
        show_commit(
            make_scored_candidate("README.md", 0.9), make_scored_candidate("src/a.py", minimum - 1e-9)
        )
        == "README.md"
    )


@pytest.mark.parametrize(
    ("role", "first", "before"),
    [
        ("tests", "tests/test_a.py", "CHANGELOG.md"),
        ("prose", "CHANGELOG.md", "setup.py"),
        ("other", "pyproject.toml", "README.md"),
    ],
)
def test_requested_roles_are_shown(role: FileRole, first: str, before: str) -> None:
    """Tests, documentation or configuration are shown if the query asks for them; other files are still replaced."""
    hunks = make_scored_candidate(first, 0.9), make_scored_candidate("src/a.py", 0.8)
    assert show_commit(*hunks, roles=frozenset({role})) == first
    assert show_commit(*hunks) == "src/a.py"
    assert show_commit(make_scored_candidate(before, 0.9), *hunks, roles=frozenset({role})) == first


def test_literal_matches_are_kept() -> None:
    """A hunk with a path or name of the query is replaced only by another one that has it too."""
    first = make_scored_candidate("tests/test_a.py", 0.9, True, False)
    assert show_commit(first, make_scored_candidate("src/a.py", 0.8, False, True)) == "tests/test_a.py"
    assert show_commit(first, make_scored_candidate("src/a.py", 0.8, True, True)) == "src/a.py"
    assert (
        show_commit(
            make_scored_candidate("tests/test_a.py", 0.9, False, False),
            make_scored_candidate("src/a.py", 0.8, False, False),
        )
        == "src/a.py"
    )


def test_without_reranking_the_first_hunk_is_shown() -> None:
    """Without reranking, the first hunk of each commit is shown."""
    hunks = score_by_fusion(
        [make_candidate("README.md"), make_candidate("src/a.py"), make_candidate("b.py", "two")]
    )
    best = select_best_hunks(hunks, 5, frozenset())
    assert [hit.candidate.file_path for hit in best] == ["README.md", "b.py"]


def test_copies_are_merged() -> None:
    """Copies are shown by the oldest one, at the rank and score of the best; one that the query names stays."""
    copy = make_scored_candidate("a.py", 0.9, commit="copy")
    other = make_scored_candidate("a.py", 0.8, commit="other")
    original = make_scored_candidate("a.py", 0.7, commit="original")
    earlier = replace(original.candidate, commit_date=FIRST_DATE - timedelta(days=1))
    original = replace(original, candidate=earlier)
    copies = {"copy": ("original", "missing"), "original": ("copy", "missing")}
    first, second = merge_copies((copy, other, original), copies)
    assert (first.candidate, first.score, second) == (original.candidate, copy.score, other)

    named = replace(copy, candidate=replace(copy.candidate, is_referring=True))
    assert merge_copies((named, other, original), copies) == (named, other)
