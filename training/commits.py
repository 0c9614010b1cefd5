"""One history -> its commits that tell something, with what they changed, and merges that tell what they brought.

Both in an order drawn by a seed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final

from pipeline.git.refusals import UnreadableObject
from pipeline.git.repository import Commit, Repository, open_repository
from pipeline.hunks import Hunk, hunks
from pipeline.ignore import IgnoreRules
from pipeline.source.grammars import language_of
from pipeline.text import semantic_text
from training.telling import tells, title

# A commit of more files is a sweep: no file of it is what the message tells of.
MOST_FILES: Final = 20
# Fewer different words say nothing that could be found.
FEWEST_WORDS: Final = 5
# A merge of more commits brings more than its title tells.
MOST_BROUGHT: Final = 20

_NEWS: Final = re.compile(r"chang|news|history|release", re.IGNORECASE)
_NAME: Final = re.compile(r"\w+(?=\s*[(:<{]|\s*$)")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A commit, what it says in changelogs, and its other changes."""

    commit: Commit
    news: list[Hunk]
    changes: list[Hunk]

    def some(self, most: int) -> list[Hunk]:
        """At most so many of its changes, the same ones every time."""
        chance = random.Random(self.commit.sha)  # noqa: S311 - a repeatable draw, nothing secret
        return chance.sample(self.changes, min(most, len(self.changes)))


def drawn(path: Path, seed: int) -> Iterator[Drawn]:
    """The commits of HEAD's history that tell something and are no sweeps; what cannot be read is passed over."""
    repository = open_repository(path)
    rules = IgnoreRules.of(repository)
    head = repository.head()
    shas = repository.walk(head) if head else []
    random.Random(seed).shuffle(shas)  # noqa: S311 - a repeatable draw, nothing secret
    for sha in shas:
        try:
            commit = repository.commit(sha)
            if tells(commit):
                yield _parted(commit, hunks(repository, sha, _few(rules.ignored)).hunks)
        except (UnreadableObject, _Sweep):
            continue


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge says it brings, and the commits that it brought."""

    title: str
    commits: tuple[str, ...]


def merges(path: Path, seed: int, most: int) -> Iterator[Merged]:
    """At most so many of the merges of HEAD's history that say what they bring."""
    repository = open_repository(path)
    head = repository.head()
    shas = repository.walk(head) if head else []
    random.Random(seed).shuffle(shas)  # noqa: S311 - a repeatable draw, nothing secret
    found = (merge for sha in shas for merge in _merged(repository, sha))
    return islice(found, most)


def _merged(repository: Repository, sha: str) -> Iterator[Merged]:
    with suppress(UnreadableObject):
        commit = repository.commit(sha)
        said = title(commit.message) if len(commit.parents) == 2 else ""
        if said:
            ours, theirs = commit.parents
            brought = repository.walk(theirs, hide=[ours])
            if len(brought) <= MOST_BROUGHT:
                yield Merged(said, tuple(brought))


class _Sweep(Exception):
    """A commit of too many files, noticed before any of them is read."""


def _few(ignored: Callable[[str], bool]) -> Callable[[str], bool]:
    """The rule, of one commit, until it has kept more than MOST_FILES."""
    kept = 0

    def rule(path: str) -> bool:
        nonlocal kept
        left_out = ignored(path)
        kept += not left_out
        if kept > MOST_FILES:
            raise _Sweep
        return left_out

    return rule


def _parted(commit: Commit, changed: Sequence[Hunk]) -> Drawn:
    text = [hunk for hunk in changed if hunk.added_text or hunk.removed_text]
    news = [hunk for hunk in text if _is_news(hunk.file_path)]
    return Drawn(commit, news, [hunk for hunk in text if not _is_news(hunk.file_path)])


def _is_news(path: str) -> bool:
    pure = PurePosixPath(path)
    return pure.suffix in (".md", ".rst", ".txt", "") and any(map(_NEWS.match, (pure.name, pure.parent.name)))


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
