"""Ranks become measures, and measures come with intervals."""

from __future__ import annotations

import numpy as np
import polars as pl

from tests.eval.metrics import differences, distinct, estimate, first_answer, scored, summary


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
