"""The charts of activity and hotspots: each title is what these numbers say."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.ticker import FuncFormatter

from serve.insight import activity, hotspots, look
from serve.insight.look import Chart
from stores.frames import Frames

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
    every = activity.step(index)
    rows = activity.over_time(index, every)
    figure = look.figure(7.2, _busiest(rows, every), f"One bar is one {activity.STEPS[every][0]}, in UTC.")
    commits, lines, kinds = figure.subplots(3, 1, sharex=True, height_ratios=[1, 1.2, 1.2])
    dates = rows.get_column("commit_date").to_list()
    width = timedelta(hours=activity.STEPS[every][1] * BAR_SHARE)
    commits.bar(dates, rows["commits"], width=width, color=look.BLUE, align="edge")
    lines.bar(dates, rows["added"], width=width, color=look.GREEN, align="edge", label="added")
    lines.bar(dates, -rows["removed"], width=width, color=look.RED, align="edge", label="removed")
    lines.axhline(0, color=look.FAINT, linewidth=0.8)
    _languages(kinds, activity.languages(index, every), width)
    for axes, title in ((commits, "commits"), (lines, "lines"), (kinds, "files changed")):
        look.quiet(axes).set_title(title, loc="left", fontsize=10, color=look.INK, fontweight="bold")
        look.counted(axes)
    lines.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{abs(value):,.0f}"))
    lines.legend(frameon=False, fontsize=9, ncols=2, loc="lower right", bbox_to_anchor=(1, 0.98))
    locator = AutoDateLocator(maxticks=9)
    kinds.xaxis.set_major_locator(locator)
    kinds.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    return figure


def hot_files(index: Frames) -> Chart:
    """The files that most commits changed, and how many of these were fixes."""
    return _bars(hotspots.files(index), "file_path", "files", index)


def hot_symbols(index: Frames) -> Chart:
    """The same for symbols."""
    rows = hotspots.symbols(index).with_columns(
        label=pl.col("name") + "  (" + pl.col("file_path").str.split("/").list.last() + ")"
    )
    return _bars(rows, "label", "symbols", index)


def changed_together(index: Frames) -> Chart:
    """Which of the files that change together most do so with which."""
    pairs = hotspots.co_changes(index)
    names = _closest(pairs)
    title = "No two files change together often enough to tell"
    if names:
        first = pairs.row(0, named=True)
        pair = f"{look.shortened(first['file_path'], 30)} and {look.shortened(first['file_path_other'], 30)}"
        title = f"{pair}: together in {first['share']:.0%} of their commits"
    figure = look.figure(
        7.4, title, "Commits that change both files, as a share of those that change either."
    )
    axes = figure.subplots()
    image = axes.imshow(_matrix(pairs, names), cmap="Blues", vmin=0, vmax=1)
    look.quiet(axes).grid(visible=False)
    axes.set_xticks(range(len(names)), [look.shortened(name, 26) for name in names], rotation=40, ha="right")
    axes.set_yticks(range(len(names)), [look.shortened(name, 32) for name in names])
    _cells(axes, pairs, names)
    if names:
        bar = figure.colorbar(
            image, ax=axes, shrink=0.6, format=FuncFormatter(lambda value, _: f"{value:.0%}")
        )
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0, colors=look.FAINT, labelsize=9)
    return figure


def _cells(axes: Axes, pairs: pl.DataFrame, names: list[str]) -> None:
    """The shares as numbers, where they are not nothing."""
    for (row, column), share in np.ndenumerate(_matrix(pairs, names)):
        if share > 0:
            ink = "white" if share > DARK else look.INK
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
    return f"{best['commits']:,} of {total:,} commits fell in one {activity.STEPS[every][0]}: {when}"


def _languages(axes: Axes, rows: pl.DataFrame, width: Any) -> None:
    wide = rows.pivot("language", index="commit_date", values="hunks").fill_null(0).sort("commit_date")
    names = sorted(wide.columns[1:], key=lambda name: (name == activity.OTHER, -int(wide[name].sum())))
    below = np.zeros(wide.height)
    for name, colour in zip(names, look.PALETTE, strict=False):
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
    figure = look.figure(
        1.6 + 0.32 * max(top.height, 4),
        _most(rows, label, total, what),
        f"The {top.height} {what} that most commits changed.",
    )
    axes = look.quiet(figure.subplots(), grid="x")
    places = np.arange(top.height)
    plain = (top["changes"] - top["fixes"]).to_numpy()
    axes.barh(places, top["fixes"], color=look.RED, label="commits that fix something")
    axes.barh(places, plain, left=top["fixes"], color=look.SKY, label="other commits")
    axes.set_yticks(places, [look.shortened(name, NAME_CELLS) for name in top[label]], color=look.INK)
    for place, row in zip(places, top.iter_rows(named=True), strict=True):
        if row["fixes"]:
            axes.annotate(
                f"{row['fix_rate']:.0%} fixes",
                (row["changes"], place),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
                color=look.FAINT,
            )
    axes.margins(x=0.12)
    axes.set_xlabel("commits", color=look.FAINT, fontsize=9)
    look.counted(axes, "x")
    axes.legend(frameon=False, fontsize=9, ncols=2, loc="lower right", bbox_to_anchor=(1, 0.99))
    return figure


def _most(rows: pl.DataFrame, label: str, total: int, what: str) -> str:
    if not rows.height:
        return f"No {what} yet"
    first = rows.row(0, named=True)
    return f"{look.shortened(first[label], 40)} changed in {first['changes'] / max(total, 1):.0%} of {total:,} commits"


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
