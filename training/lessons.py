"""One history -> its lessons: bags of words of what was said and of what was changed, on disk as arrays.

Bags, not texts: what is trained sees a text as the set of its words, so that a message is shown or hidden by taking
or leaving its bag, and no text of anybody's is kept.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from pipeline.git.refusals import UnreadableObject
from pipeline.git.repository import Commit, Repository, open_repository
from pipeline.hunks import Hunk, hunks
from pipeline.ignore import IgnoreRules
from pipeline.source.grammars import language_of
from pipeline.text import semantic_text, words
from training.telling import telling, tells

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A commit of more files is a sweep: no file of it is what the message tells of.
MOST_FILES: Final = 20
# Of a commit, so that broad ones do not outweigh the others.
MOST_HUNKS: Final = 4
# Fewer different words say nothing that could be found.
FEWEST_WORDS: Final = 5
FEWEST_COMMENT_WORDS: Final = 4

_NEWS: Final = re.compile(r"chang|news|history|release", re.IGNORECASE)
_COMMENT: Final = re.compile(r"\s*(?:#|//|/?\*|\"\"\"|''')(?!!)")
_NAME: Final = re.compile(r"\w+(?=\s*[(:<{]|\s*$)")


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
    repository = open_repository(course.repository)
    rules = IgnoreRules.of(repository)
    head = repository.head()
    shas = repository.walk(head) if head else []
    random.Random(course.seed).shuffle(shas)  # noqa: S311 - a repeatable draw, nothing secret
    number = 0
    for sha in shas:
        found = list(_of_commit(repository, sha, rules, number))
        yield from found
        number += bool(found)
        if number == course.commits:
            return


def _of_commit(repository: Repository, sha: str, rules: IgnoreRules, number: int) -> Iterator[Bag]:
    try:
        commit = repository.commit(sha)
        if not tells(commit):
            return
        changed = hunks(repository, sha, few(rules.ignored)).hunks
    except (UnreadableObject, Sweep):
        return
    news, shown = parted(changed)
    told = list(_of_hunks(number, _drawn(shown, sha)))
    if told:
        yield from _of_message(number, commit)
        yield from (
            Bag(number, Kind.NEWS, bag) for bag in map(_added_words, news) if len(bag) >= FEWEST_WORDS
        )
        yield from told


class Sweep(Exception):
    """A commit of too many files, noticed before any of them is read."""


def few(ignored: Callable[[str], bool]) -> Callable[[str], bool]:
    """The rule, of one commit, until it has kept more than MOST_FILES."""
    kept = 0

    def rule(path: str) -> bool:
        nonlocal kept
        left_out = ignored(path)
        kept += not left_out
        if kept > MOST_FILES:
            raise Sweep
        return left_out

    return rule


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


def change_text(hunk: Hunk, lines: str) -> str:
    """The text the encoder reads, without its message; symbols by the hunk's headings, which need no parse."""
    headings = (_NAME.search(part.header) for part in hunk.parts)
    return semantic_text(
        message="",
        path=hunk.file_path,
        language=language_of(hunk.file_path),
        symbols=list(dict.fromkeys(found.group() for found in headings if found)),
        change=hunk.change_kind,
        added=lines,
        removed="",
    )


def parted(changed: Sequence[Hunk]) -> tuple[list[Hunk], list[Hunk]]:
    """What tells of the change in a changelog, and the change."""
    text = [hunk for hunk in changed if hunk.added_text or hunk.removed_text]
    news = [hunk for hunk in text if _is_news(hunk.file_path)]
    return news, [hunk for hunk in text if not _is_news(hunk.file_path)]


def _is_news(path: str) -> bool:
    pure = PurePosixPath(path)
    return pure.suffix in (".md", ".rst", ".txt", "") and any(map(_NEWS.match, (pure.name, pure.parent.name)))


def _added_words(hunk: Hunk) -> frozenset[str]:
    return frozenset(words(hunk.added_text[:400]))


def _drawn(changed: Sequence[Hunk], sha: str) -> list[Hunk]:
    chance = random.Random(sha)  # noqa: S311 - a repeatable draw, nothing secret
    return chance.sample(changed, min(MOST_HUNKS, len(changed)))


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
    partial = file.with_suffix(".part.npz")
    np.savez_compressed(
        partial,
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
