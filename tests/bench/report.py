"""Results of benchmarks as rows of one table, and the arguments that benchmarks share."""

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

DEFAULT_RUNS: Final = 5
DEFAULT_COMMITS: Final = 5_000
DEFAULT_RANGES: Final = 200


@dataclass(frozen=True, slots=True)
class Row:
    """Measured value of a repository (`history`). `limit`: upper bound, or None; `detail`: the values it comes from."""

    history: str
    measure: str
    value: float
    limit: float | None
    detail: str

    @property
    def is_within_limit(self) -> bool:
        return self.limit is None or self.value <= self.limit


@dataclass(frozen=True, slots=True)
class BenchmarkOptions:
    """Options of a benchmark: clones, rounds, maximum commits, and number of line ranges to explain."""

    clones: tuple[Path, ...]
    runs: int
    commits: int
    pairs: int = DEFAULT_RANGES


Measure = Callable[[Path, Path, BenchmarkOptions], Sequence[Row]]
SyntheticMeasure = Callable[[Path, BenchmarkOptions], Sequence[Row]]


def main(measure: Measure, description: str, measure_synthetic: SyntheticMeasure | None = None) -> None:
    """Run a benchmark on each clone of the command line, then on a synthetic history, and print the rows."""
    options = parse_arguments(description)
    rows = [row for clone in options.clones for row in _measure_clone(measure, clone, options)]
    if measure_synthetic:
        with create_temporary_directory() as folder:
            rows += measure_synthetic(folder, options)
    print_rows(rows)


def parse_arguments(description: str) -> BenchmarkOptions:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("clones", nargs="+", type=Path, metavar="CLONE", help="a local clone, bare or not")
    parser.add_argument("--runs", type=int, default=DEFAULT_RUNS, help="rounds; the median is reported")
    parser.add_argument(
        "--commits",
        type=int,
        default=DEFAULT_COMMITS,
        help="maximum commits; HEAD is reset to an older commit",
    )
    parser.add_argument("--pairs", type=int, default=DEFAULT_RANGES, help="ranges of lines to explain")
    arguments = parser.parse_args()
    return BenchmarkOptions(tuple(arguments.clones), arguments.runs, arguments.commits, arguments.pairs)


def print_rows(rows: Sequence[Row]) -> None:
    """Print the table of rows and a line about the machine."""
    columns = {
        "history": [row.history for row in rows],
        "what": [row.measure for row in rows],
        "value": [f"{row.value:.3g}" for row in rows],
        "at most": ["" if row.limit is None else f"{row.limit:g}" for row in rows],
        "": ["" if row.limit is None else ("holds" if row.is_within_limit else "MISSED") for row in rows],
        "detail": [row.detail for row in rows],
    }
    print_table(pl.DataFrame(columns))
    print_line(f"{platform.system()} {platform.machine()}, Python {platform.python_version()}")


def print_table(table: pl.DataFrame) -> None:
    """Print a table without truncation."""
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
        print_line(str(table))


def print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def compute_median(values: Sequence[float]) -> float:
    return statistics.median(values)


def format_seconds(values: Sequence[float]) -> str:
    """Format a median with minimum and maximum, in seconds."""
    return f"{compute_median(values):.2f} s ({min(values):.2f}-{max(values):.2f})"


@contextmanager
def create_temporary_directory() -> Iterator[Path]:
    """Yield a temporary directory and delete it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="measuring-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure_clone(measure: Measure, clone: Path, options: BenchmarkOptions) -> Sequence[Row]:
    with create_temporary_directory() as folder:
        return measure(clone, folder, options)
