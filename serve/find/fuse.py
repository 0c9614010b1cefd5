"""Reciprocal rank fusion: several rankings -> one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import lcm
from typing import Final

from stores.ranking import Ranked

CONSTANT: Final = 60


@dataclass(frozen=True, slots=True)
class Candidate:
    """A hunk after fusion: `score` is the sum of 1 / (60 + rank) over the lanes that have it."""

    hunk_id: int
    score: float
    commit_sha: str


def fuse(rankings: Sequence[Sequence[Ranked]], limit: int) -> tuple[Candidate, ...]:
    """The best hunks over all rankings.

    Of equal scores the one that appears first in any ranking leads; hunks that appear first at the same
    rank of different lanes are ordered by content (newest commit, sha, path): lane order says nothing.
    """
    ranks: dict[int, list[int]] = defaultdict(list)
    hunks: dict[int, Ranked] = {}
    for ranking in rankings:
        for rank, hunk in enumerate(ranking, start=1):
            ranks[hunk.hunk_id].append(rank)
            hunks[hunk.hunk_id] = hunk
    one = _one(max(map(len, rankings), default=0))
    scores = {key: sum(one // (CONSTANT + rank) for rank in ranks[key]) for key in ranks}

    def place(key: int) -> tuple[int, int, float, str, str]:
        hunk = hunks[key]
        return -scores[key], min(ranks[key]), -hunk.commit_date.timestamp(), hunk.commit_sha, hunk.file_path

    best = sorted(hunks, key=place)[:limit]
    return tuple(Candidate(key, scores[key] / one, hunks[key].commit_sha) for key in best)


@lru_cache
def _one(longest: int) -> int:
    """A number that every 60 + rank divides, to stand for 1.

    So sums are exact: adding floats in another lane order could part what is equal.
    """
    return lcm(*range(CONSTANT + 1, CONSTANT + longest + 1))
