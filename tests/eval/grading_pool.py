"""Pool of unjudged commits: commits in the top 10 of any ranking that a query sheet does not judge.

python -m tests.eval.grading_pool CLONE... [--folder FOLDER]

An unjudged commit counts as irrelevant, even if it is a good answer. So after you add a ranking or a query, judge
each commit printed here: add it to the sheet under `answers` with a grade, or under `dismissed`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence, Set
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.bench.programs import run_git
from tests.bench.report import create_temporary_directory, print_line
from tests.eval import judgments
from tests.eval.__main__ import SAMPLES, SEED
from tests.eval.evaluation import RunConfig, add_clone_options, rank_queries
from tests.eval.histories import prepare_evaluation_copy, update_index
from tests.eval.judgments import SHA_PREFIX_LENGTH, QuerySheet
from tests.eval.protocols import PROTOCOLS, QuerySource, Sample
from tests.eval.rankings import Ranking

DEPTH: Final = 10


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_clone_options(parser)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = arguments.folder or stack.enter_context(create_temporary_directory())
        for clone in arguments.clones:
            for sheets_folder in (judgments.SHEETS_FOLDER, judgments.DEVELOPMENT_FOLDER):
                sheet = judgments.find_sheet(clone, sheets_folder)
                if sheet:
                    print_pool(clone, sheet, RunConfig("questions", folder, Sample(SAMPLES, SEED)))


def print_pool(clone: Path, sheet: QuerySheet, config: RunConfig) -> None:
    """Print each query of a sheet with its unjudged commits and the rankings that contain them."""
    copy = prepare_evaluation_copy(clone, config.folder, PROTOCOLS[config.protocol].variant, sheet.head)
    update_index(copy, config.index_home, config.encoder_name)
    source = QuerySource.from_evaluation_copy(copy)
    rankings_by_query = rank_queries(source, config, [handwritten.query for handwritten in sheet.questions])
    for handwritten, rankings in zip(sheet.questions, rankings_by_query, strict=True):
        print_line(f"\n{handwritten.text}")
        judged = handwritten.list_judged(source.duplicates.get_canonical_sha)
        for sha, names in find_unjudged(judged, rankings).items():
            subject = run_git(copy.original_path, "log", "-1", "--format=%as %s", sha)
            print_line(f"  {sha[:SHA_PREFIX_LENGTH]} {subject}  [{', '.join(names)}]")


def find_unjudged(judged: Set[str], rankings: Sequence[Ranking]) -> dict[str, list[str]]:
    """Return the unjudged commits in the top 10 of any ranking, with the names of those rankings.

    `judged` contains sha prefixes.
    """
    names: dict[str, list[str]] = {}
    for ranking in rankings:
        for sha in ranking.commits[:DEPTH]:
            if sha[:SHA_PREFIX_LENGTH] not in judged:
                names.setdefault(sha, []).append(ranking.name)
    return names


if __name__ == "__main__":
    main()
