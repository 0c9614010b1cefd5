"""`select_best_hunks`: one hit for each commit, and the hunk to show for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from pipeline.file_roles import FileRole
from serve.search.rerank import (
    MIN_RELATIVE_PROBABILITY,
    WEAK_PROBABILITY,
    ScoredCandidate,
    merge_copies,
    order_by_fusion,
    select_best_hunks,
)
from serve.search.retrieval import Candidate
from tests.repos import FIRST_DATE


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
    hunks = order_by_fusion(
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
