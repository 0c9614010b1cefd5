"""Charts of a history and its index, and the style of all charts of the notebooks.

The title of a chart states its main result, computed from the data. Charts are for a page 900 pixels wide, as GitHub
shows notebooks. A hunk is the diff of one file in one commit.
"""

from __future__ import annotations

import string
import textwrap
from collections import Counter
from collections.abc import Sequence
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
from PIL import Image

from serve.analysis import metrics
from stores.frames import FREE_SPACE, Frames

# Colours of Okabe and Ito, and a grey: colour-blind readers can tell them apart, also in greyscale.
BLUE: Final = "#0072B2"
ORANGE: Final = "#E69F00"
GREEN: Final = "#009E73"
RED: Final = "#D55E00"
SKY: Final = "#56B4E9"
PINK: Final = "#CC79A7"
YELLOW: Final = "#F0E442"
GREY: Final = "#8A8F98"
PALETTE: Final = (BLUE, ORANGE, GREEN, PINK, SKY, RED, YELLOW, GREY)
# Colours of the main text, of secondary text and of grid lines.
TEXT_COLOR: Final = "#1F2430"
MUTED_TEXT_COLOR: Final = "#6B7280"
GRID_COLOR: Final = "#E5E7EB"

# Width of a chart in inches.
WIDTH: Final = 9.0
# Pixels per inch.
DPI: Final = 100
# Number of colours of a displayed PNG. A palette reduces the file to a third, and a chart has fewer colours than this.
PNG_COLORS: Final = 256
# Maximum number of characters in a line of a title.
MAX_TITLE_LINE_LENGTH: Final = 78
# Height in inches of each line of a title.
TITLE_LINE_HEIGHT: Final = 0.28
# Height in inches of the note below the title.
NOTE_HEIGHT: Final = 0.22
# Inches above the title.
TOP_MARGIN: Final = 0.12
# Left edge of title and note, as a share of the width.
LEFT_EDGE: Final = 0.012
# Maximum number of bars with a name. More bars leave no room for readable names.
MAX_NAMED_BARS: Final = 14
# Maximum number of rows of a matrix. More rows leave no room for readable names.
MAX_MATRIX_ROWS: Final = 14
# Share of a calendar step that its bar covers. Bars without gaps look like an area.
BAR_SHARE: Final = 0.86
# Maximum number of characters of a name beside a bar.
MAX_NAME_LENGTH: Final = 44
# Dark text is hard to read on cells with a larger share than this.
WHITE_TEXT_ABOVE: Final = 0.55


class Chart(Figure):
    """Figure that a notebook displays with any backend."""

    def _repr_png_(self) -> bytes:
        full_png, small_png = BytesIO(), BytesIO()
        self.savefig(full_png, format="png")
        Image.open(full_png).convert("RGB").quantize(PNG_COLORS).save(small_png, "png", optimize=True)
        return small_png.getvalue()


def create_figure(height: float, title: str, note: str = "") -> Chart:
    """Create a figure with a title and a small note below it.

    `height`: height of the figure in inches if the title has one line. Each further line of the title adds to it.
    """
    lines = textwrap.wrap(title, MAX_TITLE_LINE_LENGTH)
    title_height = TITLE_LINE_HEIGHT * max(1, len(lines))
    height += title_height - TITLE_LINE_HEIGHT
    top = 1 - (TOP_MARGIN + title_height + NOTE_HEIGHT) / height
    figure = Chart(
        figsize=(WIDTH, height),
        dpi=DPI,
        facecolor="white",
        layout=ConstrainedLayoutEngine(rect=(0, 0, 1, top)),
    )
    title_top, note_top = 1 - TOP_MARGIN / height, 1 - (TOP_MARGIN + title_height) / height
    figure.text(
        LEFT_EDGE,
        title_top,
        "\n".join(lines),
        ha="left",
        va="top",
        fontsize=14,
        fontweight="bold",
        color=TEXT_COLOR,
    )
    figure.text(LEFT_EDGE, note_top, note, ha="left", va="top", fontsize=9.5, color=MUTED_TEXT_COLOR)
    return figure


