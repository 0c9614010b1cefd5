"""Histories -> lessons, several at a time.

python -m training.extract FOLDER REPOSITORY... [--commits N] [--seed N] [--jobs N]

A REPOSITORY is a local clone, bare or not; histories whose lessons lie in FOLDER are left as they are.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pipeline.workers import Workers
from training.lessons import Course, taught

COMMITS: Final = 3_500
SEED: Final = 1

logger = logging.getLogger(__name__)


def main() -> None:
    """Read each history and keep its lessons."""
    given = _parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    given.folder.mkdir(parents=True, exist_ok=True)
    with Workers(given.jobs) as workers:
        for name in workers.mapped(taught, courses(given.repositories, given)):
            logger.info("%s", name)


def courses(repositories: Iterable[Path], given: argparse.Namespace) -> list[Course]:
    """One for each repository; a clone's folder, or the one above a bare one, names it."""
    return [
        Course(path, name_of(path), given.commits, given.seed, given.folder)
        for path in map(Path.resolve, repositories)
    ]


def name_of(path: Path) -> str:
    """A history's name: that of a clone's folder, or of the one above a bare one."""
    return path.parent.name if path.name in ("repo", ".git") else path.name


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m training.extract", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("repositories", nargs="+", type=Path, metavar="REPOSITORY")
    parser.add_argument("--commits", type=int, default=COMMITS, help="most commits of a history")
    parser.add_argument("--seed", type=int, default=SEED, help="which commits are drawn")
    parser.add_argument("--jobs", type=int, default=2, help="histories at a time")
    return parser


if __name__ == "__main__":
    main()
