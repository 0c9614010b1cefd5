"""Command that evaluates ranking on local clones.

python -m tests.eval CLONE... [--protocol NAME] [--encoder NAME] [--samples N] [--seed N] [--folder FOLDER] [--save]
                     [--plot FILE]

Without `--protocol`, every protocol runs that has queries for a history. With several clones, the last tables of a
protocol combine the queries of all of them. `--folder` keeps copies of the clones and indexes for the next run.
`--save` writes the metrics into `tests/eval/results/results.csv`. `--plot` draws reliability diagrams into a PNG or SVG
file.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import polars as pl

from tests.bench.report import create_temporary_directory, print_line, print_table
from tests.eval import reliability, results
from tests.eval.evaluation import (
    EvaluationResult,
    RunConfig,
    add_run_options,
    combine_results,
    evaluate_history,
)
from tests.eval.metrics import compare_paired, compute_auc, summarize
from tests.eval.protocols import PROTOCOLS, Sample
from tests.eval.rankings import RERANKED

SAMPLES: Final = 500
SEED: Final = 1
PLOT_SUFFIXES: Final = (".png", ".svg")


def main() -> None:
    """Run the command."""
    arguments = _create_parser().parse_args()
    # Read the version first, because files may change during a long run.
    version = results.get_project_version()
    with ExitStack() as stack:
        folder = arguments.folder or stack.enter_context(create_temporary_directory())
        calibration: dict[str, pl.DataFrame] = {}
        for protocol in arguments.protocol or PROTOCOLS:
            sample = Sample(arguments.samples, arguments.seed)
            config = RunConfig(protocol, folder, sample, arguments.encoder)
            for result in _evaluate_histories(arguments.clones, config):
                print_result(result, protocol)
                if len(result.ranks):
                    calibration[f"{result.history}, {protocol}"] = reliability.bin_hits(result.hits)
                    if arguments.save:
                        results.save_result(result, config, version)
    if arguments.plot and calibration:
        reliability.save_diagrams(calibration, arguments.plot)


def _evaluate_histories(clones: Sequence[Path], config: RunConfig) -> Iterator[EvaluationResult]:
    """Yield the result of each history, then the combined result if several histories have queries."""
    results_with_queries = []
    for clone in clones:
        result = evaluate_history(clone, config)
        yield result
        if len(result.ranks):
            results_with_queries.append(result)
    if len(results_with_queries) > 1:
        yield combine_results(results_with_queries)


def print_result(result: EvaluationResult, protocol: str) -> None:
    """Print the tables of one history under one protocol."""
    ranks = result.answerable_ranks
    count = ranks["query"].n_unique()
    print_line(f"\n{result.history}, {protocol}: {count} queries, {result.commit_count:,} commits")
    if not count:
        return
    print_table(summarize(ranks))
    print_table(compare_paired(ranks, ranking=RERANKED))
    tables = [summarize(part).with_columns(ranking=pl.lit(kind)) for kind, part in result.split_by_kind()]
    if tables:
        print_table(pl.concat(tables).rename({"ranking": f"{RERANKED}, kind of query"}))
    if not result.ranks["is_answerable"].all():
        print_table(compute_answerability(result.ranks))
    print_table(reliability.bin_hits(result.hits))


def compute_answerability(ranks: pl.DataFrame) -> pl.DataFrame:
    """Return how well each ranking's best score separates queries with an answer from those without (ROC AUC)."""
    rows = []
    for (name,), group in ranks.drop_nulls("best_score").group_by("ranking", maintain_order=True):
        with_answer, without = (
            group.filter(is_answerable=value)["best_score"].to_list() for value in (True, False)
        )
        rows.append((name, round(compute_auc(with_answer, without), 3), len(with_answer), len(without)))
    columns = ["ranking", "AUC (0.5: chance)", "with answer", "without"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def _create_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.eval", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_run_options(parser, SAMPLES, SEED)
    parser.add_argument(
        "--protocol", action="append", choices=list(PROTOCOLS), help="protocol to run; can be repeated"
    )
    parser.add_argument("--plot", type=_parse_plot_path, metavar="FILE", help="draw reliability diagrams")
    parser.add_argument("--save", action="store_true", help="write the metrics into tests/eval/results")
    return parser


def _parse_plot_path(name: str) -> Path:
    """Check the path of the plot before the long run."""
    file = Path(name)
    if file.suffix not in PLOT_SUFFIXES:
        raise argparse.ArgumentTypeError(
            f"{name} is neither PNG nor SVG. End the name in {' or '.join(PLOT_SUFFIXES)}."
        )
    if not file.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(
            f"The folder {file.absolute().parent} does not exist. Create it first."
        )
    return file


if __name__ == "__main__":
    main()
