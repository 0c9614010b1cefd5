"""How every chart looks: quiet axes, a title that says what is to be seen, colours for every eye.

The charts of activity and hotspots: each title is what these numbers say.

The charts of lanes, vectors and costs.
"""

from __future__ import annotations

from datetime import timedelta
from io import BytesIO
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from serve.analysis import metrics, vector_map
from stores.frames import FREE, Frames

# Okabe and Ito's palette: told apart with any kind of colour blindness, and in grey by their lightness.
BLUE: Final = "#0072B2"
ORANGE: Final = "#E69F00"
GREEN: Final = "#009E73"
RED: Final = "#D55E00"
SKY: Final = "#56B4E9"
PINK: Final = "#CC79A7"
YELLOW: Final = "#F0E442"
GREY: Final = "#8A8F98"
PALETTE: Final = (BLUE, ORANGE, GREEN, PINK, SKY, RED, YELLOW, GREY)
INK: Final = "#1F2430"
FAINT: Final = "#6B7280"
GRID: Final = "#E5E7EB"

# GitHub shows a notebook about 900 pixels wide.
WIDTH: Final = 9.0
DPI: Final = 100


class Chart(Figure):
    """A figure that a notebook shows by itself, whatever its backend."""

    def _repr_png_(self) -> bytes:
        drawn = BytesIO()
        self.savefig(drawn, format="png")
        return drawn.getvalue()


def new_figure(height: float, title: str, note: str = "") -> Chart:
    """An empty figure with its finding on top, and below it in small what one looks at."""
    above = 1 - 0.62 / height
    made = Chart(
        figsize=(WIDTH, height),
        dpi=DPI,
        facecolor="white",
        layout=ConstrainedLayoutEngine(rect=(0, 0, 1, above)),
    )
    made.text(0.012, 1 - 0.12 / height, title, ha="left", va="top", fontsize=14, fontweight="bold", color=INK)
    made.text(0.012, 1 - 0.40 / height, note, ha="left", va="top", fontsize=9.5, color=FAINT)
    return made


