"""One question -> the commits of every ranking, best first.

Lanes are asked as `find_pattern` asks them, to its depth of 100 hunks, and a commit stands where its best hunk
does. `fusion` is the product's answer without reranking, all its candidates. Three rankings are there to explain
it: vectors before whitening, fusion of two lanes, and fusion with nothing read out of the question (no filters,
no intent).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import duckdb

from pipeline.encoder import Encoder
from pipeline.text import words
from serve.find import intent, lanes, query
from serve.find.fuse import Candidate, fuse
from serve.find.query import Query
from serve.find.seen import Seen, see
from serve.questions import FindRequest
from stores import filters, lexical, showing, vectors
from stores.filters import Where
from stores.ranking import LANE_DEPTH, Ranked
from stores.reach import Reach
from stores.vectors import Space, Texts
from tests.eval import baseline
from tests.eval.metrics import distinct

FUSION = "fusion"


@dataclass(frozen=True, slots=True)
class Ranking:
    """A name and the commits, best first."""

    name: str
    commits: list[str]


@dataclass(frozen=True, slots=True, eq=False)
class Asker:
    """An opened index, ready to be asked in every way; what does not depend on the question is made once."""

    index: duckdb.DuckDBPyConnection
    encoder: Encoder
    seen: Seen
    unwhitened: Texts
    plain: duckdb.DuckDBPyConnection

    @classmethod
    def of(cls, index: duckdb.DuckDBPyConnection, encoder: Encoder, reach: Reach) -> Asker:
        seen = see(index, reach)
        unwhitened = vectors.load(index, seen.snapshot, space=Space.raw())
        return cls(index, encoder, seen, unwhitened, baseline.built(index))

    def rankings(self, question: str) -> Iterator[Ranking]:
        """Every ranking of one question."""
        asked = query.read(
            FindRequest(question), datetime.now(UTC), showing.languages(self.index).__contains__
        )
        index, snapshot = self.index, self.seen.snapshot
        chosen = filters.chosen(index, snapshot, asked.where)
        vector = self.encoder.encode([asked.text])[0]
        yield _ranking("vector, raw", vectors.ask(index, snapshot, self.unwhitened, vector, chosen))
        nearest = vectors.ask(index, snapshot, self.seen.texts, vector, chosen)
        yield _ranking("vector, whitened", nearest)
        found = lexical.look_up(index, snapshot, asked.terms)
        text = lexical.hunk_text(snapshot, found, chosen)
        symbols = lexical.symbol_names(index, snapshot, found, chosen, quoted=asked.symbols)
        yield _ranking("BM25, hunk text", text)
        yield _ranking("BM25, symbol names", symbols)
        yield self._fused(FUSION, asked)
        yield self._fused("fusion, question as text only", self._as_text(question, asked))
        yield _ranking("fusion, no symbol lane", fuse((nearest, text), asked.profile.candidates))
        yield Ranking("plain BM25 (baseline)", distinct(baseline.ask(self.plain, question, LANE_DEPTH)))

    def _fused(self, name: str, asked: Query) -> Ranking:
        ranked = lanes.rank(self.index, lambda: self.seen, asked, self.encoder)
        return _ranking(name, fuse(ranked.lanes, asked.profile.candidates))

    def _as_text(self, text: str, asked: Query) -> Query:
        return Query(
            text=text,
            terms=tuple(words(text)),
            symbols=(),
            where=Where(),
            intent=intent.Intent.UNKNOWN,
            profile=intent.PROFILES[intent.Intent.UNKNOWN],
            explained=asked.explained,
            k=asked.k,
            now=asked.now,
        )


def _ranking(name: str, hits: Sequence[Ranked | Candidate]) -> Ranking:
    return Ranking(name, distinct(hit.commit_sha for hit in hits))
