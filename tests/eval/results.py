"""Results file: a CSV file with a row for each metric of each ranking, for comparison between versions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import polars as pl

from pipeline.options import EncoderName
from tests.bench.programs import PROJECT, run_git
from tests.eval.evaluation import EvaluationResult, RunConfig
from tests.eval.metrics import estimate_metrics

FILE: Final = Path(__file__).parent / "results" / "results.csv"
# A new row replaces the row with the same values in these columns.
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


def save_result(result: EvaluationResult, config: RunConfig, version: str, file: Path = FILE) -> None:
    """Write the metrics into the file. `version` is the return value of `get_project_version`."""
    new_rows = pl.DataFrame(list(_create_rows(result, config, version)), schema=COLUMNS, orient="row")
    old_rows = pl.read_csv(file, schema=COLUMNS) if file.exists() else new_rows.clear()
    merged = pl.concat([old_rows.join(new_rows, on=list(KEYS), how="anti"), new_rows])
    file.parent.mkdir(parents=True, exist_ok=True)
    merged.write_csv(file)


def get_project_version(project: Path = PROJECT) -> str:
    """Return the sha of HEAD, followed by "+" if tracked files other than the results are modified."""
    except_results = (
        f":!{FILE.relative_to(PROJECT).as_posix()}"  # git reads a pathspec relative to the current folder
    )
    changes = run_git(project, "status", "--porcelain", "--untracked-files=no", "--", ".", except_results)
    return run_git(project, "rev-parse", "HEAD") + ("+" if changes else "")


def _create_rows(result: EvaluationResult, config: RunConfig, version: str) -> Iterable[tuple[object, ...]]:
    ranks = result.answerable_ranks
    count = ranks["query"].n_unique()
    sample = config.sample
    prefix = (version, result.history, result.head, config.protocol, sample.size, sample.seed)
    suffix = "" if config.encoder_name is EncoderName.MINILM else f" ({config.encoder_name})"
    for ranking, metric, estimate in estimate_metrics(ranks):
        numbers = (round(number, DIGITS) for number in (estimate.mean, estimate.low, estimate.high))
        yield *prefix, ranking + suffix, metric, *numbers, count
