"""Reciprocal rank fusion: several rankings -> one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from heapq import nsmallest
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
    commit_date: datetime
    file_path: str


def fuse(rankings: Sequence[Sequence[Ranked]], limit: int) -> tuple[Candidate, ...]:
    """The best hunks over all rankings.

    Of equal scores the one that appears first in any ranking leads; hunks that appear first at the same
    rank of different lanes are ordered by content (newest commit, sha, path): lane order says nothing.
    """
    one, *shares = _shares(max(map(len, rankings), default=0))
    scores: dict[int, int] = defaultdict(int)
    firsts: dict[int, int] = {}
    hunks: dict[int, Ranked] = {}
    for ranking in rankings:
        for rank, hunk in enumerate(ranking):
            key = hunk.hunk_id
            scores[key] += shares[rank]
            firsts[key] = min(rank, firsts.get(key, rank))
            hunks[key] = hunk

    def place(key: int) -> tuple[int, int, float, str, str]:
        hunk = hunks[key]
        return -scores[key], firsts[key], -hunk.commit_date.timestamp(), hunk.commit_sha, hunk.file_path

    best = nsmallest(limit, hunks, key=place)
    return tuple(_candidate(hunks[key], scores[key] / one) for key in best)


def _candidate(hunk: Ranked, score: float) -> Candidate:
    return Candidate(hunk.hunk_id, score, hunk.commit_sha, hunk.commit_date, hunk.file_path)


@lru_cache
def _shares(longest: int) -> tuple[int, ...]:
    """A number that stands for 1, and in the same unit what each rank adds, from 1 / 61 on.

    Every 60 + rank divides it, so sums are exact: adding floats in another lane order could part what is equal.
    """
    ranks = range(CONSTANT + 1, CONSTANT + longest + 1)
    one = lcm(*ranks)
    return one, *(one // rank for rank in ranks)
