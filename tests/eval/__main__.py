"""Ranking, measured on clones you name.

python -m tests.eval CLONE... [--protocol NAME] [--encoder NAME] [--samples N] [--seed N] [--folder FOLDER] [--keep]
                     [--plot FILE]

Without `--protocol` every protocol is asked that has questions for a history. With `--folder`, working copies and
indexes stay there, and the next run asks the same indexes. With `--keep`, the numbers go into `tests/eval/results`.
Of several clones a protocol's last tables take all questions together. With `--plot`, how honest the reranker's
probabilities are is drawn into a file, PNG or SVG by its name.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import polars as pl

from tests.bench.report import say, show, workspace
from tests.eval import reliability, results
from tests.eval.evaluation import Evaluated, Run, add_encoder, evaluated, together
from tests.eval.metrics import differences, parted, summary
from tests.eval.protocols import PROTOCOLS, Draw
from tests.eval.rankings import RERANKED

SAMPLES: Final = 500
SEED: Final = 1
PLOTS: Final = (".png", ".svg")


def main() -> None:
    given = _parser().parse_args()
    # Asked first: a long run outlives changes to the files it was started from.
    project = results.measured()
    with ExitStack() as stack:
        folder = given.folder or stack.enter_context(workspace())
        honest: dict[str, pl.DataFrame] = {}
        for protocol in given.protocol or PROTOCOLS:
            run = Run(protocol, folder, Draw(given.samples, given.seed), given.encoder)
            for came in _all(given.clones, run):
                tell(came, run)
                if len(came.ranks):
                    honest[f"{came.history}, {protocol}"] = reliability.of(came.said)
                if given.keep and len(came.ranks):
                    results.keep(came, run, project)
    if given.plot and honest:
        reliability.draw(honest, given.plot)


def _all(clones: Sequence[Path], run: Run) -> Iterator[Evaluated]:
    """Each history, and after several with questions all of them together."""
    parts = []
    for clone in clones:
        came = evaluated(clone, run)
        yield came
        if len(came.ranks):
            parts.append(came)
    if len(parts) > 1:
        yield together(parts)


def tell(came: Evaluated, run: Run) -> None:
    """The tables of one history under one protocol."""
    ranks = came.answerable
    count = ranks["question"].n_unique()
    say(f"\n{came.history}, {run.protocol}: {count} questions over {came.commits:,} commits")
    if not count:
        return
    show(summary(ranks))
    show(differences(ranks, of=RERANKED))
    if not came.ranks["answerable"].all():
        show(knowing(came.ranks))
    show(reliability.of(came.said))


def knowing(ranks: pl.DataFrame) -> pl.DataFrame:
    """Whether a ranking's best score tells questions that have an answer from those that have none."""
    rows = []
    for (name,), group in ranks.drop_nulls("best").group_by("ranking", maintain_order=True):
        having, lacking = (group.filter(answerable=is_so)["best"].to_list() for is_so in (True, False))
        rows.append((name, round(parted(having, lacking), 3), len(having), len(lacking)))
    columns = ["ranking", "told apart (0.5: chance)", "with answer", "without"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.eval", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", nargs="+", type=Path, metavar="CLONE", help="a local clone, bare or not")
    parser.add_argument(
        "--protocol", action="append", choices=list(PROTOCOLS), help="ask this one; may be given again"
    )
    add_encoder(parser)
    parser.add_argument("--samples", type=int, default=SAMPLES, help="most questions that are drawn")
    parser.add_argument("--seed", type=int, default=SEED, help="which questions are drawn")
    parser.add_argument("--folder", type=Path, help="keep working copies and indexes here")
    parser.add_argument("--plot", type=_drawable, metavar="FILE", help="draw how honest probabilities are")
    parser.add_argument("--keep", action="store_true", help="write the numbers into tests/eval/results")
    return parser


def _drawable(name: str) -> Path:
    """A file that a plot can be saved into; said before the long run, not behind it."""
    file = Path(name)
    if file.suffix not in PLOTS:
        raise argparse.ArgumentTypeError(f"{name} has to end in {' or '.join(PLOTS)}")
    if not file.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {file.absolute().parent}")
    return file


if __name__ == "__main__":
    main()
