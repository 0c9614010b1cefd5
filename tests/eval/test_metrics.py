"""Tests of `tests.eval.metrics`."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.eval.metrics import (
    NDCG,
    add_metrics,
    bootstrap_mean,
    compare_paired,
    compute_auc,
    compute_ndcg,
    deduplicate,
    find_first_relevant,
    list_metrics,
    summarize,
)


def create_ranks(**by_ranking: list[int | None]) -> pl.DataFrame:
    """Return a frame of ranks; each argument is a ranking with the ranks of its queries."""
    rows = [(query, name, rank) for name, row in by_ranking.items() for query, rank in enumerate(row)]
    return pl.DataFrame(
        rows, schema={"query": pl.Int64, "ranking": pl.String, "rank": pl.Int64}, orient="row"
    )


def test_first_relevant() -> None:
    """A commit has the rank of its first hunk, and the first relevant commit counts."""
    ranking = deduplicate(["b", "b", "c", "a", "c"])
    assert ranking == ["b", "c", "a"]
    assert find_first_relevant(ranking, frozenset("ac")) == 2
    assert find_first_relevant(ranking, frozenset("x")) is None


def test_metrics() -> None:
    """Reciprocal rank is 0 from rank 11 on, recall counts ranks within its depth, and no rank gives 0."""
    table = add_metrics(create_ranks(one=[1, 4, 11, None]))
    assert table["MRR@10"].to_list() == [1, 0.25, 0, 0]
    assert table.select("R@1", "R@5", "R@10", "R@50").sum().row(0) == (1, 2, 2, 3)


def test_intervals() -> None:
    """An interval contains the mean, is reproducible, and is narrower with more queries."""
    few, many = (bootstrap_mean(np.tile([0.0, 1.0], count)) for count in (10, 1_000))
    assert few == bootstrap_mean(np.tile([0.0, 1.0], 10))
    assert few.low < few.mean < few.high
    assert many.high - many.low < few.high - few.low


def test_summary_and_paired_comparison() -> None:
    """The summary has a row for each ranking; a constant paired difference has an interval without width."""
    table = create_ranks(ours=[1, 1, 1], theirs=[2, 2, 2])
    assert summarize(table)["MRR@10"].to_list() == ["1.000 [1.000, 1.000]", "0.500 [0.500, 0.500]"]
    assert compare_paired(table, ranking="ours").row(0)[:2] == ("ours - theirs", "0.500 [0.500, 0.500]")


def test_ndcg() -> None:
    """Grades 3, 2 and 1 have gains 7, 3 and 1, discounted by rank and divided by the ideal DCG."""
    grades = {"a": 3, "b": 2, "c": 1}
    assert compute_ndcg(["a", "b", "c"], grades) == 1
    # (3 / 1 + 7 / log2(3)) / (7 / 1 + 3 / log2(3) + 1 / 2).
    assert compute_ndcg(["b", "a", "x"], grades) == pytest.approx(0.78960, abs=1e-5)
    # (1 / log2(3)) / (the same ideal DCG).
    assert compute_ndcg(["x", "c"], grades) == pytest.approx(0.06717, abs=1e-5)
    assert compute_ndcg(["x"] * 10 + ["a"], grades) == 0
    assert compute_ndcg(["a"], {}) == 0
    # With more judged commits than ranks, the ideal ranking has ten of them.
    many = {str(number): 1 for number in range(30)}
    assert compute_ndcg([str(number) for number in range(10)], many) == 1


def test_primary_metric() -> None:
    """NDCG is the primary metric if it exists, else MRR."""
    table = create_ranks(ours=[1, 2])
    assert list_metrics(table)[0] == "MRR@10"
    graded = table.with_columns(pl.Series(NDCG, [1.0, 0.5]))
    assert list_metrics(graded)[:2] == ["nDCG@10", "MRR@10"]
    assert summarize(graded)["nDCG@10"][0].startswith("0.750 [")


def test_auc() -> None:
    """Perfectly separated scores give 1, equal scores 0.5, reversed scores 0."""
    assert compute_auc([2, 3], [1]) == 1
    assert compute_auc([1], [1]) == 0.5
    assert compute_auc([1], [2, 3]) == 0
    assert compute_auc([1, 3], [2]) == 0.5
