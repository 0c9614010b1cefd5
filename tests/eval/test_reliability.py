"""What a probability is worth, as a table and as a plot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.eval import reliability
from tests.eval.__main__ import main


def test_boasting_shows() -> None:
    """A ranker that is always sure is shown to be wrong, and a range that nothing fell into is left out."""
    (row,) = reliability.table(np.full(500, 0.99), np.arange(500) % 4 == 0).iter_rows(named=True)
    assert row == {"probability": "0.80 to 1.00", "hits": 500, "said, mean": 0.99, "answer, share": 0.25}


def test_weak_hits_are_a_range_of_their_own() -> None:
    """What is marked as weak can be read off the first line."""
    table = reliability.table(np.array([0.01, 0.049, 0.051, 1.0]), np.array([False, False, True, True]))
    assert table["hits"].to_list() == [2, 1, 1]
    assert table["answer, share"].to_list() == [0, 1, 1]


@pytest.mark.parametrize(("name", "begins"), [("plot.png", b"\x89PNG"), ("plot.svg", b"<?xml")])
def test_plot(tmp_path: Path, name: str, begins: bytes) -> None:
    """A panel for each table, also for one without a hit, in the form that the file is named for."""
    random = np.random.default_rng(1)
    said = random.random(400)
    rows = {"question": np.arange(400), "probability": said, "answers": random.random(400) < said}
    frame = pl.DataFrame(rows, schema=reliability.SAID)
    file = tmp_path / name
    tables = {f"history {number}": reliability.of(frame) for number in range(4)}
    reliability.draw(tables | {"nothing": reliability.of(frame.clear())}, file)
    assert file.read_bytes().startswith(begins)


@pytest.mark.parametrize(("name", "said"), [("plot.txt", "has to end in"), ("none/plot.png", "no folder")])
def test_plot_that_cannot_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    """It is refused before anything is asked."""
    monkeypatch.setattr("sys.argv", ["tests.eval", "nowhere", "--plot", str(tmp_path / name)])
    with pytest.raises(SystemExit):
        main()
    assert said in capsys.readouterr().err
