"""Retrievers of a search and the fusion of their rankings.

A hunk is the diff of one file in one commit. A lane is one retriever's ranking of hunks, the best first. The topic
words of a query are its words without function words and verbs of change (`extract_topic_words`). The referring commits
of a query name one of its issues or pull requests in their message, or were merged by one of its pull requests.

- `run_retrievers` computes three lanes: by vectors, by hunk text and by symbol names.
- `fuse_rankings` merges the lanes into one list of candidates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from heapq import nsmallest
from itertools import chain
from math import lcm
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from pipeline.interrupts import check_cancelled
from pipeline.text import count_terms
from serve.search.cache import LoadedSnapshot
from serve.search.query import Query
from serve.search.query_hints import extract_topic_words
from stores import fulltext, vector_search
from stores.fulltext import TermLookup
from stores.hunk_details import Connection, HunkDetailsCache
from stores.snapshot import (
    LANE_DEPTH,
    FilterMask,
    Ints,
    RankedHunk,
    Snapshot,
    apply_filter,
    select_top_k,
    select_top_k_at,
)
from stores.vector_search import MESSAGE_WEIGHT, CommitMessages, WhitenedQuery

if TYPE_CHECKING:
    import numpy.typing as npt

# Maximum number of commits that become candidates because their subject has every topic word of the query.
MAX_SUBJECT_MATCHES: Final = 10
# Maximum number of hunks with every topic word. The subjects of their commits are read, which takes up to 3 ms.
MAX_COMPLETE_MATCHES: Final = 500
# Value from the original paper: Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion", SIGIR 2009.
RRF_CONSTANT: Final = 60


@dataclass(frozen=True, slots=True, eq=False)
class RetrieverResults:
    """The three lanes of a search, and the data they were computed from.

    - `vector_lane`, `hunk_text_lane`, `symbol_lane`: hunks ranked by vectors, by hunk text and by symbol names.
    - `query_vector`: the encoded query. `whitened_query`: the same for comparison with whitened vectors of the index.
    - `term_lookup`: the query's terms that the index has, with their postings and BM25 scores.
    - `filter_mask`: one mask of the hunks that pass the query's filters, one of the hunks whose path the query names.
    - `messages`: messages of the commits of all hunks that were found, perhaps also of other commits.
    - `details`: loads the details of hunks.
    - `quoted_symbol_parts`: for each hunk of the snapshot, how many parts of a symbol that the query quotes match a
      symbol that the hunk touches: 0, 1 (the name) or 2 (also the parent).
    - `referring_hunks`: hunks of the referring commits.
    - `subject_matches`: see `_select_subject_matches`.
    """

    vector_lane: tuple[RankedHunk, ...]
    hunk_text_lane: tuple[RankedHunk, ...]
    symbol_lane: tuple[RankedHunk, ...]
    query_vector: npt.NDArray[np.float32]
    whitened_query: WhitenedQuery
    term_lookup: TermLookup
    loaded_snapshot: LoadedSnapshot
    filter_mask: FilterMask
    messages: CommitMessages
    details: HunkDetailsCache
    quoted_symbol_parts: Ints
    referring_hunks: tuple[RankedHunk, ...] = ()
    subject_matches: tuple[RankedHunk, ...] = ()

    @property
    def lanes(self) -> Sequence[tuple[RankedHunk, ...]]:
        """The three lanes, in the order of the fields."""
        return self.vector_lane, self.hunk_text_lane, self.symbol_lane


class QueryEncoder(Protocol):
    """Encoder of queries."""

    def encode_queries(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return one unit vector per query, in order."""
        ...


