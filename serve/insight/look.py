"""How every chart looks: quiet axes, a title that says what is to be seen, colours for every eye."""

from __future__ import annotations

from io import BytesIO
from typing import Final, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, MaxNLocator

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


def figure(height: float, title: str, note: str = "") -> Chart:
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
