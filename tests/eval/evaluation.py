"""Evaluation of one history under one protocol: evaluation copy, index, rankings of the queries, and their metrics.

A history is a clone up to one commit. A protocol names the queries, their relevant commits (judgments) and what the
index contains.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

import polars as pl

from pipeline.encoders.base import SearchEncoder, create_bundled_encoder
from pipeline.encoders.cross_encoder import CrossEncoder
from pipeline.git.repository import open_repository
from pipeline.options import EncoderName
from serve.index_status import load_index_status
from serve.search.rerank import CrossEncoderReranker, Reranker
from tests.bench import indexes
from tests.bench.programs import run_git
from tests.eval import reliability
from tests.eval.baselines import GrepSearcher
from tests.eval.histories import EvaluationCopy, prepare_evaluation_copy, update_index
from tests.eval.judgments import JudgedQuery
from tests.eval.metrics import NDCG, compute_ndcg, find_first_relevant
from tests.eval.protocols import PROTOCOLS, QuerySource, Sample
from tests.eval.rankings import RERANKED, Ranker, Ranking, RankingOptions

# `rank` is null if no relevant commit was found, `best_score` if the ranking has no scores.
RANKS: Final = {
    "query": pl.Int64,
    "is_answerable": pl.Boolean,
    "kind": pl.String,
    "ranking": pl.String,
    "rank": pl.Int64,
    NDCG: pl.Float64,
    "best_score": pl.Float64,
}


@cache
def load_cross_encoder() -> CrossEncoder:
    """Load the bundled cross-encoder in full precision, as the product does."""
    return CrossEncoder()


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Protocol, sample of queries, models, and the folder of evaluation copies and indexes."""

    protocol: str
    folder: Path
    sample: Sample
    encoder_name: EncoderName = EncoderName.MINILM
    load_encoder: Callable[[EncoderName], SearchEncoder] = create_bundled_encoder
    reranker: Reranker = field(default_factory=lambda: CrossEncoderReranker(load_cross_encoder))

    @property
    def index_home(self) -> Path:
        """LINEAGE_HOME with the encoder's indexes. Each encoder has its own, so that they can share a copy."""
        name = "home" if self.encoder_name is EncoderName.MINILM else f"home-{self.encoder_name}"
        return self.folder / name


def add_run_options(parser: ArgumentParser, samples: int, seed: int) -> None:
    """Add the arguments that `python -m tests.eval` and `python -m tests.eval.learn` share, with their defaults."""
    add_clone_options(parser)
    parser.add_argument(
        "--encoder",
        type=EncoderName,
        choices=list(EncoderName),
        default=EncoderName.MINILM,
        help="bundled encoder of index and queries",
    )
    parser.add_argument("--samples", type=int, default=samples, help="maximum number of sampled queries")
    parser.add_argument("--seed", type=int, default=seed, help="seed of the sample")


