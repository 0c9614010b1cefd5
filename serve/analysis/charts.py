"""Charts of the notebooks. Every title states the result that the numbers show."""

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
from stores.frames import FREE_SPACE, Frames

# Palette of Okabe and Ito, safe for colour blindness and in greyscale.
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
    """Figure that a notebook displays with any backend."""

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()


def new_figure(height: float, title: str, note: str = "") -> Chart:
    """Create a figure with the result as title and a small note below it."""
    top = 1 - 0.62 / height
    figure = Chart(
        figsize=(WIDTH, height),
        dpi=DPI,
        facecolor="white",
        layout=ConstrainedLayoutEngine(rect=(0, 0, 1, top)),
    )
    figure.text(
        0.012, 1 - 0.12 / height, title, ha="left", va="top", fontsize=14, fontweight="bold", color=INK
    )
    figure.text(0.012, 1 - 0.40 / height, note, ha="left", va="top", fontsize=9.5, color=FAINT)
    return figure


def style_axes(axes: Axes, *, grid: Literal["both", "x", "y"] = "y") -> Axes:
    """Remove frames and ticks of the axes; return them."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(length=0, colors=FAINT, labelsize=9)
    axes.grid(axis=grid, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    return axes


def format_counts(axes: Axes, which: str = "y") -> None:
    """Format the counts on an axis as 1 k, 2 M."""
    axis = axes.yaxis if which == "y" else axes.xaxis
    axis.set_major_formatter(EngFormatter(sep="\N{THIN SPACE}"))
    axis.set_major_locator(MaxNLocator(nbins=5, integer=True))


def shorten(text: str, length: int) -> str:
    """Shorten a text in its middle to `length` characters."""
    if len(text) <= length:
        return text
    half = (length - 1) // 2
    return f"{text[: length - 1 - half]}…{text[-half:]}"


# Bars that fit with readable names.
MAX_NAMED_BARS: Final = 14
MATRIX_SIZE: Final = 14
# Bars that touch look like an area.
BAR_SHARE: Final = 0.86
MAX_NAME_LENGTH: Final = 44
# Cells darker than this have white numbers.
WHITE_TEXT_ABOVE: Final = 0.55


def activity_chart(index: Frames) -> Chart:
    """Plot commits, lines and languages over time."""
    every = metrics.choose_step(index)
    rows = metrics.activity_over_time(index, every)
    figure = new_figure(
        7.2, _busiest_step_title(rows, every), f"One bar is one {metrics.CALENDAR_STEPS[every][0]}, in UTC."
    )
    commits, lines, kinds = figure.subplots(3, 1, sharex=True, height_ratios=[1, 1.2, 1.2])
    dates = rows.get_column("commit_date").to_list()
    width = timedelta(hours=metrics.CALENDAR_STEPS[every][1] * BAR_SHARE)
    commits.bar(dates, rows["commits"], width=width, color=BLUE, align="edge")
    lines.bar(dates, rows["added"], width=width, color=GREEN, align="edge", label="added")
    lines.bar(dates, -rows["removed"], width=width, color=RED, align="edge", label="removed")
    lines.axhline(0, color=FAINT, linewidth=0.8)
    _plot_languages(kinds, metrics.language_activity(index, every), width)
    for axes, title in ((commits, "commits"), (lines, "lines"), (kinds, "files changed")):
        style_axes(axes).set_title(title, loc="left", fontsize=10, color=INK, fontweight="bold")
        format_counts(axes)
    lines.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):,.0f}"))
    lines.legend(frameon=False, fontsize=9, ncols=2, loc="lower right", bbox_to_anchor=(1, 0.98))
    locator = AutoDateLocator(maxticks=9)
    kinds.xaxis.set_major_locator(locator)
    kinds.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    return figure


def file_hotspot_chart(index: Frames) -> Chart:
    """Plot the most frequently changed files and their share of fixes."""
    return _hotspot_chart(metrics.file_hotspots(index), "file_path", "files", index)


def symbol_hotspot_chart(index: Frames) -> Chart:
    """Plot the most frequently changed symbols and their share of fixes."""
    rows = metrics.symbol_hotspots(index).with_columns(
        label=pl.col("name") + "  (" + pl.col("file_path").str.split("/").list.last() + ")"
    )
    return _hotspot_chart(rows, "label", "symbols", index)


def co_change_chart(index: Frames) -> Chart:
    """Plot the co-change matrix of the files that change together most."""
    pairs = metrics.co_changes(index)
    names = _most_coupled_files(pairs)
    title = "No two files change together often"
    if names:
        first = pairs.row(0, named=True)
        pair = f"{shorten(first['file_path'], 30)} and {shorten(first['file_path_other'], 30)}"
        title = f"{pair}: together in {first['share']:.0%} of their commits"
    figure = new_figure(7.4, title, "Commits that change both files, as a share of those that change either.")
    axes = figure.subplots()
    image = axes.imshow(_share_matrix(pairs, names), cmap="Blues", vmin=0, vmax=1)
    style_axes(axes).grid(visible=False)
    axes.set_xticks(range(len(names)), [shorten(name, 26) for name in names], rotation=40, ha="right")
    axes.set_yticks(range(len(names)), [shorten(name, 32) for name in names])
    _annotate_cells(axes, pairs, names)
    if names:
        bar = figure.colorbar(
            image, ax=axes, shrink=0.6, format=FuncFormatter(lambda value, _: f"{value:.0%}")
        )
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0, colors=FAINT, labelsize=9)
    return figure


def _annotate_cells(axes: Axes, pairs: pl.DataFrame, names: list[str]) -> None:
    """Write the non-zero shares into the cells."""
    for (row, column), share in np.ndenumerate(_share_matrix(pairs, names)):
        if share > 0:
            ink = "white" if share > WHITE_TEXT_ABOVE else INK
            axes.annotate(
                f"{100 * share:.0f}", (column, row), ha="center", va="center", fontsize=8, color=ink
            )


def _busiest_step_title(rows: pl.DataFrame, every: str) -> str:
    total = int(rows["commits"].sum())
    if not total:
        return "No commits yet"
    best = rows.row(int(rows["commits"].arg_max() or 0), named=True)
    forms = {"h": "%d %b %Y, %H:00", "d": "%d %b %Y", "w": "%d %b %Y", "o": "%b %Y", "y": "%Y"}
    when = best["commit_date"].strftime(forms[every[-1]])
    return f"{best['commits']:,} of {total:,} commits fell in one {metrics.CALENDAR_STEPS[every][0]}: {when}"


def _plot_languages(axes: Axes, rows: pl.DataFrame, width: Any) -> None:
    wide = rows.pivot("language", index="commit_date", values="hunks").fill_null(0).sort("commit_date")
    names = sorted(wide.columns[1:], key=lambda name: (name == metrics.OTHER, -int(wide[name].sum())))
    bottom = np.zeros(wide.height)
    for name, colour in zip(names, PALETTE, strict=False):
        counts = wide[name].to_numpy()
        axes.bar(
            wide["commit_date"].to_list(),
            counts,
            bottom=bottom,
            width=width,
            color=colour,
            align="edge",
            label=name,
        )
        bottom += counts
    if names:
        axes.legend(frameon=False, fontsize=9, ncols=4, loc="lower right", bbox_to_anchor=(1, 0.98))


def _hotspot_chart(rows: pl.DataFrame, label: str, what: str, index: Frames) -> Chart:
    total = int(index.commits["reached"].sum())
    top = rows.head(MAX_NAMED_BARS).reverse()
    figure = new_figure(
        1.6 + 0.32 * max(top.height, 4),
        _hotspot_title(rows, label, total, what),
        f"The {top.height} {what} that most commits changed.",
    )
    axes = style_axes(figure.subplots(), grid="x")
    places = np.arange(top.height)
    plain = (top["changes"] - top["fixes"]).to_numpy()
    axes.barh(places, top["fixes"], color=RED, label="commits that fix something")
    axes.barh(places, plain, left=top["fixes"], color=SKY, label="other commits")
    axes.set_yticks(places, [shorten(name, MAX_NAME_LENGTH) for name in top[label]], color=INK)
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
    format_counts(axes, "x")
    axes.legend(frameon=False, fontsize=9, ncols=2, loc="lower right", bbox_to_anchor=(1, 0.99))
    return figure


def _hotspot_title(rows: pl.DataFrame, label: str, total: int, what: str) -> str:
    if not rows.height:
        return f"No {what} yet"
    first = rows.row(0, named=True)
    return (
        f"{shorten(first[label], 40)} changed in {first['changes'] / max(total, 1):.0%} of {total:,} commits"
    )


def _most_coupled_files(pairs: pl.DataFrame) -> list[str]:
    """Return the files of the most coupled pairs, coupled files side by side."""
    names: list[str] = []
    for row in pairs.iter_rows(named=True):
        new = [name for name in (row["file_path"], row["file_path_other"]) if name not in names]
        if len(names) + len(new) > MATRIX_SIZE:
            break
        names += new
    return names


def _share_matrix(pairs: pl.DataFrame, names: list[str]) -> npt.NDArray[np.float64]:
    positions = {name: place for place, name in enumerate(names)}
    shares = np.eye(max(len(names), 1))
    for row in pairs.iter_rows(named=True):
        if row["file_path"] in positions and row["file_path_other"] in positions:
            one, other = positions[row["file_path"]], positions[row["file_path_other"]]
            shares[one, other] = shares[other, one] = row["share"]
    np.fill_diagonal(shares, np.nan)
    return shares


# Fused hits in the chart.
SHOWN_HITS: Final = 10
# Lower ranks are drawn at the edge.
LOWEST_RANK: Final = 30


def lane_chart(question: str, rows: pl.DataFrame) -> Chart:
    """Plot the rank of the first fused hits in each lane."""
    top = rows.head(SHOWN_HITS)
    figure = new_figure(
        5.6,
        _lane_agreement_title(top),
        f"“{shorten(question, 60)}”: ranks by lane. No dot: not among the lane's first 100.",
    )
    axes = figure.subplots()
    columns = [*vector_map.LANES, "fused"]
    for number, row in enumerate(top.iter_rows(named=True)):
        colour = PALETTE[number % len(PALETTE)]
        points = [(place, min(row[name], LOWEST_RANK)) for place, name in enumerate(columns) if row[name]]
        axes.plot(
            *zip(*points, strict=True),
            color=colour,
            linewidth=2,
            linestyle="-" if number < len(PALETTE) else ":",
            marker="o",
            markersize=7,
            alpha=0.9,
        )
        label = f"{row['fused']}  {shorten(row['file_path'], 38)}"
        axes.annotate(
            label,
            (len(columns) - 1, row["fused"]),
            (10, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=INK,
        )
    _style_rank_axes(axes, columns)
    return figure


def vector_map_chart(index: Frames) -> Chart:
    """Plot every hunk on the vector map, with coloured and named regions."""
    points = vector_map.map_hunks(index)
    spread = points["spread"][0] if points.height else 0.0
    names = vector_map.name_regions(points)
    title = (
        f"{points.height:,} changes in {names.height} regions; the largest: {names['name'][0]}"
        if names.height
        else "Nothing to map yet"
    )
    note = f"Each dot is one changed file of one commit. The axes show {spread:.0%} of the variance."
    figure = new_figure(7.4, title, note)
    axes = figure.subplots()
    axes.set_axis_off()
    for row in names.iter_rows(named=True):
        dots = points.filter(pl.col("region") == row["region"])
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
    if names.height:
        axes.legend(
            *_numbered_legend(axes),
            frameon=False,
            fontsize=9,
            ncols=2,
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            handletextpad=0.2,
        )
    return figure


def _numbered_legend(axes: Axes) -> tuple[list[Any], list[str]]:
    """Return the legend entries, numbered like the regions on the map."""
    dots, names = axes.get_legend_handles_labels()
    return dots, [f"{number}  {name}" for number, name in enumerate(names, 1)]


def index_parts_chart(sizes: pl.DataFrame) -> Chart:
    """Plot the size of the parts of an index."""
    figure = new_figure(
        3.6, _largest_part_title(sizes), "About how many bytes of the index file each part takes."
    )
    _plot_shares(figure.subplots(), sizes, "part", sizes["bytes"] / 1e6, "MB", note="use")
    return figure


def run_phases_chart(times: pl.DataFrame) -> Chart:
    """Plot the time of the phases of an index run."""
    total = float(times["seconds"].sum())
    first = times.row(0, named=True)
    title = f"{first['phase'].capitalize()} takes {first['seconds'] / max(total, 1e-9):.0%} of a run's work"
    figure = new_figure(3.6, title, "Seconds of each phase, summed over all processes: phases overlap.")
    _plot_shares(figure.subplots(), times, "phase", times["seconds"], "seconds")
    return figure


def _largest_part_title(sizes: pl.DataFrame) -> str:
    kept = sizes.filter(pl.col("part") != FREE_SPACE)
    if not kept["bytes"].sum():
        return "The index file is empty; all data is in the write-ahead log"
    first, total = kept.row(0, named=True), int(sizes["bytes"].sum())
    return f"{first['part'].capitalize()} take {first['bytes'] / total:.0%} of {total / 1e6:,.1f} MB"


def _lane_agreement_title(top: pl.DataFrame) -> str:
    counts = top.select(
        pl.sum_horizontal(pl.col(name).is_not_null() for name in vector_map.LANES).alias("lanes")
    )
    agreed = int((counts["lanes"] == len(vector_map.LANES)).sum())
    return (
        f"All three lanes have {agreed} of the first {top.height} hits" if top.height else "No lane has a hit"
    )


def _style_rank_axes(axes: Axes, columns: list[str]) -> None:
    style_axes(axes, grid="x")
    axes.set_ylim(LOWEST_RANK + 0.8, 0.2)
    axes.set_xlim(-0.25, len(columns) + 1.1)
    axes.set_xticks(range(len(columns)), columns, color=INK, fontsize=10, fontweight="bold")
    axes.xaxis.tick_top()
    ticks = (1, 5, 10, 20, LOWEST_RANK)
    axes.set_yticks(ticks, [*map(str, ticks[:-1]), f"{LOWEST_RANK} or lower"])
    axes.spines["bottom"].set_visible(False)


def _plot_shares(
    axes: Axes, rows: pl.DataFrame, label: str, sizes: pl.Series, unit: str, note: str = ""
) -> None:
    style_axes(axes, grid="x")
    axes.barh(rows[label], sizes, color=[GREY if name == FREE_SPACE else BLUE for name in rows[label]])
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
