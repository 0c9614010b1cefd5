"""Order of the vector lane by hunk and message similarity, and reciprocal rank fusion."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.search.retrieval import fuse_rankings, order_with_messages
from stores.compatibility import EMBEDDING_DIMENSION
from stores.snapshot import RankedHunk
from stores.vector_search import MESSAGE_WEIGHT, CommitMessages
from stores.vectors import quantize
from tests.repos import FIRST_DATE
from tests.stores.sample_index import make_unit_vector

QUERY = make_unit_vector(1).astype(np.float32)


def make_hunks(*scores: float) -> list[RankedHunk]:
    """Return hunks of commits `0`, `1`, ... with these similarities."""
    return [RankedHunk(n, score, FIRST_DATE, str(n), "a.py") for n, score in enumerate(scores)]


def make_messages(*cosines: float) -> CommitMessages:
    """Return messages of commits `0`, `1`, ... with these similarities to the query."""
    rows = [make_unit_vector(cosine, (1 - cosine**2) ** 0.5).astype(np.float32) for cosine in cosines]
    rows_by_sha = {str(n): n for n in range(len(rows))}
    texts = pa.chunked_array([[""] * len(rows)], pa.string())
    return CommitMessages(rows_by_sha, texts, quantize(np.array(rows).reshape(-1, EMBEDDING_DIMENSION)))


@pytest.mark.parametrize(
    ("hunks", "messages", "order"),
    [
        ((0.6, 0.5), (0.0, 0.9), [1, 0]),  # a similar message decides
        ((0.9, 0.5), (0.0, 0.9), [0, 1]),  # but not against a much more similar hunk
        ((0.6, 0.5, 0.4), (0.3, 0.3, 0.3), [0, 1, 2]),  # equal messages change nothing
        ((0.5, 0.5), (0.2, 0.2), [0, 1]),  # ties keep their order
    ],
)
def test_order_by_hunk_and_message(
    hunks: Sequence[float], messages: Sequence[float], order: list[int]
) -> None:
    """The score is a weighted mean of the similarities of hunk and message."""
    ordered_hunks = order_with_messages(make_hunks(*hunks), make_messages(*messages), QUERY)
    assert [hunk.hunk_id for hunk in ordered_hunks] == order
    expected = [(1 - MESSAGE_WEIGHT) * hunks[n] + MESSAGE_WEIGHT * messages[n] for n in order]
    assert [hunk.score for hunk in ordered_hunks] == pytest.approx(expected, abs=1e-3)


def test_no_hunks() -> None:
    """No hunks give an empty ranking."""
    assert order_with_messages([], make_messages(), QUERY) == ()


DATABASE_DATE = datetime(2020, 1, 1)  # noqa: DTZ001 - like times of the database
rankings = st.lists(st.lists(st.integers(0, 12), unique=True, max_size=8), min_size=1, max_size=4)


def make_ranking(*hunks: int) -> tuple[RankedHunk, ...]:
    """Return a ranking of a lane; a hunk with a higher number is newer."""
    return tuple(RankedHunk(n, 1.0, DATABASE_DATE + timedelta(days=n), f"{n:040x}", f"{n}.py") for n in hunks)


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
