"""Ranks become measures, and measures come with intervals."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.eval.metrics import (
    NDCG,
    differences,
    distinct,
    estimate,
    first_answer,
    gain,
    measures,
    parted,
    scored,
    summary,
)


def ranks(**by_ranking: list[int | None]) -> pl.DataFrame:
    rows = [(question, name, rank) for name, row in by_ranking.items() for question, rank in enumerate(row)]
    return pl.DataFrame(
        rows, schema={"question": pl.Int64, "ranking": pl.String, "rank": pl.Int64}, orient="row"
    )


def test_first_answer() -> None:
    """A commit stands where its best hunk does, and the first of several answers counts."""
    ranking = distinct(["b", "b", "c", "a", "c"])
    assert ranking == ["b", "c", "a"]
    assert first_answer(ranking, frozenset("ac")) == 2
    assert first_answer(ranking, frozenset("x")) is None


def test_measures() -> None:
    """Reciprocal rank ends at 10, recall counts what came within its depth, and nothing found scores nothing."""
    table = scored(ranks(one=[1, 4, 11, None]))
    assert table["MRR@10"].to_list() == [1, 0.25, 0, 0]
    assert table.select("R@1", "R@5", "R@10", "R@50").sum().row(0) == (1, 2, 2, 3)


def test_intervals() -> None:
    """An interval holds the mean, is the same every time, and is narrower with more questions."""
    few, many = (estimate(np.tile([0.0, 1.0], count)) for count in (10, 1_000))
    assert few == estimate(np.tile([0.0, 1.0], 10))
    assert few.low < few.mean < few.high
    assert many.high - many.low < few.high - few.low


def test_summary_and_differences() -> None:
    """A line per ranking; a lead is taken question by question, so a constant lead has no width."""
    table = ranks(ours=[1, 1, 1], theirs=[2, 2, 2])
    assert summary(table)["MRR@10"].to_list() == ["1.000 [1.000, 1.000]", "0.500 [0.500, 0.500]"]
    assert differences(table, of="ours").row(0)[:2] == ("ours - theirs", "0.500 [0.500, 0.500]")


def test_gain() -> None:
    """Graded answers count 7, 3 and 1, less the later they come, against the best order of all answers."""
    grades = {"a": 3, "b": 2, "c": 1}
    assert gain(["a", "b", "c"], grades) == 1
    # By hand: (3 / 1 + 7 / log2(3)) / (7 / 1 + 3 / log2(3) + 1 / 2).
    assert gain(["b", "a", "x"], grades) == pytest.approx(0.78960, abs=1e-5)
    # (1 / log2(3)) / the same.
    assert gain(["x", "c"], grades) == pytest.approx(0.06717, abs=1e-5)
    assert gain(["x"] * 10 + ["a"], grades) == 0
    assert gain(["a"], {}) == 0
    # More answers than places: the best order has ten of them.
    many = {str(number): 1 for number in range(30)}
    assert gain([str(number) for number in range(10)], many) == 1


def test_graded_measures() -> None:
    """The gain leads where there is one."""
    table = ranks(ours=[1, 2])
    assert measures(table)[0] == "MRR@10"
    graded = table.with_columns(pl.Series(NDCG, [1.0, 0.5]))
    assert measures(graded)[:2] == ["nDCG@10", "MRR@10"]
    assert summary(graded)["nDCG@10"][0].startswith("0.750 [")


def test_parted() -> None:
    """Best scores that always tell answered from unanswered give 1, equal ones a half, the wrong way round 0."""
    assert parted([2, 3], [1]) == 1
    assert parted([1], [1]) == 0.5
    assert parted([1], [2, 3]) == 0
    assert parted([1, 3], [2]) == 0.5
