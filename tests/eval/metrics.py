"""Metrics of rankings (MRR, recall, nDCG) with bootstrap confidence intervals.

Input is a frame with one row for each query and ranking. `rank` is the position of the first relevant commit, from 1,
or null if there is none. `nDCG@10` exists if the judgments have grades. An interval consists of percentiles of the
means of resampled queries. The seed is fixed, so that the same ranks give the same interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

RECALL_DEPTHS: Final = (1, 5, 10, 50)
MRR_DEPTH: Final = 10
NDCG_DEPTH: Final = 10
NDCG: Final = f"nDCG@{NDCG_DEPTH}"
# Number of bootstrap samples. With this many, interval ends differ by less than 0.002 between seeds.
RESAMPLES: Final = 5_000
SEED: Final = 2
CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """Mean over queries, and its confidence interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def find_first_relevant(ranking: Sequence[str], relevant: frozenset[str]) -> int | None:
    """Return the rank, from 1, of the first relevant commit, or None."""
    return next((rank for rank, sha in enumerate(ranking, 1) if sha in relevant), None)


def compute_ndcg(ranking: Sequence[str], grades: Mapping[str, int], depth: int = NDCG_DEPTH) -> float:
    """Return the normalized discounted cumulative gain: 1 for the ideal ranking, 0 without a judged commit.

    The gain of grade g is 2^g - 1; at rank r it is divided by log2(r + 1) (Burges et al., 2005).
    """
    ideal = _compute_dcg(sorted(grades.values(), reverse=True)[:depth])
    actual = _compute_dcg([grades.get(sha, 0) for sha in ranking[:depth]])
    return actual / ideal if ideal else 0.0


def _compute_dcg(grades: Sequence[int]) -> float:
    return sum((2.0**grade - 1) / log2(rank + 1) for rank, grade in enumerate(grades, 1))


def deduplicate(shas: Iterable[str]) -> list[str]:
    """Return the distinct shas in the order of their first occurrence."""
    return list(dict.fromkeys(shas))


def compute_reciprocal_rank(depth: int = MRR_DEPTH) -> pl.Expr:
    """Return the reciprocal rank of a query, 0 below the depth."""
    rank = pl.col("rank")
    return pl.when(rank <= depth).then(1 / rank).otherwise(0.0).alias(f"MRR@{depth}")


def has_relevant_within(depth: int) -> pl.Expr:
    """Return 1.0 if a relevant commit is within the depth, else 0.0."""
    return (pl.col("rank") <= depth).fill_null(value=False).cast(pl.Float64).alias(f"R@{depth}")


def add_metrics(ranks: pl.DataFrame) -> pl.DataFrame:
    """Add a column for each metric of a query."""
    return ranks.with_columns(compute_reciprocal_rank(), *map(has_relevant_within, RECALL_DEPTHS))


def list_metrics(ranks: pl.DataFrame) -> list[str]:
    """Return the names of the metrics, the primary one first."""
    graded_metrics = [NDCG] if NDCG in ranks.columns else []
    return [*graded_metrics, f"MRR@{MRR_DEPTH}", *(f"R@{depth}" for depth in RECALL_DEPTHS)]


def bootstrap_mean(values: npt.NDArray[np.float64]) -> Estimate:
    """Return the mean of a metric over queries with its bootstrap confidence interval."""
    draws = np.random.default_rng(SEED).integers(len(values), size=(RESAMPLES, len(values)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values[draws].mean(axis=1), [tail, 1 - tail])
    return Estimate(float(values.mean()), float(low), float(high))


def estimate_metrics(ranks: pl.DataFrame) -> Iterator[tuple[str, str, Estimate]]:
    """Yield the name of each ranking, the name of each metric, and the estimate."""
    for (name,), group in add_metrics(ranks).group_by("ranking", maintain_order=True):
        for metric in list_metrics(ranks):
            yield str(name), metric, bootstrap_mean(group[metric].to_numpy())


def summarize(ranks: pl.DataFrame) -> pl.DataFrame:
    """Return a table with a row for each ranking and a column for each metric."""
    rows: dict[str, dict[str, str]] = {}
    for name, metric, value in estimate_metrics(ranks):
        rows.setdefault(name, {"ranking": name})[metric] = str(value)
    return pl.DataFrame(list(rows.values()))


def compare_paired(ranks: pl.DataFrame, *, ranking: str) -> pl.DataFrame:
    """Return the paired differences of this ranking to each other one.

    The difference is significant if its interval does not contain 0.
    """
    table = add_metrics(ranks)
    ranking_rows = table.filter(ranking=ranking).sort("query")
    rows = []
    for (name,), group in table.filter(pl.col("ranking") != ranking).group_by("ranking", maintain_order=True):
        other_rows = group.sort("query")
        gains = {
            key: str(bootstrap_mean((ranking_rows[key] - other_rows[key]).to_numpy()))
            for key in list_metrics(ranks)
        }
        rows.append({"ranking": f"{ranking} - {name}"} | gains)
    return pl.DataFrame(rows)


def compute_auc(positives: Sequence[float], negatives: Sequence[float]) -> float:
    """Return the area under the ROC curve: the share of pairs in which the positive has the higher score.

    Equal scores count half, so 0.5 is chance.
    """
    pairs = [
        (positive > negative) + (positive == negative) / 2 for positive in positives for negative in negatives
    ]
    return sum(pairs) / len(pairs)
