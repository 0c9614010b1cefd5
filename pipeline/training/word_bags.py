"""Extraction of training data for the static encoder: bags of words of commit messages and of changes.

python -m pipeline.training.word_bags FOLDER REPOSITORY... [--commits N] [--seed N] [--jobs N]

A REPOSITORY is a local clone, bare or not. The command writes a file for each to FOLDER, and skips repositories that
already have one. A bag is the set of distinct words of a text: the static encoder needs no more, and no text of a
repository is stored.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.git.repository import Commit
from pipeline.hunks import Hunk
from pipeline.text import MAX_MESSAGE_CHARACTERS, count_terms
from pipeline.training.commit_sampling import (
    MIN_DISTINCT_WORDS,
    CommitSample,
    RepositoryArgumentParser,
    build_text_with_lines,
    map_repositories,
    sample_commits,
    split_message,
)

logger = logging.getLogger(__name__)

# Maximum number of commits to read of a repository.
MAX_COMMITS: Final = 3_500
# Maximum number of hunks per commit, so that large commits do not outweigh the others. A hunk is the diff of one file.
MAX_HUNKS: Final = 4
# Minimum number of words of a comment. Shorter comments ("see above") fit many changes.
MIN_COMMENT_WORDS: Final = 4
# Maximum number of characters to read of each text, because its beginning shows its topic.
MAX_HUNK_CHARACTERS: Final = 8_000
MAX_COMMENT_CHARACTERS: Final = 2_000
MAX_CHANGELOG_CHARACTERS: Final = 400

# Start of a comment line. `#!` starts a shebang or an attribute of Rust, not a comment.
_COMMENT: Final = re.compile(r"\s*(?:#|//|/?\*|\"\"\"|''')(?!!)")


class BagKind(IntEnum):
    """Source of a bag's words."""

    SUBJECT = 0  # subject of the commit message
    SENTENCE = 1  # one sentence of the message's body
    BODY = 2  # beginning of the message's body
    CHANGELOG = 3  # beginning of the text that the commit added to a changelog
    CHANGE = 4  # semantic text of a hunk, without message and comments
    COMMENT = 5  # comments and docstrings of the hunk whose CHANGE bag precedes this bag


@dataclass(frozen=True, slots=True)
class WordBag:
    """Distinct words of one text of a commit. `commit`: number of the commit in the file."""

    commit: int
    kind: BagKind
    words: frozenset[str]


@dataclass(frozen=True, slots=True)
class ExtractionTask:
    """Repository to extract: its path and name, the maximum number of commits, the seed, and the output directory."""

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
    """Yield the bags of sampled commits, commit by commit, in an order fixed by the seed."""
    commit_number = 0
    for sample in sample_commits(task.repository, task.seed):
        commit_bags = list(_iter_commit_bags(sample, commit_number))
        yield from commit_bags
        commit_number += bool(commit_bags)
        if commit_number == task.max_commits:
            return


def _iter_commit_bags(sample: CommitSample, commit_number: int) -> Iterator[WordBag]:
    """Yield the bags of a commit; none if no change has enough words."""
    change_bags = list(_iter_hunk_bags(commit_number, sample.sample_hunks(MAX_HUNKS)))
    if change_bags:
        yield from _iter_message_bags(commit_number, sample.commit)
        yield from (
            WordBag(commit_number, BagKind.CHANGELOG, words)
            for words in map(_extract_added_words, sample.changelog_hunks)
            if len(words) >= MIN_DISTINCT_WORDS
        )
        yield from change_bags


def _iter_message_bags(commit_number: int, commit: Commit) -> Iterator[WordBag]:
    parts = split_message(commit.message)
    yield WordBag(commit_number, BagKind.SUBJECT, frozenset(count_terms(parts.subject)))
    for sentence in parts.sentences:
        yield WordBag(commit_number, BagKind.SENTENCE, frozenset(count_terms(sentence)))
    if parts.body:
        body = parts.body[:MAX_MESSAGE_CHARACTERS]
        yield WordBag(commit_number, BagKind.BODY, frozenset(count_terms(body)))


