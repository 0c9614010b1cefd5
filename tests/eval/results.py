"""What was measured, kept for the project's own history: one line for each number, in a CSV file people can diff."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import polars as pl

from pipeline.options import Encoding
from tests.bench.programs import PROJECT, git
from tests.eval.evaluation import Evaluated, Run
from tests.eval.metrics import estimates

FILE: Final = Path(__file__).parent / "results" / "results.csv"
# A line is replaced by one that agrees in these: the same project measured again.
KEYS: Final = ("project", "history", "protocol", "samples", "seed", "system", "metric")
COLUMNS: Final = {
    "project": pl.String,
    "history": pl.String,
    "head": pl.String,
    "protocol": pl.String,
    "samples": pl.Int64,
    "seed": pl.Int64,
    "system": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "n": pl.Int64,
}
DIGITS: Final = 4


def keep(evaluated: Evaluated, run: Run, project: str, file: Path = FILE) -> None:
    """Write the numbers into the file; `project` is the commit that was measured."""
    new = pl.DataFrame(list(_lines(evaluated, run, project)), schema=COLUMNS, orient="row")
    old = pl.read_csv(file, schema=COLUMNS) if file.exists() else new.clear()
    kept = pl.concat([old.join(new, on=list(KEYS), how="anti"), new])
    file.parent.mkdir(parents=True, exist_ok=True)
    kept.write_csv(file)


def measured(project: Path = PROJECT) -> str:
    """The project's commit, with a plus where the code that ran is not what was committed."""
    others = f":!{FILE.relative_to(PROJECT).as_posix()}"  # git excludes no absolute path
    changed = git(project, "status", "--porcelain", "--untracked-files=no", "--", ".", others)
    return git(project, "rev-parse", "HEAD") + ("+" if changed else "")


def _lines(evaluated: Evaluated, run: Run, project: str) -> Iterable[tuple[object, ...]]:
    ranks = evaluated.answerable
    count = ranks["question"].n_unique()
    about = (project, evaluated.history, evaluated.head, run.protocol, run.draw.samples, run.draw.seed)
    # Only what is usual goes without saying.
    made = "" if run.encoding is Encoding.MINILM else f" ({run.encoding})"
    for system, metric, value in estimates(ranks):
        numbers = (round(number, DIGITS) for number in (value.mean, value.low, value.high))
        yield *about, system + made, metric, *numbers, count
