"""How good a ranking of commits is: reciprocal rank, recall, and how sure the sample lets us be.

A result is one row per question and ranking: `rank` is the place of the first commit that answers, counted
from 1, and null where none came; where answers are graded, `nDCG@10` stands beside it. Intervals are percentiles
of means over questions drawn again with replacement; the seed is fixed, so that the same ranks give the same
interval.
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
RECIPROCAL_DEPTH: Final = 10
GAIN_DEPTH: Final = 10
NDCG: Final = f"nDCG@{GAIN_DEPTH}"
# The interval's ends move by less than 0.002 between seeds at this many.
RESAMPLES: Final = 5_000
SEED: Final = 2
CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over questions and the interval that holds it with `CONFIDENCE`."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def first_answer(ranking: Sequence[str], answers: frozenset[str]) -> int | None:
    """The place, from 1, of the first commit that answers."""
    return next((place for place, sha in enumerate(ranking, 1) if sha in answers), None)


def gain(ranking: Sequence[str], grades: Mapping[str, int], depth: int = GAIN_DEPTH) -> float:
    """Normalised discounted cumulative gain: 1 for the best order there could be, 0 where nothing graded came.

    A commit of grade g is worth 2^g - 1, at place p divided by log2(p + 1) (Burges et al., 2005).
    """
    best = sorted(grades.values(), reverse=True)
    came = [grades.get(sha, 0) for sha in ranking]
    ideal = _discounted(best[:depth])
    return _discounted(came[:depth]) / ideal if ideal else 0.0


def _discounted(grades: Sequence[int]) -> float:
    return sum((2.0**grade - 1) / log2(place + 1) for place, grade in enumerate(grades, 1))


def distinct(shas: Iterable[str]) -> list[str]:
    """Commits in the order of their best hunk."""
    return list(dict.fromkeys(shas))


def reciprocal(depth: int = RECIPROCAL_DEPTH) -> pl.Expr:
    """A question's reciprocal rank, 0 below the depth."""
    rank = pl.col("rank")
    return pl.when(rank <= depth).then(1 / rank).otherwise(0.0).alias(f"MRR@{depth}")


def found_within(depth: int) -> pl.Expr:
    """1 where an answer came within the depth, else 0."""
    return (pl.col("rank") <= depth).fill_null(value=False).cast(pl.Float64).alias(f"R@{depth}")


def scored(ranks: pl.DataFrame) -> pl.DataFrame:
    """Every question's scores beside its rank."""
    return ranks.with_columns(reciprocal(), *map(found_within, RECALL_DEPTHS))


def measures(ranks: pl.DataFrame) -> list[str]:
    """What can be said of these ranks, the chief measure first."""
    graded = [NDCG] if NDCG in ranks.columns else []
    return [*graded, f"MRR@{RECIPROCAL_DEPTH}", *(f"R@{depth}" for depth in RECALL_DEPTHS)]


def estimate(values: npt.NDArray[np.float64]) -> Estimate:
    """Mean and bootstrap interval of one measure over questions."""
    draws = np.random.default_rng(SEED).integers(len(values), size=(RESAMPLES, len(values)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values[draws].mean(axis=1), [tail, 1 - tail])
    return Estimate(float(values.mean()), float(low), float(high))


def estimates(ranks: pl.DataFrame) -> Iterator[tuple[str, str, Estimate]]:
    """Ranking, measure, and what it comes to."""
    for (name,), group in scored(ranks).group_by("ranking", maintain_order=True):
        for measure in measures(ranks):
            yield str(name), measure, estimate(group[measure].to_numpy())


def summary(ranks: pl.DataFrame) -> pl.DataFrame:
    """A line per ranking: each measure with its interval."""
    rows: dict[str, dict[str, str]] = {}
    for name, measure, value in estimates(ranks):
        rows.setdefault(name, {"ranking": name})[measure] = str(value)
    return pl.DataFrame(list(rows.values()))


def differences(ranks: pl.DataFrame, *, of: str) -> pl.DataFrame:
    """What each other ranking lacks to this one, question by question: an interval above 0 is a real lead."""
    table = scored(ranks)
    ours = table.filter(ranking=of).sort("question")
    rows = []
    for (name,), group in table.filter(pl.col("ranking") != of).group_by("ranking", maintain_order=True):
        theirs = group.sort("question")
        gains = {key: str(estimate((ours[key] - theirs[key]).to_numpy())) for key in measures(ranks)}
        rows.append({"ranking": f"{of} - {name}"} | gains)
    return pl.DataFrame(rows)


def parted(answered: Sequence[float], unanswered: Sequence[float]) -> float:
    """How often a question that has an answer gets the higher best score than one that has none; 0.5 is chance."""
    pairs = [(one > other) + (one == other) / 2 for one in answered for other in unanswered]
    return sum(pairs) / len(pairs)