def run_retrievers(
    connection: Connection, load_snapshot: Callable[[], LoadedSnapshot], query: Query, encoder: QueryEncoder
) -> RetrieverResults:
    """Compute the lanes. The symbol lane is empty if the retrieval profile of the query turns it off.

    Another thread encodes the query while this thread calls `load_snapshot` and searches the full-text postings.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="encoder") as pool:
        encoded_query = pool.submit(encoder.encode_queries, [query.text])
        return run_retrievers_with_vector(connection, load_snapshot, query, encoded_query)


def run_retrievers_with_vector(
    connection: Connection,
    load_snapshot: Callable[[], LoadedSnapshot],
    query: Query,
    encoded_query: Future[npt.NDArray[np.float32]],
) -> RetrieverResults:
    """Compute the lanes, as `run_retrievers` does. `encoded_query`: future of a matrix with one row."""
    loaded_snapshot = load_snapshot()
    snapshot = loaded_snapshot.snapshot
    check_cancelled()
    filter_mask = apply_filter(connection, snapshot, query.filters)
    term_lookup = fulltext.look_up_terms(connection, snapshot, query.terms)
    hunk_text_lane = fulltext.search_hunk_text(snapshot, term_lookup, filter_mask)
    check_cancelled()
    quoted_symbol_parts = fulltext.count_touched_parts(connection, snapshot, query.symbols)
    symbol_lane = _search_symbol_names(
        connection, loaded_snapshot, query, term_lookup, filter_mask, quoted_symbol_parts
    )
    query_vector = encoded_query.result()[0]
    check_cancelled()
    text_vectors = loaded_snapshot.text_vectors
    whitened_query = text_vectors.whiten_query(query_vector)
    nearest_hunks = vector_search.search(snapshot, text_vectors, whitened_query, filter_mask)
    referring_hunks = _find_referring_hunks(snapshot, query.referring_commits, filter_mask)
    complete_matches = _find_complete_matches(snapshot, query, term_lookup, filter_mask)
    hunks = chain(nearest_hunks, hunk_text_lane, symbol_lane, referring_hunks, complete_matches)
    shas = dict.fromkeys(hunk.commit_sha for hunk in hunks)
    messages = loaded_snapshot.messages or vector_search.load_messages(connection, tuple(shas))
    return RetrieverResults(
        vector_lane=order_with_messages(nearest_hunks, messages, query_vector),
        hunk_text_lane=hunk_text_lane,
        symbol_lane=symbol_lane,
        query_vector=query_vector,
        whitened_query=whitened_query,
        term_lookup=term_lookup,
        loaded_snapshot=loaded_snapshot,
        filter_mask=filter_mask,
        messages=messages,
        details=HunkDetailsCache(connection, loaded_snapshot.diffs),
        quoted_symbol_parts=quoted_symbol_parts,
        referring_hunks=referring_hunks,
        subject_matches=_select_subject_matches(complete_matches, messages, query),
    )


def _find_complete_matches(
    snapshot: Snapshot, query: Query, term_lookup: TermLookup, filter_mask: FilterMask
) -> tuple[RankedHunk, ...]:
    """Return at most MAX_COMPLETE_MATCHES hunks with every topic word of the query, best BM25 score first.

    The text of a hunk includes the commit message. A query without topic words has no such hunks.
    """
    topic_words = extract_topic_words(query.terms)
    if not topic_words or not topic_words.issubset(term_lookup.terms):
        return ()
    is_topic = np.array([term in topic_words for term in term_lookup.terms], np.bool_)
    scores, postings = term_lookup.text_scores.scores, term_lookup.text_scores.postings
    word_counts = np.bincount(postings.select_terms(is_topic).documents, minlength=len(scores))
    has_all_words = word_counts == len(topic_words)
    return select_top_k(snapshot, scores, has_all_words & filter_mask.is_included, MAX_COMPLETE_MATCHES)


def _select_subject_matches(
    hunks: Sequence[RankedHunk], messages: CommitMessages, query: Query
) -> tuple[RankedHunk, ...]:
    """Return the first hunk of each commit whose subject has every topic word of the query.

    `hunks`: the best first. If there are more than MAX_SUBJECT_MATCHES such commits, those with the most terms of the
    query in the subject are returned. The lanes can miss these commits, because in the text of a long diff the words of
    the subject have little weight.
    """
    topic_words, terms = extract_topic_words(query.terms), frozenset(query.terms)
    hunk_by_commit: dict[str, RankedHunk] = {}
    for hunk in hunks:
        hunk_by_commit.setdefault(hunk.commit_sha, hunk)
    matches: list[tuple[int, RankedHunk]] = []
    for hunk, message in zip(
        hunk_by_commit.values(), messages.get_messages(list(hunk_by_commit)), strict=True
    ):
        subject_terms = terms.intersection(count_terms(message.partition("\n")[0]))
        if topic_words <= subject_terms:
            matches.append((len(subject_terms), hunk))
    matches.sort(key=lambda match: -match[0])
    return tuple(hunk for _, hunk in matches[:MAX_SUBJECT_MATCHES])


def _find_referring_hunks(
    snapshot: Snapshot, commits: frozenset[str], filter_mask: FilterMask
) -> tuple[RankedHunk, ...]:
    """Return at most LANE_DEPTH hunks of these commits that pass the filters.

    The first hunks of all commits come first, then their second hunks and so on, so that a commit with hundreds of
    files does not displace the other commits.
    """
    if not commits:
        return ()
    positions = np.flatnonzero(snapshot.hunks.mask_hunks_by_commit(commits) & filter_mask.is_included)
    # The score is the negated number of the hunk within its commit.
    hunk_counts: defaultdict[str, int] = defaultdict(int)
    scores = np.zeros(len(positions))
    for index, sha in enumerate(snapshot.hunks.commit_info.column("commit_sha").take(positions).to_pylist()):
        hunk_counts[sha] += 1
        scores[index] = -hunk_counts[sha]
    return select_top_k_at(snapshot, positions, scores, LANE_DEPTH)


def order_with_messages(
    hunks: Sequence[RankedHunk], messages: CommitMessages, query_vector: npt.NDArray[np.float32]
) -> tuple[RankedHunk, ...]:
    """Order hunks by a weighted mean of two similarities to the query: of the hunk, and of its commit's message.

    This puts a commit whose message names the change before a commit whose diff only looks similar. Ties keep their
    order.
    """
    if not hunks:
        return ()
    message_vectors = messages.get_vectors([hunk.commit_sha for hunk in hunks])
    similarities = vector_search.compute_cosine_similarities(message_vectors, query_vector).tolist()
    rescored_hunks = (
        hunk._replace(score=(1 - MESSAGE_WEIGHT) * hunk.score + MESSAGE_WEIGHT * similarity)
        for hunk, similarity in zip(hunks, similarities, strict=True)
    )
    return tuple(sorted(rescored_hunks, key=lambda hunk: -hunk.score))


def _search_symbol_names(
    connection: Connection,
    loaded_snapshot: LoadedSnapshot,
    query: Query,
    term_lookup: TermLookup,
    filter_mask: FilterMask,
    quoted_symbol_parts: Ints,
) -> tuple[RankedHunk, ...]:
    """Compute the symbol lane from the names that the query quotes; if it quotes none, from all its words."""
    if not query.retrieval_profile.uses_symbol_lane:
        return ()
    if query.symbols:
        # If the query quotes names, its other words do not name symbols.
        term_lookup = fulltext.look_up_terms(connection, loaded_snapshot.snapshot, query.symbol_terms)
    return fulltext.search_symbol_names(
        connection,
        loaded_snapshot.snapshot,
        term_lookup,
        filter_mask,
        quoted_symbols=query.symbols,
        touched_parts=quoted_symbol_parts,
    )


@dataclass(frozen=True, slots=True)
class Candidate:
    """Hunk that may be an answer. `score`: sum of 1 / (RRF_CONSTANT + rank) over the lanes that contain the hunk.

    The score is 0 if the hunk was added after the fusion of the lanes.

    `is_referring`: True for a hunk of a referring commit. Such candidates come before all others.
    """

    hunk_id: int
    score: float
    commit_sha: str
    commit_date: datetime
    file_path: str
    is_referring: bool = False


def select_candidates(results: RetrieverResults, query: Query) -> tuple[Candidate, ...]:
    """Fuse the lanes. Append the subject matches whose commits the fused lanes lack.

    Hunks of referring commits come first: first those that are candidates, then the rest of `results.referring_hunks`.
    """
    fused_candidates = fuse_rankings(results.lanes, query.retrieval_profile.candidate_count)
    commits = {candidate.commit_sha for candidate in fused_candidates}
    subject_matches = (hunk for hunk in results.subject_matches if hunk.commit_sha not in commits)
    candidates = (*fused_candidates, *(_to_candidate(hunk, 0.0) for hunk in subject_matches))
    referring_hunks = {hunk.hunk_id: hunk for hunk in results.referring_hunks}
    if not referring_hunks:
        return candidates
    candidate_ids = {candidate.hunk_id for candidate in candidates}
    moved_candidates = [candidate for candidate in candidates if candidate.hunk_id in referring_hunks]
    added_candidates = [
        _to_candidate(hunk, 0.0) for hunk_id, hunk in referring_hunks.items() if hunk_id not in candidate_ids
    ]
    other_candidates = [candidate for candidate in candidates if candidate.hunk_id not in referring_hunks]
    referring_candidates = (*moved_candidates, *added_candidates)
    return *(replace(candidate, is_referring=True) for candidate in referring_candidates), *other_candidates


def fuse_rankings(rankings: Sequence[Sequence[RankedHunk]], limit: int) -> tuple[Candidate, ...]:
    """Merge rankings into one; return the best `limit` hunks.

    Hunks with equal scores are sorted by their best rank in any ranking, then by commit date (newest first), sha and
    path. The order of the rankings has no effect.
    """
    denominator, *numerators = _compute_rank_fractions(max(map(len, rankings), default=0))
    scores: dict[int, int] = defaultdict(int)
    best_ranks: dict[int, int] = {}
    hunks: dict[int, RankedHunk] = {}
    for ranking in rankings:
        for rank, hunk in enumerate(ranking):
            hunk_id = hunk.hunk_id
            scores[hunk_id] += numerators[rank]
            best_ranks[hunk_id] = min(rank, best_ranks.get(hunk_id, rank))
            hunks[hunk_id] = hunk

    def sort_key(hunk_id: int) -> tuple[int, int, float, str, str]:
        hunk = hunks[hunk_id]
        newest_first = -hunk.commit_date.timestamp()
        return -scores[hunk_id], best_ranks[hunk_id], newest_first, hunk.commit_sha, hunk.file_path

    best_ids = nsmallest(limit, hunks, key=sort_key)
    return tuple(_to_candidate(hunks[hunk_id], scores[hunk_id] / denominator) for hunk_id in best_ids)


def _to_candidate(hunk: RankedHunk, score: float) -> Candidate:
    return Candidate(hunk.hunk_id, score, hunk.commit_sha, hunk.commit_date, hunk.file_path)


@lru_cache
def _compute_rank_fractions(count: int) -> tuple[int, ...]:
    """Return 1 / (RRF_CONSTANT + rank) for the ranks 1 to `count`: a common denominator, then the numerators.

    With a common denominator, scores are sums of integers, which are exact. The sum of floats depends on the order of
    the lanes, so scores that should be equal could differ.
    """
    divisors = range(RRF_CONSTANT + 1, RRF_CONSTANT + count + 1)
    denominator = lcm(*divisors)
    return denominator, *(denominator // divisor for divisor in divisors)
