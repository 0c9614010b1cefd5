"""Rankings of commits for a query: those of the product, of its parts, and of the baselines.

A lane is the ranking of hunks by one retriever; a hunk is the diff of one file in one commit. A commit has the rank of
its best hunk. All lanes have the product's depth of 100 hunks.

- `RERANKED`: the product's answer; `NO_CROSS_ENCODER`: the same, reranked by the features alone
- `FUSION`: all candidates of the product before reranking
- each lane alone, and vectors without whitening
- fusion without the symbol lane, and fusion of the query as plain text (no filters, no intent)
- the baselines
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

import duckdb

from pipeline.encoders.base import SearchEncoder
from pipeline.text import count_terms
from serve.find_types import FindRequest
from serve.search import find_pattern, query, retrieval
from serve.search.cache import LoadedSnapshot, load_snapshot_with_vectors
from serve.search.query import Query
from serve.search.query_hints import RepositoryContext
from serve.search.rerank import FeatureReranker, Reranker
from serve.search.retrieval import Candidate, RetrieverResults, fuse_rankings
from stores import fulltext, hunk_details, vector_search
from stores.filters import QueryFilter
from stores.history import ReachabilityDelta
from stores.snapshot import LANE_DEPTH, RankedHunk, apply_filter
from stores.vector_search import TextVectors
from stores.vectors import Whitening
from tests.eval.baselines import BM25, GREP, BM25Index, GrepSearcher
from tests.eval.metrics import deduplicate

# Names of rankings are keys of results/results.csv.
FUSION: Final = "fusion"
RERANKED: Final = "reranked"
NO_CROSS_ENCODER: Final = "reranked, nothing read"


@dataclass(frozen=True, slots=True)
class Ranking:
    """Distinct commits, best first, with the scores of their best hunks if the ranking has scores."""

    name: str
    commits: list[str]
    scores: list[float] | None = None

    @classmethod
    def from_hits(cls, name: str, hits: Iterable[tuple[str, float]]) -> Ranking:
        """Return the ranking of (sha, score) pairs, best first. The first pair of a commit counts."""
        scores: dict[str, float] = {}
        for sha, score in hits:
            scores.setdefault(sha, score)
        return cls(name, list(scores), list(scores.values()))

    @property
    def best_score(self) -> float | None:
        """Score of the first commit: 0 if the ranking is empty, None if it has no scores."""
        return None if self.scores is None else next(iter(self.scores), 0.0)

    def map_commits(self, mapper: Callable[[str], str]) -> Ranking:
        """Return the ranking with mapped shas. Commits that map to the same sha get the best rank of them."""
        shas = map(mapper, self.commits)
        if self.scores is None:
            return Ranking(self.name, deduplicate(shas))
        return Ranking.from_hits(self.name, zip(shas, self.scores, strict=True))


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """Time from which the ages of commits count, the reranker, and `git log --grep` (None without messages)."""

    now: datetime
    grep: GrepSearcher | None
    reranker: Reranker


@dataclass(frozen=True, slots=True, eq=False)
class Ranker:
    """Opened index with everything that does not depend on the query, ready to compute all rankings."""

    index: duckdb.DuckDBPyConnection
    encoder: SearchEncoder
    loaded: LoadedSnapshot
    unwhitened: TextVectors
    bm25: BM25Index
    options: RankingOptions

    @classmethod
    def from_index(
        cls,
        index: duckdb.DuckDBPyConnection,
        encoder: SearchEncoder,
        reachability: ReachabilityDelta,
        options: RankingOptions,
    ) -> Ranker:
        """Load the snapshot of an opened index and build the BM25 baseline."""
        loaded = load_snapshot_with_vectors(index, reachability)
        unwhitened = vector_search.load_text_vectors(index, loaded.snapshot, whitening=Whitening.identity())
        return cls(index, encoder, loaded, unwhitened, BM25Index.from_index(index), options)

    def rank(self, text: str) -> Iterator[Ranking]:
        """Yield every ranking of a query."""
        parsed = self.parse_query(text)
        results = self.run_retrievers(parsed)
        yield from self._rank_lanes(parsed, results)
        yield from self._rank_fusions(text, parsed, results)
        yield Ranking(BM25, deduplicate(self.bm25.search(text, LANE_DEPTH)))
        if self.options.grep:
            yield Ranking(GREP, self.options.grep.search(text, LANE_DEPTH))

    def parse_query(self, text: str) -> Query:
        """Parse a query as the product does."""
        context = RepositoryContext(
            hunk_details.list_languages(self.index).__contains__, partial(hunk_details.has_path, self.index)
        )
        return query.parse_query(FindRequest(text), self.options.now, context)

    def run_retrievers(self, parsed: Query) -> RetrieverResults:
        """Run the lanes as the product does."""
        return retrieval.run_retrievers(self.index, lambda: self.loaded, parsed, self.encoder)

    def _rank_lanes(self, parsed: Query, results: RetrieverResults) -> Iterator[Ranking]:
        index, snapshot = self.index, self.loaded.snapshot
        mask = apply_filter(index, snapshot, parsed.filters)
        raw_hits = vector_search.search(
            snapshot, self.unwhitened, self.unwhitened.whiten_query(results.query_vector), mask
        )
        yield _rank_hunks("vector, raw", raw_hits)
        yield _rank_hunks("vector, whitened", results.vector_lane)
        yield _rank_hunks("BM25, hunk text", results.hunk_text_lane)
        # The product skips this lane for some intents, so it is searched here for every query.
        lookup = fulltext.look_up_terms(index, snapshot, parsed.symbol_terms or parsed.terms)
        symbols = fulltext.search_symbol_names(index, snapshot, lookup, mask, quoted_symbols=parsed.symbols)
        yield _rank_hunks("BM25, symbol names", symbols)

    def _rank_fusions(self, text: str, parsed: Query, results: RetrieverResults) -> Iterator[Ranking]:
        candidates = retrieval.select_candidates(results, parsed)
        yield _rank_hunks(FUSION, candidates)
        for name, reranker in ((RERANKED, self.options.reranker), (NO_CROSS_ENCODER, FeatureReranker())):
            hits = find_pattern.rank_candidates(self.index, parsed, results, candidates, reranker)
            yield Ranking.from_hits(
                name, ((hit.candidate.commit_sha, hit.probability or 0.0) for hit in hits)
            )
        plain = _build_plain_query(text, parsed)
        plain_candidates = fuse_rankings(
            self.run_retrievers(plain).lanes, plain.retrieval_profile.candidate_count
        )
        yield _rank_hunks("fusion, question as text only", plain_candidates)
        two_lanes = (results.vector_lane, results.hunk_text_lane)
        yield _rank_hunks(
            "fusion, no symbol lane", fuse_rankings(two_lanes, parsed.retrieval_profile.candidate_count)
        )


def _build_plain_query(text: str, parsed: Query) -> Query:
    """Return the query without filters, symbols and intent."""
    return Query(
        text=text,
        terms=tuple(count_terms(text)),
        symbols=(),
        filters=QueryFilter(),
        intent=query.Intent.UNKNOWN,
        roles=frozenset(),
        retrieval_profile=query.PROFILES[query.Intent.UNKNOWN],
        query_profile=parsed.query_profile,
        k=parsed.k,
        now=parsed.now,
    )


def _rank_hunks(name: str, hits: Sequence[RankedHunk | Candidate]) -> Ranking:
    return Ranking.from_hits(name, ((hit.commit_sha, hit.score) for hit in hits))
