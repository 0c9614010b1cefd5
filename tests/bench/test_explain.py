"""The measure of explanations finds what is wrong, and nothing where nothing is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from serve.api_types import BlamedLine, ExplainRequest
from serve.explain.explain_change import Explainer
from tests.bench import explain
from tests.bench.histories import History, wide
from tests.bench.report import Asked
from tests.repos import Repo


def test_measure(tmp_path: Path) -> None:
    """On a small history every row that does not depend on the machine holds, in both work trees."""
    history = wide(tmp_path / "made", files=3)
    Repo(history.path).rename("part000", "moved")
    Repo(history.path).commit("Move")
    rows = explain.measure(history.path, tmp_path, Asked((), 1, 100, 6))
    exact = [row for row in rows if row.limit == 0]
    assert len(exact) == 8
    assert [row for row in exact if not row.holds] == []


def test_what_is_wrong_is_counted(tmp_path: Path) -> None:
    """A line of another commit, an excerpt that git does not show, and a wrong path are each found."""
    history: History = wide(tmp_path / "made", files=1)
    request = ExplainRequest("part000/module0000.py", 1, 9)
    asking = explain._ask(history, Explainer(tmp_path / "home"), request)
    hit = asking.ours.hits[0]
    assert explain._disagreeing(asking) == 0
    assert explain._shown_by_git(history, asking, hit)
    line = replace(asking.ours.lines[0], commit_sha="0" * 40)
    lines: tuple[BlamedLine, ...] = (line, *asking.ours.lines[1:])
    assert explain._disagreeing(replace(asking, ours=replace(asking.ours, lines=lines))) == 1
    for wrong in (
        replace(hit, file_path="x"),
        replace(hit, diff_excerpt=(hit.diff_excerpt or "") + "+more\n"),
        replace(hit, diff_excerpt=""),
    ):
        assert not explain._shown_by_git(history, asking, wrong)
