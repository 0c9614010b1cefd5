"""Extraction of training data for the static encoder: bags of words of commit messages and of changes.

python -m pipeline.training.word_bags FOLDER REPOSITORY... [--commits N] [--seed N] [--jobs N]

A REPOSITORY is a local clone, bare or not. Repositories that already have a file in FOLDER are skipped. Bags suffice,
since the static encoder sees a text as a set of words; no text of a repository is stored.
"""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.git.repository import Commit
from pipeline.hunks import Hunk
from pipeline.text import count_terms
from pipeline.training.commit_sampling import (
    MIN_WORDS,
    CommitSample,
    change_text,
    sample_commits,
    split_message,
)
from pipeline.workers import WorkerPool

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Per commit, so that large commits do not outweigh the others.
MAX_HUNKS: Final = 4
MIN_COMMENT_WORDS: Final = 4

_COMMENT: Final = re.compile(r"\s*(?:#|//|/?\*|\"\"\"|''')(?!!)")


class BagKind(IntEnum):
    """Source of a bag's words."""

    SUBJECT = 0  # of the commit's message
    SENTENCE = 1  # one of its body
    BODY = 2  # the whole body, as far as it is embedded
    CHANGELOG = 3  # what the commit added to a changelog
    CHANGE = 4  # a hunk's semantic text without message and comments
    COMMENT = 5  # the comments and docstrings it adds


@dataclass(frozen=True, slots=True)
class WordBag:
    """Distinct words of one text of a commit; `commit` is its number in the file."""

    commit: int
    kind: BagKind
    words: frozenset[str]


@dataclass(frozen=True, slots=True)
class ExtractionTask:
    """One repository to extract: its path and name, the number of commits, the seed, and the output directory."""

    repository: Path
    name: str
    max_commits: int
    seed: int
    folder: Path


def extract_repository(task: ExtractionTask) -> str:
    """Write the bags of one repository unless its file exists; return its name."""
    file = task.folder / f"{task.name}.npz"
    if not file.exists():
        write_bags(file, extract_bags(task))
    return task.name


def extract_bags(task: ExtractionTask) -> Iterator[WordBag]:
    """Yield the bags of sampled commits, in an order fixed by the seed."""
    number = 0
    for sample in sample_commits(task.repository, task.seed):
        commit_bags = list(_commit_bags(sample, number))
        yield from commit_bags
        number += bool(commit_bags)
        if number == task.max_commits:
            return


def _commit_bags(sample: CommitSample, number: int) -> Iterator[WordBag]:
    change_bags = list(_hunk_bags(number, sample.sample_hunks(MAX_HUNKS)))
    if change_bags:
        yield from _message_bags(number, sample.commit)
        yield from (
            WordBag(number, BagKind.CHANGELOG, bag)
            for bag in map(_added_words, sample.changelog_hunks)
            if len(bag) >= MIN_WORDS
        )
        yield from change_bags


def _message_bags(number: int, commit: Commit) -> Iterator[WordBag]:
    parts = split_message(commit.message)
    yield WordBag(number, BagKind.SUBJECT, frozenset(count_terms(parts.subject)))
    for sentence in parts.sentences:
        yield WordBag(number, BagKind.SENTENCE, frozenset(count_terms(sentence)))
    if parts.body:
        yield WordBag(number, BagKind.BODY, frozenset(count_terms(parts.body[:400])))


def _hunk_bags(number: int, hunks: Iterable[Hunk]) -> Iterator[WordBag]:
    for hunk in hunks:
        comments, rest = _split_comments(hunk.added_text or hunk.removed_text)
        change = frozenset(count_terms(change_text(hunk, rest)))
        if len(change) < MIN_WORDS:
            continue
        yield WordBag(number, BagKind.CHANGE, change)
        comment = frozenset(count_terms(comments[:2000]))
        if len(comment) >= MIN_COMMENT_WORDS:
            yield WordBag(number, BagKind.COMMENT, comment)


def _added_words(hunk: Hunk) -> frozenset[str]:
    return frozenset(count_terms(hunk.added_text[:400]))


def _split_comments(text: str) -> tuple[str, str]:
    """Split a text into its comment lines and the others."""
    lines = text[:8_000].splitlines()
    comments = [line for line in lines if _COMMENT.match(line)]
    return "\n".join(comments), "\n".join(line for line in lines if not _COMMENT.match(line))


def write_bags(file: Path, bags: Iterable[WordBag]) -> None:
    """Write bags as arrays: `words` in order of first appearance, and the word numbers of each bag."""
    import numpy as np

    numbers: dict[str, int] = {}
    flat: list[int] = []
    ends, commits, kinds = [], [], []
    for bag in bags:
        flat += sorted(numbers.setdefault(word, len(numbers)) for word in sorted(bag.words))
        ends.append(len(flat))
        commits.append(bag.commit)
        kinds.append(int(bag.kind))
    partial = file.with_suffix(".npz.part")
    with partial.open("wb") as stream:
        np.savez_compressed(
            stream,
            words=np.frombuffer("\n".join(numbers).encode(), np.uint8),
            flat=np.array(flat, np.uint32),
            ends=np.array(ends, np.int64),
            commits=np.array(commits, np.uint32),
            kinds=np.array(kinds, np.uint8),
        )
    partial.replace(file)


@dataclass(frozen=True, slots=True, eq=False)
class BagDataset:
    """Bags of one repository as read from disk: those of bag i are `flat[ends[i - 1]:ends[i]]`."""

    words: list[str]
    flat: NDArray[np.uint32]
    ends: NDArray[np.int64]
    commits: NDArray[np.uint32]
    kinds: NDArray[np.uint8]

    @classmethod
    def read(cls, file: Path) -> BagDataset:
        """Read a file written by `write_bags`."""
        import numpy as np

        with np.load(file) as kept:
            said = kept["words"].tobytes().decode().split("\n")
            return cls(said, kept["flat"], kept["ends"], kept["commits"], kept["kinds"])


MAX_COMMITS: Final = 3_500
SEED: Final = 1

logger = logging.getLogger(__name__)


def main() -> None:
    """Extract the bags of each repository."""
    given = _parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    given.folder.mkdir(parents=True, exist_ok=True)
    with WorkerPool(given.jobs) as workers:
        for name in workers.map(extract_repository, extraction_tasks(given.repositories, given)):
            logger.info("%s", name)


def extraction_tasks(repositories: Iterable[Path], given: argparse.Namespace) -> list[ExtractionTask]:
    """Return a task for each repository."""
    return [
        ExtractionTask(path, repository_name(path), given.commits, given.seed, given.folder)
        for path in map(Path.resolve, repositories)
    ]


def repository_name(path: Path) -> str:
    """Return the name of a repository: that of its directory, or of the parent of a bare one."""
    return path.parent.name if path.name in ("repo", ".git") else path.name


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pipeline.training.word_bags", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("repositories", nargs="+", type=Path, metavar="REPOSITORY")
    parser.add_argument("--commits", type=int, default=MAX_COMMITS, help="most commits of a history")
    parser.add_argument("--seed", type=int, default=SEED, help="which commits are drawn")
    parser.add_argument("--jobs", type=int, default=2, help="histories at a time")
    return parser


if __name__ == "__main__":
    main()
