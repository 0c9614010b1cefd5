"""One history -> its lessons: bags of words of what was said and of what was changed, on disk as arrays.

Bags, not texts: what is trained sees a text as the set of its words, so that a message is shown or hidden by taking
or leaving its bag, and no text of anybody's is kept.

Histories -> lessons, several at a time.

python -m pipeline.training.word_bags FOLDER REPOSITORY... [--commits N] [--seed N] [--jobs N]

A REPOSITORY is a local clone, bare or not; histories whose lessons lie in FOLDER are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pipeline.git.repository import Commit
from pipeline.hunks import Hunk
from pipeline.text import words
from pipeline.training.commit_sampling import FEWEST_WORDS, Drawn, change_text, drawn, telling

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


import argparse
import logging

from pipeline.workers import Workers

# Of a commit, so that broad ones do not outweigh the others.
MOST_HUNKS: Final = 4
FEWEST_COMMENT_WORDS: Final = 4

_COMMENT: Final = re.compile(r"\s*(?:#|//|/?\*|\"\"\"|''')(?!!)")


class Kind(IntEnum):
    """What a bag holds."""

    SUBJECT = 0  # of the commit's message
    SENTENCE = 1  # one of its body
    BODY = 2  # all of it, as far as it is embedded
    NEWS = 3  # what the commit added to a changelog
    CHANGE = 4  # a hunk's semantic text without message and comments
    COMMENT = 5  # the comments and docstrings it adds


@dataclass(frozen=True, slots=True)
class Bag:
    """Different words, of a commit known by its number in the history's lessons."""

    commit: int
    kind: Kind
    words: frozenset[str]


@dataclass(frozen=True, slots=True)
class Course:
    """What to read: a repository, at most so many of its commits, drawn by a seed, and where lessons are kept."""

    repository: Path
    name: str
    commits: int
    seed: int
    folder: Path


def taught(course: Course) -> str:
    """Write a history's lessons; a line about them."""
    kept = course.folder / f"{course.name}.npz"
    if not kept.exists():
        write(kept, bags(course))
    return course.name


def bags(course: Course) -> Iterator[Bag]:
    """The lessons of a draw of a history's commits, in an order that the seed decides."""
    number = 0
    for one in drawn(course.repository, course.seed):
        found = list(_of_commit(one, number))
        yield from found
        number += bool(found)
        if number == course.commits:
            return


def _of_commit(one: Drawn, number: int) -> Iterator[Bag]:
    told = list(_of_hunks(number, one.some(MOST_HUNKS)))
    if told:
        yield from _of_message(number, one.commit)
        yield from (
            Bag(number, Kind.NEWS, bag) for bag in map(_added_words, one.news) if len(bag) >= FEWEST_WORDS
        )
        yield from told


def _of_message(number: int, commit: Commit) -> Iterator[Bag]:
    said = telling(commit.message)
    yield Bag(number, Kind.SUBJECT, frozenset(words(said.subject)))
    for sentence in said.sentences:
        yield Bag(number, Kind.SENTENCE, frozenset(words(sentence)))
    if said.body:
        yield Bag(number, Kind.BODY, frozenset(words(said.body[:400])))


def _of_hunks(number: int, shown: Iterable[Hunk]) -> Iterator[Bag]:
    for hunk in shown:
        comments, rest = _by_comment(hunk.added_text or hunk.removed_text)
        change = frozenset(words(change_text(hunk, rest)))
        if len(change) < FEWEST_WORDS:
            continue
        yield Bag(number, Kind.CHANGE, change)
        comment = frozenset(words(comments[:2000]))
        if len(comment) >= FEWEST_COMMENT_WORDS:
            yield Bag(number, Kind.COMMENT, comment)


def _added_words(hunk: Hunk) -> frozenset[str]:
    return frozenset(words(hunk.added_text[:400]))


def _by_comment(text: str) -> tuple[str, str]:
    """Lines that are comments or open a docstring, and the others."""
    lines = text[:8_000].splitlines()
    said = [line for line in lines if _COMMENT.match(line)]
    return "\n".join(said), "\n".join(line for line in lines if not _COMMENT.match(line))


def write(file: Path, found: Iterable[Bag]) -> None:
    """Bags as arrays: `words` in order of first appearance, and for each bag its words' numbers."""
    import numpy as np

    numbers: dict[str, int] = {}
    flat: list[int] = []
    ends, commits, kinds = [], [], []
    for bag in found:
        flat += sorted(numbers.setdefault(word, len(numbers)) for word in sorted(bag.words))
        ends.append(len(flat))
        commits.append(bag.commit)
        kinds.append(int(bag.kind))
    partial = file.with_suffix(".npz.part")
    with partial.open("wb") as opened:
        np.savez_compressed(
            opened,
            words=np.frombuffer("\n".join(numbers).encode(), np.uint8),
            flat=np.array(flat, np.uint32),
            ends=np.array(ends, np.int64),
            commits=np.array(commits, np.uint32),
            kinds=np.array(kinds, np.uint8),
        )
    partial.replace(file)


@dataclass(frozen=True, slots=True, eq=False)
class Lessons:
    """The lessons of one history, as they lie on disk."""

    words: list[str]
    flat: NDArray[np.uint32]
    ends: NDArray[np.int64]
    commits: NDArray[np.uint32]
    kinds: NDArray[np.uint8]

    @classmethod
    def read(cls, file: Path) -> Lessons:
        """What `write` wrote."""
        import numpy as np

        with np.load(file) as kept:
            said = kept["words"].tobytes().decode().split("\n")
            return cls(said, kept["flat"], kept["ends"], kept["commits"], kept["kinds"])


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
    parser = argparse.ArgumentParser(prog="python -m pipeline.training.word_bags", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("repositories", nargs="+", type=Path, metavar="REPOSITORY")
    parser.add_argument("--commits", type=int, default=COMMITS, help="most commits of a history")
    parser.add_argument("--seed", type=int, default=SEED, help="which commits are drawn")
    parser.add_argument("--jobs", type=int, default=2, help="histories at a time")
    return parser


if __name__ == "__main__":
    main()
