"""Tests of `tests.eval.reliability`: table and diagrams."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from serve.search.rerank import WEAK_PROBABILITY
from tests.eval import reliability
from tests.eval.__main__ import main


def test_overconfidence() -> None:
    """Mean probability and share differ for an overconfident ranker; empty bins are omitted."""
    (row,) = reliability.bin_probabilities(np.full(500, 0.99), np.arange(500) % 4 == 0).iter_rows(named=True)
    assert row == {
        "probability": "0.80 to 1.00",
        "hits": 500,
        "mean probability": 0.99,
        "share relevant": 0.25,
    }


def test_weak_hits_have_their_own_bin() -> None:
    """The first bin has the hits that the product marks as weak."""
    table = reliability.bin_probabilities(
        np.array([0.01, WEAK_PROBABILITY - 0.001, WEAK_PROBABILITY + 0.001, 1.0]),
        np.array([False, False, True, True]),
    )
    assert table["hits"].to_list() == [2, 1, 1]
    assert table["share relevant"].to_list() == [0, 1, 1]


@pytest.mark.parametrize(("name", "magic"), [("plot.png", b"\x89PNG"), ("plot.svg", b"<?xml")])
def test_plot(tmp_path: Path, name: str, magic: bytes) -> None:
    """Each table gets a diagram, even without hits, in the format of the file extension."""
    random = np.random.default_rng(1)
    probabilities = random.random(400)
    is_relevant = random.random(400) < probabilities
    rows = {"query": np.arange(400), "probability": probabilities, "is_relevant": is_relevant}
    hits = pl.DataFrame(rows, schema=reliability.HITS)
    file = tmp_path / name
    tables = {f"history {number}": reliability.bin_hits(hits) for number in range(4)}
    reliability.save_diagrams(tables | {"no hits": reliability.bin_hits(hits.clear())}, file)
    assert file.read_bytes().startswith(magic)


@pytest.mark.parametrize(
    ("name", "message"), [("plot.txt", "is neither PNG nor SVG"), ("none/plot.png", "does not exist")]
)
def test_invalid_plot_path(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    message: str,
) -> None:
    """An invalid plot path is an error before any query runs."""
    monkeypatch.setattr("sys.argv", ["tests.eval", "nowhere", "--plot", str(tmp_path / name)])
    with pytest.raises(SystemExit):
        main()
    assert message in capsys.readouterr().err
