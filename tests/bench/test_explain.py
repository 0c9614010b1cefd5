"""Tests of `tests.bench.explain`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from serve.explain.explain_change import Explainer
from serve.explain_types import ExplainedLine, ExplainRequest
from tests.bench import explain
from tests.bench.histories import History, create_wide_history
from tests.bench.report import BenchmarkOptions
from tests.repos import Repo


def test_measure(tmp_path: Path) -> None:
    """Rows that do not depend on the machine are within their limits, for both work trees."""
    history = create_wide_history(tmp_path / "made", files=3)
    Repo(history.path).rename("part000", "moved")
    Repo(history.path).commit("Move")
    rows = explain.measure(history.path, tmp_path, BenchmarkOptions((), 1, 100, 6))
    exact = [row for row in rows if row.limit == 0]
    assert len(exact) == 8
    assert [row for row in exact if not row.is_within_limit] == []


def test_disagreements_are_counted(tmp_path: Path) -> None:
    """A wrong commit, an excerpt that git does not show, and a wrong path are counted."""
    history: History = create_wide_history(tmp_path / "made", files=1)
    request = ExplainRequest("part000/module0000.py", 1, 9)
    comparison = explain._compare_with_git(history, Explainer(tmp_path / "home"), request)
    hit = comparison.answer.hits[0]
    assert explain._count_disagreements(comparison) == 0
    assert explain._is_shown_by_git(history, comparison, hit)
    line = replace(comparison.answer.lines[0], commit_sha="0" * 40)
    lines: tuple[ExplainedLine, ...] = (line, *comparison.answer.lines[1:])
    assert (
        explain._count_disagreements(replace(comparison, answer=replace(comparison.answer, lines=lines))) == 1
    )
    for wrong in (
        replace(hit, file_path="x"),
        replace(hit, diff_excerpt=(hit.diff_excerpt or "") + "+more\n"),
        replace(hit, diff_excerpt=""),
    ):
        assert not explain._is_shown_by_git(history, comparison, wrong)
