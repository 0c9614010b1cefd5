"""The charts of lanes, vectors and costs."""

from __future__ import annotations

from typing import Any, Final

import polars as pl
from matplotlib.axes import Axes

from serve.insight import atlas, look, ranked
from serve.insight.look import Chart
from stores.frames import FREE, Frames

# Hits that a person looks at.
SHOWN: Final = 10
# Ranks below this are drawn at the lower edge: what matters is that they are far away.
LOWEST: Final = 30


def lanes(question: str, rows: pl.DataFrame) -> Chart:
    """The first hits after fusion, and the rank that each has in each lane."""
    top = rows.head(SHOWN)
    figure = look.figure(
        5.6,
        _agreement(top),
        f"“{look.shortened(question, 60)}”: ranks by lane. No dot: not among the lane's first 100.",
    )
    axes = figure.subplots()
    columns = [*ranked.LANES, "fused"]
    for number, row in enumerate(top.iter_rows(named=True)):
        colour = look.PALETTE[number % len(look.PALETTE)]
        points = [(place, min(row[name], LOWEST)) for place, name in enumerate(columns) if row[name]]
        axes.plot(
            *zip(*points, strict=True),
            color=colour,
            linewidth=2,
            linestyle="-" if number < len(look.PALETTE) else ":",
            marker="o",
            markersize=7,
            alpha=0.9,
        )
        label = f"{row['fused']}  {look.shortened(row['file_path'], 38)}"
        axes.annotate(
            label,
            (len(columns) - 1, row["fused"]),
            (10, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=look.INK,
        )
    _ranks(axes, columns)
    return figure


def map_of(index: Frames) -> Chart:
    """Every hunk where its text lies, regions coloured and named."""
    places = atlas.mapped(index)
    spread = places["spread"][0] if places.height else 0.0
    named = atlas.names(places)
    title = (
        f"{places.height:,} changes in {named.height} regions; the largest: {named['name'][0]}"
        if named.height
        else "Nothing to map yet"
    )
    note = f"Each dot is one changed file of one commit; near means alike. The axes show {spread:.0%} of the variance."
    figure = look.figure(7.4, title, note)
    axes = figure.subplots()
    axes.set_axis_off()
    for row in named.iter_rows(named=True):
        dots = places.filter(pl.col("region") == row["region"])
        colour = look.PALETTE[row["region"] % len(look.PALETTE)]
        label = f"{row['name']}  ({row['hunks']:,})"
        axes.scatter(dots["x"], dots["y"], s=14, color=colour, alpha=0.65, linewidths=0, label=label)
        centre = (dots["x"].median(), dots["y"].median())
        axes.annotate(
            str(row["region"] + 1),
            centre,
            ha="center",
            va="center",
            fontsize=10,
            fontweight="bold",
            color=look.INK,
            bbox={"boxstyle": "circle,pad=0.25", "facecolor": "white", "edgecolor": colour, "linewidth": 1.6},
        )
    if named.height:
        axes.legend(
            *_named(axes),
            frameon=False,
            fontsize=9,
            ncols=2,
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            handletextpad=0.2,
        )
    return figure


def _named(axes: Axes) -> tuple[list[Any], list[str]]:
    """The legend's dots and names, each with its number on the map."""
    dots, names = axes.get_legend_handles_labels()
    return dots, [f"{number}  {name}" for number, name in enumerate(names, 1)]


def parts(sizes: pl.DataFrame) -> Chart:
    """Where an index's bytes go."""
    figure = look.figure(3.6, _largest(sizes), "About how many bytes of the index file each part takes.")
    _shares(figure.subplots(), sizes, "part", sizes["bytes"] / 1e6, "MB", note="use")
    return figure


def phases(times: pl.DataFrame) -> Chart:
    """Where a run's seconds go."""
    total = float(times["seconds"].sum())
    first = times.row(0, named=True)
    title = f"{first['phase'].capitalize()} takes {first['seconds'] / max(total, 1e-9):.0%} of a run's work"
    figure = look.figure(3.6, title, "Seconds of each phase, summed over all processes: phases overlap.")
    _shares(figure.subplots(), times, "phase", times["seconds"], "seconds")
    return figure


def _largest(sizes: pl.DataFrame) -> str:
    kept = sizes.filter(pl.col("part") != FREE)
    if not kept["bytes"].sum():
        return "Nothing lies in the index file yet: all of it is in its log"
    first, total = kept.row(0, named=True), int(sizes["bytes"].sum())
    return f"{first['part'].capitalize()} take {first['bytes'] / total:.0%} of {total / 1e6:,.1f} MB"


def _agreement(top: pl.DataFrame) -> str:
    counts = top.select(pl.sum_horizontal(pl.col(name).is_not_null() for name in ranked.LANES).alias("lanes"))
    agreed = int((counts["lanes"] == len(ranked.LANES)).sum())
    return (
        f"All three lanes know {agreed} of the first {top.height} hits" if top.height else "No lane has a hit"
    )


def _ranks(axes: Axes, columns: list[str]) -> None:
    look.quiet(axes, grid="x")
    axes.set_ylim(LOWEST + 0.8, 0.2)
    axes.set_xlim(-0.25, len(columns) + 1.1)
    axes.set_xticks(range(len(columns)), columns, color=look.INK, fontsize=10, fontweight="bold")
    axes.xaxis.tick_top()
    ticks = (1, 5, 10, 20, LOWEST)
    axes.set_yticks(ticks, [*map(str, ticks[:-1]), f"{LOWEST} or lower"])
    axes.spines["bottom"].set_visible(False)


def _shares(axes: Axes, rows: pl.DataFrame, label: str, sizes: pl.Series, unit: str, note: str = "") -> None:
    look.quiet(axes, grid="x")
    axes.barh(rows[label], sizes, color=[look.GREY if name == FREE else look.BLUE for name in rows[label]])
    axes.invert_yaxis()
    axes.tick_params(axis="y", colors=look.INK, labelsize=10)
    whole = float(sizes.sum()) or 1.0
    for place, (size, row) in enumerate(zip(sizes, rows.iter_rows(named=True), strict=True)):
        text = f"{size:,.2f} {unit}, {size / whole:.0%}" + (f": {row[note]}" if note else "")
        axes.annotate(
            text, (size, place), (5, 0), textcoords="offset points", va="center", fontsize=9, color=look.FAINT
        )
    largest = float(max(sizes.to_list(), default=0.0)) or 1.0
    axes.set_xlim(0, largest * (1.6 if note else 1.2))
    axes.set_xlabel(unit, color=look.FAINT, fontsize=9)
