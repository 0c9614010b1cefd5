"""What a measure says: one row each, printed as a table; and the arguments all measures share."""

from __future__ import annotations

import argparse
import platform
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

RUNS: Final = 5
COMMITS: Final = 5_000
PAIRS: Final = 200


@dataclass(frozen=True, slots=True)
class Row:
    """A measure of one history. `limit` is the most `value` may be; `detail` says what went into it."""

    history: str
    what: str
    value: float
    limit: float | None
    detail: str

    @property
    def holds(self) -> bool:
        return self.limit is None or self.value <= self.limit


@dataclass(frozen=True, slots=True)
class Asked:
    """What a measure is to do: which clones, how many rounds, how many commits at most, how many questions."""

    clones: tuple[Path, ...]
    runs: int
    commits: int
    pairs: int = PAIRS


Measure = Callable[[Path, Path, Asked], Sequence[Row]]
Made = Callable[[Path, Asked], Sequence[Row]]


def main(measure: Measure, meaning: str, made: Made | None = None) -> None:
    """Run a measure on each clone given on the command line, then on a made history, and print their rows."""
    asked = arguments(meaning)
    rows = [row for clone in asked.clones for row in _measured(measure, clone, asked)]
    if made:
        with workspace() as folder:
            rows += made(folder, asked)
    show_rows(rows)


def arguments(meaning: str) -> Asked:
    parser = argparse.ArgumentParser(description=meaning)
    parser.add_argument("clones", nargs="+", type=Path, metavar="CLONE", help="a local clone, bare or not")
    parser.add_argument("--runs", type=int, default=RUNS, help="rounds whose median is taken")
    parser.add_argument(
        "--commits", type=int, default=COMMITS, help="longest history: HEAD is set back to it"
    )
    parser.add_argument("--pairs", type=int, default=PAIRS, help="ranges of files to explain")
    given = parser.parse_args()
    return Asked(tuple(given.clones), given.runs, given.commits, given.pairs)


def show_rows(rows: Sequence[Row]) -> None:
    """The table, and under it the machine it was measured on."""
    columns = {
        "history": [row.history for row in rows],
        "what": [row.what for row in rows],
        "value": [f"{row.value:.3g}" for row in rows],
        "at most": ["" if row.limit is None else f"{row.limit:g}" for row in rows],
        "": ["" if row.limit is None else ("holds" if row.holds else "MISSED") for row in rows],
        "detail": [row.detail for row in rows],
    }
    show(pl.DataFrame(columns))
    say(f"{platform.system()} {platform.machine()}, Python {platform.python_version()}")


def show(table: pl.DataFrame) -> None:
    """A whole table, wide as it is."""
    with pl.Config(
        tbl_rows=-1,
        tbl_cols=-1,
        tbl_width_chars=1_000,
        fmt_str_lengths=500,
        tbl_hide_column_data_types=True,
        tbl_hide_dataframe_shape=True,
        tbl_formatting="ASCII_MARKDOWN",
        thousands_separator=True,
    ):
        say(str(table))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def seconds(values: Sequence[float]) -> str:
    """A median and its range, in seconds."""
    return f"{median(values):.2f} s ({min(values):.2f}-{max(values):.2f})"


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder for clones and indexes, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="measuring-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measured(measure: Measure, clone: Path, asked: Asked) -> Sequence[Row]:
    with workspace() as folder:
        return measure(clone, folder, asked)