def style_axes(axes: Axes, *, grid: Literal["both", "x", "y"] = "y") -> Axes:
    """Style the axes in place: grid lines, no frame, no tick marks. Return the same axes."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID_COLOR)
    axes.tick_params(length=0, colors=MUTED_TEXT_COLOR, labelsize=9)
    axes.grid(axis=grid, color=GRID_COLOR, linewidth=0.8)
    axes.set_axisbelow(True)
    return axes


def format_counts(axes: Axes, axis_name: Literal["x", "y"] = "y") -> None:
    """Format the tick labels of an axis as counts, such as 1 k or 2 M."""
    axis = axes.yaxis if axis_name == "y" else axes.xaxis
    axis.set_major_formatter(EngFormatter(sep="\N{THIN SPACE}"))
    axis.set_major_locator(MaxNLocator(nbins=5, integer=True))


def shorten(text: str, length: int) -> str:
    """Replace the middle of a text longer than `length` characters by an ellipsis."""
    if len(text) <= length:
        return text
    half = (length - 1) // 2
    return f"{text[: length - 1 - half]}…{text[-half:]}"


def find_short_paths(paths: Sequence[str]) -> dict[str, str]:
    """Return for each path its shortest unique ending of whole names; the path itself if no ending is unique."""
    counts = Counter(ending for path in paths for ending in _list_endings(path))
    return {
        path: next((ending for ending in _list_endings(path) if counts[ending] == 1), path) for path in paths
    }


def _list_endings(path: str) -> list[str]:
    """Return the endings of a path that consist of whole names, shortest first."""
    names = path.split("/")
    return ["/".join(names[start:]) for start in reversed(range(len(names)))]


def plot_activity(index: Frames) -> Chart:
    """Plot commits, lines and languages over time."""
    step = metrics.choose_step(index)
    step_name, step_hours = metrics.CALENDAR_STEPS[step]
    rows = metrics.count_activity(index, step)
    figure = create_figure(7.2, _format_activity_title(rows, step), f"One bar is one {step_name}, in UTC.")
    commit_axes, line_axes, file_axes = figure.subplots(3, 1, sharex=True, height_ratios=[1, 1.2, 1.2])
    dates = rows.get_column("commit_date").to_list()
    width = timedelta(hours=step_hours * BAR_SHARE)
    commit_axes.bar(dates, rows["commits"], width=width, color=BLUE, align="edge")
    line_axes.bar(dates, rows["added"], width=width, color=GREEN, align="edge", label="added")
    line_axes.bar(dates, -rows["removed"], width=width, color=RED, align="edge", label="removed")
    line_axes.axhline(0, color=MUTED_TEXT_COLOR, linewidth=0.8)
    _plot_languages(file_axes, metrics.count_language_activity(index, step), width)
    for axes, title in ((commit_axes, "commits"), (line_axes, "lines"), (file_axes, "files changed")):
        style_axes(axes).set_title(title, loc="left", fontsize=10, color=TEXT_COLOR, fontweight="bold")
        format_counts(axes)
    line_axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):,.0f}"))
    line_axes.legend(frameon=False, fontsize=9, ncols=2, loc="lower right", bbox_to_anchor=(1, 0.98))
    locator = AutoDateLocator(maxticks=9)
    file_axes.xaxis.set_major_locator(locator)
    file_axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    return figure


def plot_file_hotspots(index: Frames) -> Chart:
    """Plot the files that the most commits changed, and the share of fixes among these commits."""
    return _plot_hotspots(metrics.find_file_hotspots(index), "file_path", "files", index)


def plot_symbol_hotspots(index: Frames) -> Chart:
    """Plot the symbols that the most commits changed, and the share of fixes among these commits."""
    rows = metrics.find_symbol_hotspots(index).head(MAX_NAMED_BARS)
    short_paths = find_short_paths(rows["file_path"].unique().to_list())
    labels = (
        pl.col("name") + "  (" + pl.col("file_path").replace_strict(short_paths, return_dtype=pl.String) + ")"
    )
    return _plot_hotspots(rows.with_columns(label=labels), "label", "symbols", index)


def plot_co_changes(index: Frames) -> Chart:
    """Plot a matrix of the files that change together most, with the share of common commits of each pair."""
    pairs = metrics.find_co_changes(index)
    names = _select_coupled_files(pairs)
    title = "No two files change together often"
    if names:
        first = pairs.row(0, named=True)
        pair = f"{first['file_path']} and {first['file_path_other']}"
        title = f"{pair}: together in {first['share']:.0%} of their commits"
    figure = create_figure(
        7.4, title, "Commits that change both files, as a share of the commits that change one or both."
    )
    axes = figure.subplots()
    image = axes.imshow(_build_share_matrix(pairs, names), cmap="Blues", vmin=0, vmax=1)
    style_axes(axes).grid(visible=False)
    axes.set_xticks(range(len(names)), [shorten(name, 26) for name in names], rotation=40, ha="right")
    axes.set_yticks(range(len(names)), [shorten(name, 32) for name in names])
    _annotate_cells(axes, pairs, names)
    if names:
        bar = figure.colorbar(
            image, ax=axes, shrink=0.6, format=FuncFormatter(lambda value, _: f"{value:.0%}")
        )
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0, colors=MUTED_TEXT_COLOR, labelsize=9)
    return figure


def _annotate_cells(axes: Axes, pairs: pl.DataFrame, names: list[str]) -> None:
    """Write the non-zero shares into the cells, in percent."""
    for (row, column), share in np.ndenumerate(_build_share_matrix(pairs, names)):
        if share > 0:
            color = "white" if share > WHITE_TEXT_ABOVE else TEXT_COLOR
            axes.annotate(
                f"{100 * share:.0f}", (column, row), ha="center", va="center", fontsize=8, color=color
            )


def _format_activity_title(rows: pl.DataFrame, step: str) -> str:
    """Return a title that names the calendar step with the most commits."""
    total = int(rows["commits"].sum())
    if not total:
        return "No commits yet"
    busiest = rows.row(int(rows["commits"].arg_max() or 0), named=True)
    date_formats = {"h": "%d %b %Y, %H:00", "d": "%d %b %Y", "w": "%d %b %Y", "mo": "%b %Y", "y": "%Y"}
    unit = step.lstrip(string.digits)
    start = busiest["commit_date"].strftime(date_formats[unit])
    step_name, _ = metrics.CALENDAR_STEPS[step]
    return f"{busiest['commits']:,} of {total:,} commits fell in one {step_name}: {start}"


def _plot_languages(axes: Axes, rows: pl.DataFrame, width: Any) -> None:
    """Plot the hunks of each language as stacked bars, the largest language at the bottom and `other` on top.

    `width`: a timedelta, which the type hints of matplotlib do not accept.
    """
    hunks = rows.pivot("language", index="commit_date", values="hunks").fill_null(0).sort("commit_date")
    names = sorted(
        hunks.drop("commit_date").columns,
        key=lambda name: (name == metrics.OTHER_LANGUAGES, -int(hunks[name].sum())),
    )
    bottom = np.zeros(hunks.height)
    for name, colour in zip(names, PALETTE, strict=False):
        counts = hunks[name].to_numpy()
        axes.bar(
            hunks["commit_date"].to_list(),
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


def _plot_hotspots(rows: pl.DataFrame, label_column: str, item_type: str, index: Frames) -> Chart:
    """Plot a bar for each of the first MAX_NAMED_BARS rows. `item_type`: `files` or `symbols`."""
    total_commits = int(index.commits["reached"].sum())
    top = rows.head(MAX_NAMED_BARS).reverse()
    figure = create_figure(
        1.6 + 0.32 * max(top.height, 4),
        _format_hotspot_title(rows, label_column, item_type, total_commits),
        f"The {top.height} {item_type} with the most commits.",
    )
    axes = style_axes(figure.subplots(), grid="x")
    positions = np.arange(top.height)
    other_commits = (top["changes"] - top["fixes"]).to_numpy()
    axes.barh(positions, top["fixes"], color=RED, label="commits that fix something")
    axes.barh(positions, other_commits, left=top["fixes"], color=SKY, label="other commits")
    axes.set_yticks(
        positions, [shorten(name, MAX_NAME_LENGTH) for name in top[label_column]], color=TEXT_COLOR
    )
    for position, row in zip(positions, top.iter_rows(named=True), strict=True):
        if row["fixes"]:
            axes.annotate(
                f"{row['fix_rate']:.0%} fixes",
                (row["changes"], position),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
                color=MUTED_TEXT_COLOR,
            )
    axes.margins(x=0.12)
    axes.set_xlabel("commits", color=MUTED_TEXT_COLOR, fontsize=9)
    format_counts(axes, "x")
    axes.legend(frameon=False, fontsize=9, ncols=2, loc="lower right", bbox_to_anchor=(1, 0.99))
    return figure


def _format_hotspot_title(rows: pl.DataFrame, label_column: str, item_type: str, total_commits: int) -> str:
    if not rows.height:
        return f"No {item_type} yet"
    first = rows.row(0, named=True)
    share = first["changes"] / max(total_commits, 1)
    return f"{first[label_column]} changed in {share:.0%} of {total_commits:,} commits"


def _select_coupled_files(pairs: pl.DataFrame) -> list[str]:
    """Return the files of the first pairs, in the order of the pairs. Stop at the pair that exceeds MAX_MATRIX_ROWS."""
    names: list[str] = []
    for row in pairs.iter_rows(named=True):
        new_names = [name for name in (row["file_path"], row["file_path_other"]) if name not in names]
        if len(names) + len(new_names) > MAX_MATRIX_ROWS:
            break
        names += new_names
    return names


def _build_share_matrix(pairs: pl.DataFrame, names: list[str]) -> npt.NDArray[np.float64]:
    """Return the share of each pair of names: 0 for a pair that is not in `pairs`, NaN for a file with itself."""
    positions = {name: position for position, name in enumerate(names)}
    size = max(len(names), 1)
    shares = np.zeros((size, size))
    for row in pairs.iter_rows(named=True):
        if row["file_path"] in positions and row["file_path_other"] in positions:
            first, second = positions[row["file_path"]], positions[row["file_path_other"]]
            shares[first, second] = shares[second, first] = row["share"]
    np.fill_diagonal(shares, np.nan)
    return shares


def plot_index_parts(sizes: pl.DataFrame) -> Chart:
    """Plot the size of the parts of an index; `sizes` is the result of `measure_index_parts`."""
    figure = create_figure(
        3.6, _format_index_parts_title(sizes), "Approximate size of each part of the index file."
    )
    _plot_shares(figure.subplots(), sizes, "part", sizes["bytes"] / 1e6, "MB", note_column="use")
    return figure


def plot_run_phases(times: pl.DataFrame) -> Chart:
    """Plot the time of the phases of the index runs; `times` is the result of `load_run_phases`."""
    note = "Seconds of each phase, summed over all processes and all runs since the index was built."
    figure = create_figure(3.6, _format_run_phases_title(times), note)
    _plot_shares(figure.subplots(), times, "phase", times["seconds"], "seconds")
    return figure


def _format_run_phases_title(times: pl.DataFrame) -> str:
    total = float(times["seconds"].sum())
    if not total:
        return "No times of index runs are recorded yet"
    longest = times.row(0, named=True)
    return f"{longest['phase'].capitalize()} took {longest['seconds'] / total:.0%} of {total:,.0f} s of work"


def _format_index_parts_title(sizes: pl.DataFrame) -> str:
    used_parts = sizes.filter(pl.col("part") != FREE_SPACE)
    if not used_parts["bytes"].sum():
        return "The index file is empty: all data is in the write-ahead log"
    largest, total = used_parts.row(0, named=True), int(sizes["bytes"].sum())
    return f"{largest['part'].capitalize()} take {largest['bytes'] / total:.0%} of {total / 1e6:,.1f} MB"


def _plot_shares(
    axes: Axes, rows: pl.DataFrame, label_column: str, sizes: pl.Series, unit: str, note_column: str = ""
) -> None:
    """Plot the size of each row as a bar. The text beside it has the size, its share of the sum, and the note."""
    style_axes(axes, grid="x")
    axes.barh(
        rows[label_column], sizes, color=[GREY if name == FREE_SPACE else BLUE for name in rows[label_column]]
    )
    axes.invert_yaxis()
    axes.tick_params(axis="y", colors=TEXT_COLOR, labelsize=10)
    total = float(sizes.sum()) or 1.0
    for position, (size, row) in enumerate(zip(sizes, rows.iter_rows(named=True), strict=True)):
        text = f"{size:,.2f} {unit}, {size / total:.0%}" + (f": {row[note_column]}" if note_column else "")
        axes.annotate(
            text,
            (size, position),
            (5, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=MUTED_TEXT_COLOR,
        )
    largest = float(max(sizes.to_list(), default=0.0)) or 1.0
    # Room for the text beside the longest bar.
    axes.set_xlim(0, largest * (1.6 if note_column else 1.2))
    axes.set_xlabel(unit, color=MUTED_TEXT_COLOR, fontsize=9)
