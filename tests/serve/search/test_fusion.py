"""Reciprocal rank fusion."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.search.retrieval import fuse
from stores.snapshot import Ranked

FIRST_DATE = datetime(2020, 1, 1)  # noqa: DTZ001 - as the database gives it
rankings = st.lists(st.lists(st.integers(0, 12), unique=True, max_size=8), min_size=1, max_size=4)


def ranking(*hunks: int) -> tuple[Ranked, ...]:
    """A lane's ranking; of two hunks the one with the higher number is the newer."""
    return tuple(Ranked(n, 1.0, FIRST_DATE + timedelta(days=n), f"{n:040x}", f"{n}.py") for n in hunks)


def order(*lanes: tuple[Ranked, ...]) -> list[int]:
    return [candidate.hunk_id for candidate in fuse(lanes, limit=50)]


def test_scores_follow_the_formula() -> None:
    """A hunk's score is the sum of 1 / (60 + rank) over the lanes that have it."""
    fused = fuse([ranking(1, 2), ranking(2), ranking(3, 1)], limit=50)
    scores = {candidate.hunk_id: candidate.score for candidate in fused}
    assert scores == pytest.approx({1: 1 / 61 + 1 / 62, 2: 1 / 62 + 1 / 61, 3: 1 / 61})


def test_agreement_beats_a_single_first_place() -> None:
    """A hunk two lanes rank second passes one that a single lane ranks first."""
    assert order(ranking(1, 2), ranking(3, 2)) == [2, 3, 1]


def test_ties_go_to_the_earlier_appearance() -> None:
    """Of equal scores the hunk that appears first in any ranking leads; then the newer one."""
    others = iter(range(1_000, 2_000))

    def with_ranks(places: dict[int, int]) -> tuple[Ranked, ...]:
        return ranking(*(places.get(rank) or next(others) for rank in range(1, 73)))

    # 1/66 + 1/132 = 1/88 + 1/88
    fused = order(with_ranks({6: 7, 28: 8}), with_ranks({72: 7, 28: 8}))
    assert fused.index(7) + 1 == fused.index(8)
    assert order(ranking(7), ranking(8), ranking(9)) == [9, 8, 7]


@given(rankings)
def test_lane_order_says_nothing(lanes: list[list[int]]) -> None:
    """The same rankings in any order fuse to the same result, scores included."""
    ranked = [ranking(*lane) for lane in lanes]
    results = {fuse(shuffled, limit=50) for shuffled in permutations(ranked)}
    assert len(results) == 1


@given(rankings, st.integers(0, 5))
def test_limit_keeps_the_best(lanes: list[list[int]], limit: int) -> None:
    """A shorter result is the beginning of the longer one."""
    ranked = [ranking(*lane) for lane in lanes]
    assert fuse(ranked, limit) == fuse(ranked, 50)[:limit]


def test_no_rankings_fuse_to_nothing() -> None:
    """Empty lanes give no candidates."""
    assert fuse([(), ()], limit=50) == ()
