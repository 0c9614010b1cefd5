"""What is still to be looked at: commits that some ranking brings in its first ten, and that nobody has graded.

python -m tests.eval.grading_pool CLONE... [--folder FOLDER]

A system is punished for a good answer that nobody looked at. So whoever adds a system or a question looks at what
comes here, and writes each commit down in the sheet: under `answers` with a grade, or under `dismissed`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.bench.programs import git
from tests.bench.report import say, workspace
from tests.eval import handwritten, histories
from tests.eval.__main__ import SAMPLES, SEED
from tests.eval.evaluation import Run, answered
from tests.eval.handwritten import BEGINNING, Sheet
from tests.eval.protocols import PROTOCOLS, Draw, Material
from tests.eval.rankings import Ranking

DEPTH: Final = 10


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", nargs="+", type=Path, metavar="CLONE", help="a local clone, bare or not")
    parser.add_argument("--folder", type=Path, help="keep working copies and indexes here")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = given.folder or stack.enter_context(workspace())
        for clone in given.clones:
            sheet = handwritten.sheet_of(clone)
            if sheet:
                tell(clone, sheet, Run("questions", folder, Draw(SAMPLES, SEED)))


def tell(clone: Path, sheet: Sheet, run: Run) -> None:
    """Each question of a sheet, and under it the commits to look at, with the rankings that bring them."""
    prepared = histories.prepared(clone, run.folder, PROTOCOLS[run.protocol].variant, sheet.head)
    histories.index(prepared, run.home, run.encoding)
    material = Material.of(prepared)
    pools = answered(material, run, [written.question for written in sheet.questions])
    for written, rankings in zip(sheet.questions, pools, strict=True):
        say(f"\n{written.text}")
        judged = written.judged(material.twins.one)
        for sha, bringing in unjudged(judged, rankings).items():
            subject = git(prepared.told, "log", "-1", "--format=%as %s", sha)
            say(f"  {sha[:BEGINNING]} {subject}  [{', '.join(bringing)}]")


def unjudged(judged: Set[str], rankings: Sequence[Ranking]) -> dict[str, list[str]]:
    """Commits among the first of any ranking that are neither graded nor dismissed, with those rankings' names."""
    brought: dict[str, list[str]] = {}
    for sha, name in _firsts(rankings):
        if sha[:BEGINNING] not in judged:
            brought.setdefault(sha, []).append(name)
    return brought


def _firsts(rankings: Sequence[Ranking]) -> Iterator[tuple[str, str]]:
    for ranking in rankings:
        for sha in ranking.commits[:DEPTH]:
            yield sha, ranking.name


if __name__ == "__main__":
    main()
