"""One question -> the commits of every ranking, best first.

Lanes are asked as `find_pattern` asks them, to its depth of 100 hunks, and a commit stands where its best hunk
does. `fusion` is the product's answer without reranking, all its candidates, `reranked` the same in the order of
the reranker, and `reranked, nothing read` in that of its evidence without the cross-encoder. Three rankings are there
to explain them: vectors before whitening, fusion of two lanes, and fusion with nothing read out of the question (no
filters, no intent).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

import duckdb

from pipeline.encoders.base import Encoder
from pipeline.text import words
from serve.api_types import FindRequest
from serve.search import find_pattern, query, retrieval
from serve.search.cache import Seen, see
from serve.search.query import Query
from serve.search.query_hints import Here
from serve.search.rerank import EvidenceRanker, Reranker
from serve.search.retrieval import Candidate, Rankings, fuse
from stores import filters, fulltext, hunk_details, vector_search
from stores.filters import Where
from stores.snapshot import LANE_DEPTH, Ranked
from stores.types import Reach
from stores.vector_search import Texts
from stores.whitening import Space
from tests.eval import baseline, grep
from tests.eval.grep import Grep
from tests.eval.metrics import distinct

FUSION: Final = "fusion"
RERANKED: Final = "reranked"
BY_EVIDENCE: Final = "reranked, nothing read"
BASELINE: Final = "plain BM25 (baseline)"


@dataclass(frozen=True, slots=True)
class Ranking:
    """A name and the commits, best first; `scores` are those of their best hunks, where the ranking has scores."""

    name: str
    commits: list[str]
    scores: list[float] | None = None

    @classmethod
    def of(cls, name: str, hits: Iterable[tuple[str, float]]) -> Ranking:
        """Commits and scores, best first; a commit stands where it comes first."""
        scores: dict[str, float] = {}
        for sha, score in hits:
            scores.setdefault(sha, score)
        return cls(name, list(scores), list(scores.values()))

    @property
    def best(self) -> float | None:
        """The first one's score: 0 where nothing came, None where the ranking has no scores."""
        return None if self.scores is None else next(iter(self.scores), 0.0)

    def renamed(self, name_of: Callable[[str], str]) -> Ranking:
        """The same with other names for commits; those that share one stand once, where the best of them does."""
        names = map(name_of, self.commits)
        if self.scores is None:
            return Ranking(self.name, distinct(names))
        return Ranking.of(self.name, zip(names, self.scores, strict=True))


@dataclass(frozen=True, slots=True)
class Compared:
    """What stands beside the lanes: the moment ages count from, `git log --grep`, if there is one, and the reranker."""

    now: datetime
    grep: Grep | None
    reranker: Reranker


@dataclass(frozen=True, slots=True, eq=False)
class Asker:
    """An opened index, ready to be asked in every way; what does not depend on the question is made once."""

    index: duckdb.DuckDBPyConnection
    encoder: Encoder
    seen: Seen
    unwhitened: Texts
    plain: duckdb.DuckDBPyConnection
    beside: Compared

    @classmethod
    def of(cls, index: duckdb.DuckDBPyConnection, encoder: Encoder, reach: Reach, beside: Compared) -> Asker:
        seen = see(index, reach)
        unwhitened = vector_search.load(index, seen.snapshot, space=Space.raw())
        return cls(index, encoder, seen, unwhitened, baseline.built(index), beside)

    def rankings(self, question: str) -> Iterator[Ranking]:
        """Every ranking of one question."""
        asked = self.query(question)
        ranked = self.ranked(asked)
        yield from self._lanes(asked, ranked)
        yield from self._fusions(question, asked, ranked)
        yield Ranking(BASELINE, distinct(baseline.ask(self.plain, question, LANE_DEPTH)))
        if self.beside.grep:
            yield Ranking(grep.NAME, self.beside.grep.ask(question, LANE_DEPTH))

    def query(self, question: str) -> Query:
        """A question as the product reads it."""
        here = Here(
            hunk_details.languages(self.index).__contains__, partial(hunk_details.has_path, self.index)
        )
        return query.parse_query(FindRequest(question), self.beside.now, here)

    def ranked(self, asked: Query) -> Rankings:
        """Every lane's answer."""
        return retrieval.rank(self.index, lambda: self.seen, asked, self.encoder)

    def _lanes(self, asked: Query, ranked: Rankings) -> Iterator[Ranking]:
        index, snapshot = self.index, self.seen.snapshot
        chosen = filters.chosen(index, snapshot, asked.where)
        yield _ranking(
            "vector, raw", vector_search.ask(index, snapshot, self.unwhitened, ranked.vector, chosen)
        )
        yield _ranking("vector, whitened", ranked.nearest)
        yield _ranking("BM25, hunk text", ranked.text)
        # Asked even where the question's intent leaves it out.
        found = fulltext.look_up(index, snapshot, words(" ".join(asked.symbols)) or asked.terms)
        symbols = fulltext.symbol_names(index, snapshot, found, chosen, quoted=asked.symbols)
        yield _ranking("BM25, symbol names", symbols)

    def _fusions(self, question: str, asked: Query, ranked: Rankings) -> Iterator[Ranking]:
        candidates = fuse(ranked.lanes, asked.profile.candidates)
        yield _ranking(FUSION, candidates)
        for name, reranker in ((RERANKED, self.beside.reranker), (BY_EVIDENCE, EvidenceRanker())):
            placed = find_pattern.ordered(self.index, asked, ranked, candidates, reranker)
            probable = ((one.candidate.commit_sha, one.probability or 0.0) for one in placed)
            yield Ranking.of(name, probable)
        as_text = self._as_text(question, asked)
        in_text = fuse(self.ranked(as_text).lanes, as_text.profile.candidates)
        yield _ranking("fusion, question as text only", in_text)
        two = fuse((ranked.nearest, ranked.text), asked.profile.candidates)
        yield _ranking("fusion, no symbol lane", two)

    def _as_text(self, text: str, asked: Query) -> Query:
        return Query(
            text=text,
            terms=tuple(words(text)),
            symbols=(),
            where=Where(),
            intent=query.Intent.UNKNOWN,
            roles=frozenset(),
            profile=query.PROFILES[query.Intent.UNKNOWN],
            explained=asked.explained,
            k=asked.k,
            now=asked.now,
        )


def _ranking(name: str, hits: Sequence[Ranked | Candidate]) -> Ranking:
    return Ranking.of(name, ((hit.commit_sha, hit.score) for hit in hits))
