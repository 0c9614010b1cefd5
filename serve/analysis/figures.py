"""Figures of the notebooks' charts: colours, titles, axes, and short names.

Charts are for a page 900 pixels wide, as GitHub shows notebooks.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from io import BytesIO
from typing import Final, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, MaxNLocator
from PIL import Image

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

# Inches. GitHub shows a notebook about 900 pixels wide.
WIDTH: Final = 9.0
DPI: Final = 100
PICTURE_COLORS: Final = 256
# Characters of a title that fit into a line, and the height of a line in inches.
MAX_TITLE_LENGTH: Final = 78
TITLE_LINE_HEIGHT: Final = 0.28


class Chart(Figure):
    """Figure that a notebook displays with any backend."""

    def _repr_png_(self) -> bytes:
        drawing, picture = BytesIO(), BytesIO()
        self.savefig(drawing, format="png")
        # A third of the size; a chart has few colours.
        Image.open(drawing).convert("RGB").quantize(PICTURE_COLORS).save(picture, "png", optimize=True)
        return picture.getvalue()


def create_figure(height: float, title: str, note: str = "") -> Chart:
    """Create a figure with a title, wrapped if it is long, and a small note below it; `height` in inches."""
    lines = textwrap.wrap(title, MAX_TITLE_LENGTH)
    title_height = TITLE_LINE_HEIGHT * max(1, len(lines))
    height += title_height - TITLE_LINE_HEIGHT
    top = 1 - (0.34 + title_height) / height
    figure = Chart(
        figsize=(WIDTH, height),
        dpi=DPI,
        facecolor="white",
        layout=ConstrainedLayoutEngine(rect=(0, 0, 1, top)),
    )
    figure.text(
        0.012,
        1 - 0.12 / height,
        "\n".join(lines),
        ha="left",
        va="top",
        fontsize=14,
        fontweight="bold",
        color=INK,
    )
    figure.text(
        0.012, 1 - (0.12 + title_height) / height, note, ha="left", va="top", fontsize=9.5, color=FAINT
    )
    return figure


def style_axes(axes: Axes, *, grid: Literal["both", "x", "y"] = "y") -> Axes:
    """Style the axes in place: grid lines, no frame, no tick marks. Return the same axes."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(length=0, colors=FAINT, labelsize=9)
    axes.grid(axis=grid, color=GRID, linewidth=0.8)
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
    """Return for each path its shortest ending of whole names that no other path has."""
    parts_by_path = {path: path.split("/") for path in paths}
    endings = Counter(tuple(parts[start:]) for parts in parts_by_path.values() for start in range(len(parts)))
    return {
        path: next(
            (
                "/".join(parts[start:])
                for start in reversed(range(len(parts)))
                if endings[(*parts[start:],)] == 1
            ),
            path,
        )
        for path, parts in parts_by_path.items()
    }