def quiet(axes: Axes, *, grid: Literal["both", "x", "y"] = "y") -> Axes:
    """Axes without what says nothing."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(length=0, colors=FAINT, labelsize=9)
    axes.grid(axis=grid, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    return axes


def counted(axes: Axes, which: str = "y") -> None:
    """Numbers on an axis as 1 k, 2 M; whole ones only."""
    axis = axes.yaxis if which == "y" else axes.xaxis
    axis.set_major_formatter(EngFormatter(sep="\N{THIN SPACE}"))
    axis.set_major_locator(MaxNLocator(nbins=5, integer=True))


def shortened(text: str, length: int) -> str:
    """The text, its middle left out where it is too long: both ends of a path tell more than one."""
    if len(text) <= length:
        return text
    half = (length - 1) // 2
    return f"{text[: length - 1 - half]}…{text[-half:]}"


# As many bars as can be read beside their names.
BARS: Final = 14
MATRIX: Final = 14
# Bars that touch are taken for an area.
BAR_SHARE: Final = 0.86
NAME_CELLS: Final = 44
# Cells darker than this have white numbers.
DARK: Final = 0.55


def history(index: Frames) -> Chart:
    """Commits, lines and languages over time, one below the other."""
    every = metrics.step(index)
    rows = metrics.over_time(index, every)
    figure = new_figure(7.2, _busiest(rows, every), f"One bar is one {metrics.STEPS[every][0]}, in UTC.")
    commits, lines, kinds = figure.subplots(3, 1, sharex=True, height_ratios=[1, 1.2, 1.2])
    dates = rows.get_column("commit_date").to_list()
    width = timedelta(hours=metrics.STEPS[every][1] * BAR_SHARE)
    commits.bar(dates, rows["commits"], width=width, color=BLUE, align="edge")
    lines.bar(dates, rows["added"], width=width, color=GREEN, align="edge", label="added")
    lines.bar(dates, -rows["removed"], width=width, color=RED, align="edge", label="removed")
    lines.axhline(0, color=FAINT, linewidth=0.8)
    _languages(kinds, metrics.languages(index, every), width)
    for axes, title in ((commits, "commits"), (lines, "lines"), (kinds, "files changed")):
        quiet(axes).set_title(title, loc="left", fontsize=10, color=INK, fontweight="bold")
        counted(axes)
    lines.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):,.0f}"))
    lines.legend(frameon=False, fontsize=9, ncols=2, loc="lower right", bbox_to_anchor=(1, 0.98))
    locator = AutoDateLocator(maxticks=9)
    kinds.xaxis.set_major_locator(locator)
    kinds.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    return figure


def hot_files(index: Frames) -> Chart:
    """The files that most commits changed, and how many of these were fixes."""
    return _bars(metrics.files(index), "file_path", "files", index)


def hot_symbols(index: Frames) -> Chart:
    """The same for symbols."""
    rows = metrics.symbols(index).with_columns(
        label=pl.col("name") + "  (" + pl.col("file_path").str.split("/").list.last() + ")"
    )
    return _bars(rows, "label", "symbols", index)


def changed_together(index: Frames) -> Chart:
    """Which of the files that change together most do so with which."""
    pairs = metrics.co_changes(index)
    names = _closest(pairs)
    title = "No two files change together often enough to tell"
    if names:
        first = pairs.row(0, named=True)
        pair = f"{shortened(first['file_path'], 30)} and {shortened(first['file_path_other'], 30)}"
        title = f"{pair}: together in {first['share']:.0%} of their commits"
    figure = new_figure(7.4, title, "Commits that change both files, as a share of those that change either.")
    axes = figure.subplots()
    image = axes.imshow(_matrix(pairs, names), cmap="Blues", vmin=0, vmax=1)
    quiet(axes).grid(visible=False)
    axes.set_xticks(range(len(names)), [shortened(name, 26) for name in names], rotation=40, ha="right")
    axes.set_yticks(range(len(names)), [shortened(name, 32) for name in names])
    _cells(axes, pairs, names)
    if names:
        bar = figure.colorbar(
            image, ax=axes, shrink=0.6, format=FuncFormatter(lambda value, _: f"{value:.0%}")
        )
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0, colors=FAINT, labelsize=9)
    return figure


def _cells(axes: Axes, pairs: pl.DataFrame, names: list[str]) -> None:
    """The shares as numbers, where they are not nothing."""
    for (row, column), share in np.ndenumerate(_matrix(pairs, names)):
        if share > 0:
            ink = "white" if share > DARK else INK
            axes.annotate(
                f"{100 * share:.0f}", (column, row), ha="center", va="center", fontsize=8, color=ink
            )


def _busiest(rows: pl.DataFrame, every: str) -> str:
    total = int(rows["commits"].sum())
    if not total:
        return "No commits yet"
    best = rows.row(int(rows["commits"].arg_max() or 0), named=True)
    forms = {"h": "%d %b %Y, %H:00", "d": "%d %b %Y", "w": "%d %b %Y", "o": "%b %Y", "y": "%Y"}
    when = best["commit_date"].strftime(forms[every[-1]])
    return f"{best['commits']:,} of {total:,} commits fell in one {metrics.STEPS[every][0]}: {when}"


def _languages(axes: Axes, rows: pl.DataFrame, width: Any) -> None:
    wide = rows.pivot("language", index="commit_date", values="hunks").fill_null(0).sort("commit_date")
    names = sorted(wide.columns[1:], key=lambda name: (name == metrics.OTHER, -int(wide[name].sum())))
    below = np.zeros(wide.height)
    for name, colour in zip(names, PALETTE, strict=False):
        counts = wide[name].to_numpy()
        axes.bar(
            wide["commit_date"].to_list(),
            counts,
            bottom=below,
            width=width,
            color=colour,
            align="edge",
            label=name,
        )
        below += counts
    if names:
        axes.legend(frameon=False, fontsize=9, ncols=4, loc="lower right", bbox_to_anchor=(1, 0.98))


def _bars(rows: pl.DataFrame, label: str, what: str, index: Frames) -> Chart:
    total = int(index.commits["reached"].sum())
    top = rows.head(BARS).reverse()
    figure = new_figure(
        1.6 + 0.32 * max(top.height, 4),
        _most(rows, label, total, what),
        f"The {top.height} {what} that most commits changed.",
    )
    axes = quiet(figure.subplots(), grid="x")
    places = np.arange(top.height)
    plain = (top["changes"] - top["fixes"]).to_numpy()
    axes.barh(places, top["fixes"], color=RED, label="commits that fix something")
    axes.barh(places, plain, left=top["fixes"], color=SKY, label="other commits")
    axes.set_yticks(places, [shortened(name, NAME_CELLS) for name in top[label]], color=INK)
    for place, row in zip(places, top.iter_rows(named=True), strict=True):
        if row["fixes"]:
            axes.annotate(
                f"{row['fix_rate']:.0%} fixes",
                (row["changes"], place),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
                color=FAINT,
            )
    axes.margins(x=0.12)
    axes.set_xlabel("commits", color=FAINT, fontsize=9)
    counted(axes, "x")
    axes.legend(frameon=False, fontsize=9, ncols=2, loc="lower right", bbox_to_anchor=(1, 0.99))
    return figure


def _most(rows: pl.DataFrame, label: str, total: int, what: str) -> str:
    if not rows.height:
        return f"No {what} yet"
    first = rows.row(0, named=True)
    return f"{shortened(first[label], 40)} changed in {first['changes'] / max(total, 1):.0%} of {total:,} commits"


def _closest(pairs: pl.DataFrame) -> list[str]:
    """Files in the pairs that change together most, those that belong together beside each other."""
    names: list[str] = []
    for row in pairs.iter_rows(named=True):
        new = [name for name in (row["file_path"], row["file_path_other"]) if name not in names]
        if len(names) + len(new) > MATRIX:
            break
        names += new
    return names


def _matrix(pairs: pl.DataFrame, names: list[str]) -> npt.NDArray[np.float64]:
    places = {name: place for place, name in enumerate(names)}
    shares = np.eye(max(len(names), 1))
    for row in pairs.iter_rows(named=True):
        if row["file_path"] in places and row["file_path_other"] in places:
            one, other = places[row["file_path"]], places[row["file_path_other"]]
            shares[one, other] = shares[other, one] = row["share"]
    np.fill_diagonal(shares, np.nan)
    return shares


# Hits that a person looks at.
SHOWN: Final = 10
# Ranks below this are drawn at the lower edge: what matters is that they are far away.
LOWEST: Final = 30


def lanes(question: str, rows: pl.DataFrame) -> Chart:
    """The first hits after fusion, and the rank that each has in each lane."""
    top = rows.head(SHOWN)
    figure = new_figure(
        5.6,
        _agreement(top),
        f"“{shortened(question, 60)}”: ranks by lane. No dot: not among the lane's first 100.",
    )
    axes = figure.subplots()
    columns = [*vector_map.LANES, "fused"]
    for number, row in enumerate(top.iter_rows(named=True)):
        colour = PALETTE[number % len(PALETTE)]
        points = [(place, min(row[name], LOWEST)) for place, name in enumerate(columns) if row[name]]
        axes.plot(
            *zip(*points, strict=True),
            color=colour,
            linewidth=2,
            linestyle="-" if number < len(PALETTE) else ":",
            marker="o",
            markersize=7,
            alpha=0.9,
        )
        label = f"{row['fused']}  {shortened(row['file_path'], 38)}"
        axes.annotate(
            label,
            (len(columns) - 1, row["fused"]),
            (10, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=INK,
        )
    _ranks(axes, columns)
    return figure


def map_of(index: Frames) -> Chart:
    """Every hunk where its text lies, regions coloured and named."""
    places = vector_map.mapped(index)
    spread = places["spread"][0] if places.height else 0.0
    named = vector_map.names(places)
    title = (
        f"{places.height:,} changes in {named.height} regions; the largest: {named['name'][0]}"
        if named.height
        else "Nothing to map yet"
    )
    note = f"Each dot is one changed file of one commit; near means alike. The axes show {spread:.0%} of the variance."
    figure = new_figure(7.4, title, note)
    axes = figure.subplots()
    axes.set_axis_off()
    for row in named.iter_rows(named=True):
        dots = places.filter(pl.col("region") == row["region"])
        colour = PALETTE[row["region"] % len(PALETTE)]
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
            color=INK,
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
    figure = new_figure(3.6, _largest(sizes), "About how many bytes of the index file each part takes.")
    _shares(figure.subplots(), sizes, "part", sizes["bytes"] / 1e6, "MB", note="use")
    return figure


def phases(times: pl.DataFrame) -> Chart:
    """Where a run's seconds go."""
    total = float(times["seconds"].sum())
    first = times.row(0, named=True)
    title = f"{first['phase'].capitalize()} takes {first['seconds'] / max(total, 1e-9):.0%} of a run's work"
    figure = new_figure(3.6, title, "Seconds of each phase, summed over all processes: phases overlap.")
    _shares(figure.subplots(), times, "phase", times["seconds"], "seconds")
    return figure


