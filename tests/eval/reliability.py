"""Calibration of the reranker's probabilities, as a table and as reliability diagrams.

A hit is one commit of the reranked answer to one query. Probabilities are calibrated if, of the hits with probability
0.7, 70 % are relevant. Queries without a relevant commit take part: none of their hits is relevant.
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
from serve.search.rerank import WEAK_PROBABILITY
from stores.snapshot import Floats

# Schema of a frame with one row for each hit.
HITS: Final = {"query": pl.Int64, "probability": pl.Float64, "is_relevant": pl.Boolean}
# The first bin has the hits that the product marks as weak.
BINS: Final = (0.0, WEAK_PROBABILITY, 0.2, 0.4, 0.6, 0.8, 1.0)
MEAN: Final = "mean probability"
SHARE: Final = "share relevant"
COLUMNS: Final = ("probability", "hits", MEAN, SHARE)
DIAGRAMS_PER_ROW: Final = 3
DIAGRAM_INCHES: Final = 3.4
TITLE_INCHES: Final = 0.7
MAX_NAME_LENGTH: Final = 36
# Error bars are two standard errors with two added successes and failures (Agresti and Coull), for shares near 0 and 1.
_PSEUDO_COUNT: Final = 2


def bin_probabilities(probabilities: Floats, is_relevant: npt.NDArray[np.bool_]) -> pl.DataFrame:
    """Return a row for each bin that has hits. Calibrated probabilities have equal values in the last two columns."""
    bins = np.digitize(probabilities, BINS[1:-1])
    rows = [
        (f"{low:.2f} to {high:.2f}", int(mask.sum()), probabilities[mask].mean(), is_relevant[mask].mean())
        for number, (low, high) in enumerate(pairwise(BINS))
        if (mask := bins == number).any()
    ]
    table = pl.DataFrame(rows, schema=list(COLUMNS), orient="row")
    return table.with_columns(pl.col(MEAN, SHARE).cast(pl.Float64).round(3))


def bin_hits(hits: pl.DataFrame) -> pl.DataFrame:
    """Return the table of a frame with the columns of `HITS`."""
    return bin_probabilities(hits["probability"].to_numpy(), hits["is_relevant"].to_numpy())


def save_diagrams(tables: Mapping[str, pl.DataFrame], file: Path) -> None:
    """Draw a reliability diagram of each table into a PNG or SVG file. Calibrated bins are on the diagonal."""
    title = "Calibration of the reranker"
    note = "Dot: range of probabilities, with twice its standard error. Grey bar: its share of all hits."
    rows = -(-len(tables) // DIAGRAMS_PER_ROW)
    figure = charts.create_figure(TITLE_INCHES + rows * DIAGRAM_INCHES, title, note)
    for number, (name, table) in enumerate(tables.items(), 1):
        axes = figure.add_subplot(rows, min(len(tables), DIAGRAMS_PER_ROW), number)
        _draw_diagram(axes, name, table)
        axes.set_ylabel(SHARE if number % DIAGRAMS_PER_ROW == 1 else "", color=charts.MUTED_TEXT_COLOR)
    figure.savefig(file)


def _draw_diagram(axes: Axes, name: str, table: pl.DataFrame) -> None:
    mean, share, hits = (table[column].to_numpy() for column in (MEAN, SHARE, "hits"))
    n = hits + 2 * _PSEUDO_COUNT
    center = (share * hits + _PSEUDO_COUNT) / n
    error = 2 * np.sqrt(center * (1 - center) / n)
    axes.plot([0, 1], [0, 1], color=charts.GREY, linewidth=1, linestyle="--")
    axes.bar(mean, hits / hits.sum(), width=0.03, color=charts.GRID_COLOR)
    axes.errorbar(mean, center, yerr=error, fmt="none", color=charts.BLUE, linewidth=1.2)
    axes.plot(mean, share, "o", color=charts.BLUE, markersize=5)
    charts.style_axes(axes, grid="both").set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="probability")
    axes.set_xticks((0, 0.2, 0.4, 0.6, 0.8))
    axes.set_title(
        charts.shorten(name, MAX_NAME_LENGTH),
        loc="left",
        fontsize=10,
        color=charts.TEXT_COLOR,
        fontweight="bold",
    )
