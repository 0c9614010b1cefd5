"""The changelog protocol: real changes in their authors' words, asked of the history that made them.

python -m tests.eval.changelog [--folder FOLDER] CLONE...

With `--folder`, clones and indexes stay there, and the next run asks the same indexes.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path

import polars as pl

from pipeline.encoder import OnnxEncoder
from pipeline.git.repository import open_repository
from serve.standing import standing
from tests.bench import indexes
from tests.bench.histories import History, cut
from tests.bench.programs import lineage
from tests.bench.report import say, show, workspace
from tests.eval.metrics import differences, first_answer, summary
from tests.eval.protocol import Question, leave_out, questions
from tests.eval.rankings import FUSION, Asker


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clones", nargs="+", type=Path, metavar="CLONE", help="a local clone, bare or not")
    parser.add_argument("--folder", type=Path, help="keep clones and indexes here")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = given.folder or stack.enter_context(workspace())
        for clone in given.clones:
            evaluate(clone, folder)


def evaluate(clone: Path, folder: Path) -> pl.DataFrame:
    """Index one history, ask it every question, and print what came of it; the ranks."""
    history = _prepared(clone, folder)
    asked = questions(history.path)
    ranks = asked_of(history, folder / "home", asked)
    say(f"\n{history.name}: {len(asked)} questions over {history.commits:,} commits")
    show(summary(ranks))
    show(differences(ranks, of=FUSION))
    return ranks


def asked_of(history: History, home: Path, asked: list[Question]) -> pl.DataFrame:
    """A row for every question and ranking: `question` (its number), `ranking`, `rank` (null: not found)."""
    with indexes.opened(history.path, home) as connection:
        here = standing(open_repository(history.path), connection)
        asker = Asker.of(connection, OnnxEncoder(), here.reach)
        rows = [
            (number, ranking.name, first_answer(ranking.commits, question.answers))
            for number, question in enumerate(asked)
            for ranking in asker.rankings(question.text)
        ]
    schema = {"question": pl.Int64, "ranking": pl.String, "rank": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _prepared(clone: Path, folder: Path) -> History:
    """A working copy without fragments in its index, indexed to its HEAD."""
    path = folder / clone.absolute().as_posix().strip("/").replace("/", "-")
    history = History.of(clone, path) if path.exists() else cut(clone, path)
    if not (path / ".lineageignore").exists():
        leave_out(path)
    lineage(folder / "home", "index", path, "--incremental", "--no-progress")
    return history


if __name__ == "__main__":
    main()