def _largest(sizes: pl.DataFrame) -> str:
    kept = sizes.filter(pl.col("part") != FREE)
    if not kept["bytes"].sum():
        return "Nothing lies in the index file yet: all of it is in its log"
    first, total = kept.row(0, named=True), int(sizes["bytes"].sum())
    return f"{first['part'].capitalize()} take {first['bytes'] / total:.0%} of {total / 1e6:,.1f} MB"


def _agreement(top: pl.DataFrame) -> str:
    counts = top.select(
        pl.sum_horizontal(pl.col(name).is_not_null() for name in vector_map.LANES).alias("lanes")
    )
    agreed = int((counts["lanes"] == len(vector_map.LANES)).sum())
    return (
        f"All three lanes know {agreed} of the first {top.height} hits" if top.height else "No lane has a hit"
    )


def _ranks(axes: Axes, columns: list[str]) -> None:
    quiet(axes, grid="x")
    axes.set_ylim(LOWEST + 0.8, 0.2)
    axes.set_xlim(-0.25, len(columns) + 1.1)
    axes.set_xticks(range(len(columns)), columns, color=INK, fontsize=10, fontweight="bold")
    axes.xaxis.tick_top()
    ticks = (1, 5, 10, 20, LOWEST)
    axes.set_yticks(ticks, [*map(str, ticks[:-1]), f"{LOWEST} or lower"])
    axes.spines["bottom"].set_visible(False)


def _shares(axes: Axes, rows: pl.DataFrame, label: str, sizes: pl.Series, unit: str, note: str = "") -> None:
    quiet(axes, grid="x")
    axes.barh(rows[label], sizes, color=[GREY if name == FREE else BLUE for name in rows[label]])
    axes.invert_yaxis()
    axes.tick_params(axis="y", colors=INK, labelsize=10)
    whole = float(sizes.sum()) or 1.0
    for place, (size, row) in enumerate(zip(sizes, rows.iter_rows(named=True), strict=True)):
        text = f"{size:,.2f} {unit}, {size / whole:.0%}" + (f": {row[note]}" if note else "")
        axes.annotate(
            text, (size, place), (5, 0), textcoords="offset points", va="center", fontsize=9, color=FAINT
        )
    largest = float(max(sizes.to_list(), default=0.0)) or 1.0
    axes.set_xlim(0, largest * (1.6 if note else 1.2))
    axes.set_xlabel(unit, color=FAINT, fontsize=9)
