"""Reciprocal rank fusion."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.search.retrieval import fuse_rankings
from stores.snapshot import RankedHunk

FIRST_DATE = datetime(2020, 1, 1)  # noqa: DTZ001 - like times of the database
rankings = st.lists(st.lists(st.integers(0, 12), unique=True, max_size=8), min_size=1, max_size=4)


def make_ranking(*hunks: int) -> tuple[RankedHunk, ...]:
    """Return a ranking of a lane; a hunk with a higher number is newer."""
    return tuple(RankedHunk(n, 1.0, FIRST_DATE + timedelta(days=n), f"{n:040x}", f"{n}.py") for n in hunks)


def list_fused_ids(*lanes: tuple[RankedHunk, ...]) -> list[int]:
    return [candidate.hunk_id for candidate in fuse_rankings(lanes, limit=50)]


def test_scores_follow_the_formula() -> None:
    """The score of a hunk is the sum of 1 / (60 + rank) over the lanes that contain it."""
    candidates = fuse_rankings([make_ranking(1, 2), make_ranking(2), make_ranking(3, 1)], limit=50)
    scores = {candidate.hunk_id: candidate.score for candidate in candidates}
    assert scores == pytest.approx({1: 1 / 61 + 1 / 62, 2: 1 / 62 + 1 / 61, 3: 1 / 61})


def test_agreement_beats_a_single_first_place() -> None:
    """A hunk ranked second by two lanes comes before one ranked first by a single lane."""
    assert list_fused_ids(make_ranking(1, 2), make_ranking(3, 2)) == [2, 3, 1]


def test_ties_go_to_the_better_rank() -> None:
    """Of equal scores the hunk with the best rank in any lane leads; then the newer one."""
    others = iter(range(1_000, 2_000))

    def rank_hunks(hunks_by_rank: dict[int, int]) -> tuple[RankedHunk, ...]:
        return make_ranking(*(hunks_by_rank.get(rank) or next(others) for rank in range(1, 73)))

    # 1/66 + 1/132 = 1/88 + 1/88
    fused_ids = list_fused_ids(rank_hunks({6: 7, 28: 8}), rank_hunks({72: 7, 28: 8}))
    assert fused_ids.index(7) + 1 == fused_ids.index(8)
    assert list_fused_ids(make_ranking(7), make_ranking(8), make_ranking(9)) == [9, 8, 7]


@given(rankings)
def test_lane_order_does_not_matter(lanes: list[list[int]]) -> None:
    """The order of the rankings changes neither the result nor its scores."""
    ranked_lanes = [make_ranking(*lane) for lane in lanes]
    results = {fuse_rankings(shuffled, limit=50) for shuffled in permutations(ranked_lanes)}
    assert len(results) == 1


@given(rankings, st.integers(0, 5))
def test_limit_keeps_the_best(lanes: list[list[int]], limit: int) -> None:
    """A shorter result is the beginning of the longer one."""
    ranked_lanes = [make_ranking(*lane) for lane in lanes]
    assert fuse_rankings(ranked_lanes, limit) == fuse_rankings(ranked_lanes, 50)[:limit]


def test_empty_lanes() -> None:
    """Empty lanes give no candidates."""
    assert fuse_rankings([(), ()], limit=50) == ()
