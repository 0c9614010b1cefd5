"""Reciprocal rank fusion: several rankings -> one.

The lanes: the encoder is at work while the full-text lanes are asked, and while an index is seen first.

The hundred hunks nearest to a question in meaning stand in the order of how near they and their messages are together:
a commit that says so outright comes before one whose change only looks like it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from heapq import nsmallest
from itertools import chain
from math import lcm
from typing import TYPE_CHECKING, Final

from pipeline.encoders.base import Encoder
from pipeline.text import words
from serve.search.cache import Seen
from serve.search.query import Query
from stores import filters, fulltext, vector_search
from stores.filters import Chosen
from stores.fulltext import Asked
from stores.hunk_details import Connection, Shelf
from stores.snapshot import Ranked
from stores.vector_search import MESSAGE_SHARE, Messages

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


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


@dataclass(frozen=True, slots=True, eq=False)
class Rankings:
    """Each lane's best hunks, the query's vector and words they were compared by, and what they were chosen from.

    `chosen` is what the question's filters and paths mean here, `messages` has those of every commit that is in a lane,
    `shelf` what is read of hunks.
    """

    nearest: tuple[Ranked, ...]
    text: tuple[Ranked, ...]
    symbols: tuple[Ranked, ...]
    vector: npt.NDArray[np.float32]
    asked: Asked
    seen: Seen
    chosen: Chosen
    messages: Messages
    shelf: Shelf

    @property
    def lanes(self) -> Sequence[tuple[Ranked, ...]]:
        """The rankings to fuse."""
        return self.nearest, self.text, self.symbols


def rank(connection: Connection, see: Callable[[], Seen], query: Query, encoder: Encoder) -> Rankings:
    """Ask every lane the profile allows."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="encoder") as pool:
        encoded = pool.submit(encoder.encode, [query.text])
        seen = see()
        snapshot = seen.snapshot
        chosen = filters.chosen(connection, snapshot, query.where)
        asked = fulltext.look_up(connection, snapshot, query.terms)
        text = fulltext.hunk_text(snapshot, asked, chosen)
        symbols = _symbol_names(connection, seen, query, asked, chosen)
        vector = encoded.result()[0]
    nearest = vector_search.ask(connection, snapshot, seen.texts, vector, chosen)
    shas = dict.fromkeys(hunk.commit_sha for hunk in chain(nearest, text, symbols))
    told = seen.messages or vector_search.some(connection, tuple(shas))
    shelf = Shelf(connection, seen.diffs)
    with_told = with_messages(nearest, told, vector)
    return Rankings(with_told, text, symbols, vector, asked, seen, chosen, told, shelf)


def with_messages(
    nearest: Sequence[Ranked], told: Messages, vector: npt.NDArray[np.float32]
) -> tuple[Ranked, ...]:
    """The hunks in the order of how near they and their commits' messages are together; of equals the first leads."""
    if not nearest:
        return ()
    rows = told.vectors_of([hunk.commit_sha for hunk in nearest])
    near = zip(nearest, vector_search.cosines(rows, vector).tolist(), strict=True)
    both = (
        replace(hunk, score=(1 - MESSAGE_SHARE) * hunk.score + MESSAGE_SHARE * message)
        for hunk, message in near
    )
    return tuple(sorted(both, key=lambda hunk: -hunk.score))


def _symbol_names(
    connection: Connection, seen: Seen, query: Query, asked: Asked, chosen: Chosen
) -> tuple[Ranked, ...]:
    if not query.profile.symbols:
        return ()
    if query.symbols:
        # Who quotes names has said which of the words are symbols.
        asked = fulltext.look_up(connection, seen.snapshot, words(" ".join(query.symbols)))
    return fulltext.symbol_names(connection, seen.snapshot, asked, chosen, quoted=query.symbols)