def add_clone_options(parser: ArgumentParser) -> None:
    """Add the clones and the folder of evaluation copies."""
    parser.add_argument("clones", nargs="+", type=Path, metavar="CLONE", help="local clone, bare or not")
    parser.add_argument(
        "--folder", type=Path, help="folder to keep copies of the clones and indexes in for the next run"
    )


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationResult:
    """Ranks of all queries of a history, with its name, its HEAD and the number of commits that HEAD reaches.

    `ranks`: a row per query and ranking, schema RANKS (without nDCG if judgments have no grades); `kind` is empty for
    queries without one. `hits`: a row per
    query and reranked commit with its probability, schema `reliability.HITS`.
    """

    history: str
    head: str
    commit_count: int
    ranks: pl.DataFrame
    hits: pl.DataFrame

    @property
    def answerable_ranks(self) -> pl.DataFrame:
        """Ranks of the queries that have a judged commit, without those that have no answer in the history."""
        return self.ranks.filter("is_answerable").drop("is_answerable", "kind")

    def split_by_kind(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """Yield each kind of query that has an answer with the reranked ranks of its queries."""
        answerable = self.ranks.filter("is_answerable", pl.col("ranking") == RERANKED, pl.col("kind") != "")
        for (kind,), ranks in answerable.group_by("kind", maintain_order=True):
            yield str(kind), ranks.drop("is_answerable", "kind")


def combine_results(results: Sequence[EvaluationResult]) -> EvaluationResult:
    """Return the results of several histories as one. Every query has the same weight."""
    ranks, hits, offset = [], [], 0
    for result in results:
        ranks.append(result.ranks.with_columns(pl.col("query") + offset))
        hits.append(result.hits.with_columns(pl.col("query") + offset))
        offset += result.ranks["query"].n_unique()
    names = " + ".join(sorted(result.history for result in results))
    heads = " + ".join(result.head for result in sorted(results, key=lambda result: result.history))
    commit_count = sum(result.commit_count for result in results)
    return EvaluationResult(names, heads, commit_count, pl.concat(ranks), pl.concat(hits))


def evaluate_history(clone: Path, config: RunConfig) -> EvaluationResult:
    """Evaluate one history. Without queries, do not index it and return empty frames."""
    protocol = PROTOCOLS[config.protocol]
    copy = prepare_evaluation_copy(clone, config.folder, protocol.variant, protocol.find_head(clone))
    source = QuerySource.from_evaluation_copy(copy)
    queries = protocol.create_queries(source, config.sample)
    rank_rows: list[tuple[object, ...]] = []
    hit_rows: list[tuple[object, ...]] = []
    if queries:
        update_index(copy, config.index_home, config.encoder_name)
        queries_with_rankings = zip(queries, rank_queries(source, config, queries), strict=True)
        for number, (query, rankings) in enumerate(queries_with_rankings):
            judged_query = source.duplicates.merge_judgments(query)
            rank_rows += _create_rank_rows(number, judged_query, rankings)
            hit_rows += _create_hit_rows(number, judged_query, rankings)
    ranks = pl.DataFrame(rank_rows, schema=RANKS, orient="row")
    return EvaluationResult(
        copy.history.name,
        run_git(copy.original_path, "rev-parse", "HEAD"),
        copy.history.commit_count,
        ranks if protocol.is_graded else ranks.drop(NDCG),
        pl.DataFrame(hit_rows, schema=reliability.HITS, orient="row"),
    )


def rank_queries(
    source: QuerySource, config: RunConfig, queries: Sequence[JudgedQuery]
) -> Iterator[list[Ranking]]:
    """Yield all rankings of each query, with original shas and near-duplicates merged."""
    mapper = source.create_sha_mapper()
    with open_ranker(source.copy, config) as ranker:
        for query in queries:
            yield [ranking.map_commits(mapper) for ranking in ranker.rank(query.text)]


@contextmanager
def open_ranker(copy: EvaluationCopy, config: RunConfig) -> Iterator[Ranker]:
    """Open the index of an evaluation copy."""
    with indexes.open_index(copy.indexed_path, config.index_home) as connection:
        reachability = load_index_status(open_repository(copy.indexed_path), connection).reachability
        grep = GrepSearcher(copy.original_path) if PROTOCOLS[config.protocol].has_messages else None
        options = RankingOptions(_get_head_time(copy), grep, config.reranker)
        yield Ranker.from_index(connection, config.load_encoder(config.encoder_name), reachability, options)


def _get_head_time(copy: EvaluationCopy) -> datetime:
    """Return the commit time of HEAD. Ages count from it, so that results do not depend on the date of the run."""
    seconds = run_git(copy.original_path, "log", "-1", "--format=%ct", "HEAD")
    return datetime.fromtimestamp(int(seconds), UTC)


def _create_rank_rows(
    number: int, query: JudgedQuery, rankings: Sequence[Ranking]
) -> Iterator[tuple[object, ...]]:
    for ranking in rankings:
        rank = find_first_relevant(ranking.commits, query.relevant)
        ndcg = compute_ndcg(ranking.commits, query.grades)
        yield number, bool(query.grades), query.kind, ranking.name, rank, ndcg, ranking.best_score


def _create_hit_rows(
    number: int, query: JudgedQuery, rankings: Sequence[Ranking]
) -> Iterator[tuple[object, ...]]:
    for ranking in rankings:
        if ranking.name == RERANKED:
            for sha, probability in zip(ranking.commits, ranking.scores or (), strict=True):
                yield number, probability, sha in query.relevant
