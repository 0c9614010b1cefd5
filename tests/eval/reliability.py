"""How honest probabilities are: of what was said to answer with 0.7, seven tenths should.

A hit is one commit of the reranked answer to one question. Questions that a history does not answer take part: whatever
was said of their hits, none answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
from matplotlib.axes import Axes

from serve.analysis import charts
from serve.search.rerank import WEAK
from stores.snapshot import Floats

# What one question's hits were said to be and are.
SAID: Final = {"question": pl.Int64, "probability": pl.Float64, "answers": pl.Boolean}
# The first bin is that of hits marked as weak.
BINS: Final = (0.0, WEAK, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
COLUMNS: Final = ("probability", "hits", "said, mean", "answer, share")
IN_A_ROW: Final = 3
PANEL_INCHES: Final = 3.4
TITLE_INCHES: Final = 0.7
LONGEST_NAME: Final = 36
# Of a share among n: two standard errors, by Agresti and Coull's plus four, which holds near 0 and 1 too.
_PLUS: Final = 2


def table(said: Floats, answers: npt.NDArray[np.bool_]) -> pl.DataFrame:
    """A line for each range of probabilities: honest where the last two columns agree."""
    bins = np.digitize(said, BINS[1:-1])
    rows = [
        (f"{low:.2f} to {high:.2f}", int(here.sum()), said[here].mean(), answers[here].mean())
        for place, (low, high) in enumerate(pairwise(BINS))
        if (here := bins == place).any()
    ]
    shown = pl.DataFrame(rows, schema=list(COLUMNS), orient="row")
    return shown.with_columns(pl.col(COLUMNS[2:]).cast(pl.Float64).round(3))


def of(said: pl.DataFrame) -> pl.DataFrame:
    """The same of a frame that has the columns of `SAID`."""
    return table(said["probability"].to_numpy(), said["answers"].to_numpy())


def draw(tables: Mapping[str, pl.DataFrame], file: Path) -> None:
    """A plot of each table, three in a row, into a PNG or SVG file: honest is what lies on the diagonal."""
    title = "What a probability of the reranker is worth"
    note = (
        "A dot is a range of probabilities with twice its standard error; a grey bar, its share of all hits."
    )
    rows = -(-len(tables) // IN_A_ROW)
    figure = charts.new_figure(TITLE_INCHES + rows * PANEL_INCHES, title, note)
    for place, (name, shown) in enumerate(tables.items(), 1):
        axes = figure.add_subplot(rows, min(len(tables), IN_A_ROW), place)
        _panel(axes, name, shown)
        axes.set_ylabel("share that answers" if place % IN_A_ROW == 1 else "", color=charts.FAINT)
    figure.savefig(file)


def _panel(axes: Axes, name: str, shown: pl.DataFrame) -> None:
    said, share, hits = (shown[column].to_numpy() for column in ("said, mean", "answer, share", "hits"))
    n = hits + 2 * _PLUS
    middle = (share * hits + _PLUS) / n
    error = 2 * np.sqrt(middle * (1 - middle) / n)
    axes.plot([0, 1], [0, 1], color=charts.GREY, linewidth=1, linestyle="--")
    axes.bar(said, hits / hits.sum(), width=0.03, color=charts.GRID)
    axes.errorbar(said, middle, yerr=error, fmt="none", color=charts.BLUE, linewidth=1.2)
    axes.plot(said, share, "o", color=charts.BLUE, markersize=5)
    charts.quiet(axes, grid="both").set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="probability")
    axes.set_xticks((0, 0.2, 0.4, 0.6, 0.8))
    axes.set_title(
        charts.shortened(name, LONGEST_NAME), loc="left", fontsize=10, color=charts.INK, fontweight="bold"
    )