def _iter_hunk_bags(commit_number: int, hunks: Iterable[Hunk]) -> Iterator[WordBag]:
    """Yield a CHANGE bag per hunk with enough words, followed by its COMMENT bag, if any."""
    for hunk in hunks:
        comment_text, other_text = _split_comments(hunk.added_text or hunk.removed_text)
        change_words = frozenset(count_terms(build_text_with_lines(hunk, other_text)))
        if len(change_words) < MIN_DISTINCT_WORDS:
            continue
        yield WordBag(commit_number, BagKind.CHANGE, change_words)
        comment_words = frozenset(count_terms(comment_text[:MAX_COMMENT_CHARACTERS]))
        if len(comment_words) >= MIN_COMMENT_WORDS:
            yield WordBag(commit_number, BagKind.COMMENT, comment_words)


def _extract_added_words(hunk: Hunk) -> frozenset[str]:
    return frozenset(count_terms(hunk.added_text[:MAX_CHANGELOG_CHARACTERS]))


def _split_comments(text: str) -> tuple[str, str]:
    """Split a text into its comment lines and its other lines."""
    lines = text[:MAX_HUNK_CHARACTERS].splitlines()
    comment_lines = [line for line in lines if _COMMENT.match(line)]
    other_lines = [line for line in lines if not _COMMENT.match(line)]
    return "\n".join(comment_lines), "\n".join(other_lines)


def write_bags(file: Path, bags: Iterable[WordBag]) -> None:
    """Write bags as the arrays of a `BagDataset`. Words are numbered in the order of their first appearance."""
    number_by_word: dict[str, int] = {}
    word_numbers: list[int] = []
    ends, commits, kinds = [], [], []
    for bag in bags:
        word_numbers += sorted(
            number_by_word.setdefault(word, len(number_by_word)) for word in sorted(bag.words)
        )
        ends.append(len(word_numbers))
        commits.append(bag.commit)
        kinds.append(int(bag.kind))
    partial_file = file.with_suffix(".npz.part")
    with partial_file.open("wb") as stream:
        np.savez_compressed(
            stream,
            words=np.frombuffer("\n".join(number_by_word).encode(), np.uint8),
            flat=np.array(word_numbers, np.uint32),
            ends=np.array(ends, np.int64),
            commits=np.array(commits, np.uint32),
            kinds=np.array(kinds, np.uint8),
        )
    partial_file.replace(file)


@dataclass(frozen=True, slots=True, eq=False)
class BagDataset:
    """Bags of one repository, as read from disk.

    `word_numbers`: numbers of the words of all bags; array `flat` of the file. The slice of bag i ends at `ends[i]`,
    and starts at `ends[i - 1]`, or at 0 for the first bag. `words`: word of each number. `commits` and `kinds`: commit
    number and BagKind of each bag.
    """

    words: list[str]
    word_numbers: npt.NDArray[np.uint32]
    ends: npt.NDArray[np.int64]
    commits: npt.NDArray[np.uint32]
    kinds: npt.NDArray[np.uint8]

    @classmethod
    def read(cls, file: Path) -> BagDataset:
        """Read a file written by `write_bags`."""
        with np.load(file) as arrays:
            words = arrays["words"].tobytes().decode().split("\n")
            return cls(words, arrays["flat"], arrays["ends"], arrays["commits"], arrays["kinds"])


def main() -> None:
    """Run the command line."""
    parser = RepositoryArgumentParser("pipeline.training.word_bags", __doc__, "FOLDER", MAX_COMMITS)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    tasks = [
        ExtractionTask(path, name, arguments.commits, arguments.seed, arguments.directory)
        for name, path in parser.name_repositories(arguments.repositories).items()
    ]
    arguments.directory.mkdir(parents=True, exist_ok=True)
    for name in map_repositories(extract_repository, tasks, arguments.jobs):
        logger.info("%s", name)


if __name__ == "__main__":
    main()
