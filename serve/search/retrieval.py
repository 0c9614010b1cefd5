"""Retrievers of a search and the fusion of their rankings.

- `run_retrievers` runs the three lanes: vectors, hunk text and symbol names.
- `reciprocal_rank_fusion` merges their rankings into one list of candidates.
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
from pipeline.text import count_terms
from serve.search.cache import LoadedSnapshot
from serve.search.query import Query
from stores import filters, fulltext, vector_search
from stores.filters import FilterMask
from stores.fulltext import TermLookup
from stores.hunk_details import Connection, HunkDetailsCache
from stores.snapshot import RankedHunk
from stores.vector_search import MESSAGE_WEIGHT, CommitMessages

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# The constant of the original paper: Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion", SIGIR 2009.
RRF_CONSTANT: Final = 60


@dataclass(frozen=True, slots=True, eq=False)
class RetrieverResults:
    """Best hunks of each lane, and what they were computed from.

    `vectors`, `hunk_text` and `symbol_names` are the rankings of the lanes, best first. `vector` is the encoded query.
    `term_lookup` has the postings of the query's terms. `filter_mask` is the query's filters applied to the snapshot.
    `messages` holds the message of every commit in a lane. `details` loads the details of hunks.
    """

    vectors: tuple[RankedHunk, ...]
    hunk_text: tuple[RankedHunk, ...]
    symbol_names: tuple[RankedHunk, ...]
    vector: npt.NDArray[np.float32]
    term_lookup: TermLookup
    loaded: LoadedSnapshot
    filter_mask: FilterMask
    messages: CommitMessages
    details: HunkDetailsCache

    @property
    def lanes(self) -> Sequence[tuple[RankedHunk, ...]]:
        """Rankings to fuse."""
        return self.vectors, self.hunk_text, self.symbol_names


def run_retrievers(
    connection: Connection, load_snapshot: Callable[[], LoadedSnapshot], query: Query, encoder: Encoder
) -> RetrieverResults:
    """Run every lane that the query's profile allows; `load_snapshot` returns the snapshot to search.

    The query is encoded in a thread while the snapshot is loaded and the full-text lanes run.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="encoder") as pool:
        encoded = pool.submit(encoder.encode, [query.text])
        loaded = load_snapshot()
        snapshot = loaded.snapshot
        filter_mask = filters.apply_filter(connection, snapshot, query.filters)
        term_lookup = fulltext.look_up_terms(connection, snapshot, query.terms)
        hunk_text = fulltext.search_hunk_text(snapshot, term_lookup, filter_mask)
        symbol_names = _search_symbol_names(connection, loaded, query, term_lookup, filter_mask)
        vector = encoded.result()[0]
    nearest = vector_search.search(connection, snapshot, loaded.texts, vector, filter_mask)
    shas = dict.fromkeys(hunk.commit_sha for hunk in chain(nearest, hunk_text, symbol_names))
    messages = loaded.messages or vector_search.load_messages(connection, tuple(shas))
    return RetrieverResults(
        vectors=order_with_messages(nearest, messages, vector),
        hunk_text=hunk_text,
        symbol_names=symbol_names,
        vector=vector,
        term_lookup=term_lookup,
        loaded=loaded,
        filter_mask=filter_mask,
        messages=messages,
        details=HunkDetailsCache(connection, loaded.diffs),
    )


def order_with_messages(
    nearest: Sequence[RankedHunk], messages: CommitMessages, vector: npt.NDArray[np.float32]
) -> tuple[RankedHunk, ...]:
    """Order hunks by a weighted mean of their own similarity to the query and that of their commit's message.

    So a commit whose message names the change comes before one whose diff only looks alike. Ties keep their order.
    """
    if not nearest:
        return ()
    message_vectors = messages.vectors_of([hunk.commit_sha for hunk in nearest])
    similarities = vector_search.compute_cosine_similarities(message_vectors, vector).tolist()
    rescored = (
        replace(hunk, score=(1 - MESSAGE_WEIGHT) * hunk.score + MESSAGE_WEIGHT * similarity)
        for hunk, similarity in zip(nearest, similarities, strict=True)
    )
    return tuple(sorted(rescored, key=lambda hunk: -hunk.score))


def _search_symbol_names(
    connection: Connection, loaded: LoadedSnapshot, query: Query, lookup: TermLookup, filter_mask: FilterMask
) -> tuple[RankedHunk, ...]:
    if not query.profile.uses_symbol_lane:
        return ()
    if query.symbols:
        # Quoted names say which words are symbols, so only those are looked up.
        lookup = fulltext.look_up_terms(connection, loaded.snapshot, count_terms(" ".join(query.symbols)))
    return fulltext.search_symbol_names(
        connection, loaded.snapshot, lookup, filter_mask, quoted_names=query.symbols
    )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A hunk after fusion: `score` is the sum of 1 / (60 + rank) over the lanes that contain it."""

    hunk_id: int
    score: float
    commit_sha: str
    commit_date: datetime
    file_path: str


def reciprocal_rank_fusion(rankings: Sequence[Sequence[RankedHunk]], limit: int) -> tuple[Candidate, ...]:
    """Merge rankings into one; return the best `limit` hunks.

    Ties are broken by the best rank in any lane, then by content (newest commit, sha, path), never by lane order.
    """
    unit, *gains = _reciprocal_ranks(max(map(len, rankings), default=0))
    scores: dict[int, int] = defaultdict(int)
    best_ranks: dict[int, int] = {}
    hunks: dict[int, RankedHunk] = {}
    for ranking in rankings:
        for rank, hunk in enumerate(ranking):
            hunk_id = hunk.hunk_id
            scores[hunk_id] += gains[rank]
            best_ranks[hunk_id] = min(rank, best_ranks.get(hunk_id, rank))
            hunks[hunk_id] = hunk

    def sort_key(hunk_id: int) -> tuple[int, int, float, str, str]:
        hunk = hunks[hunk_id]
        newest_first = -hunk.commit_date.timestamp()
        return -scores[hunk_id], best_ranks[hunk_id], newest_first, hunk.commit_sha, hunk.file_path

    best = nsmallest(limit, hunks, key=sort_key)
    return tuple(_to_candidate(hunks[hunk_id], scores[hunk_id] / unit) for hunk_id in best)


def _to_candidate(hunk: RankedHunk, score: float) -> Candidate:
    return Candidate(hunk.hunk_id, score, hunk.commit_sha, hunk.commit_date, hunk.file_path)


@lru_cache
def _reciprocal_ranks(count: int) -> tuple[int, ...]:
    """Return a unit and 1 / (60 + rank) for `count` ranks, all as integers in that unit.

    Integer sums are exact. Sums of floats depend on the order of the lanes and could separate equal scores.
    """
    ranks = range(RRF_CONSTANT + 1, RRF_CONSTANT + count + 1)
    unit = lcm(*ranks)
    return unit, *(unit // rank for rank in ranks)
