"""One history -> commits with what was said of them and what they changed."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.git.refusals import UnreadableObject
from pipeline.git.repository import Repository, open_repository
from pipeline.hunks import Hunk, hunks
from pipeline.ignore import IgnoreRules
from pipeline.text import words
from training.lessons import FEWEST_WORDS, Sweep, change_text, few, parted
from training.telling import plain, telling, tells

# Of a commit; the others say much the same.
MOST_CHANGES: Final = 3
READ_OF_CHANGE: Final = 8_000
READ_OF_NEWS: Final = 1_500
# A shorter line of a changelog is a heading or a name.
FEWEST_NEWS_WORDS: Final = 6

_MARKUP: Final = re.compile(r"[`*]{1,2}|:\w+:(?=`)|\[|\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Told:
    """A commit: parts of its message and all of it in one line, its line in a changelog, and texts of its changes."""

    subject: str
    sentences: tuple[str, ...]
    message: str
    news: str
    changes: tuple[str, ...]


def told(path: Path, most: int, seed: int) -> list[Told]:
    """At most so many of a history's commits, drawn by a seed."""
    repository = open_repository(path)
    rules = IgnoreRules.of(repository)
    head = repository.head()
    shas = repository.walk(head) if head else []
    random.Random(seed).shuffle(shas)  # noqa: S311 - a repeatable draw, nothing secret
    found: list[Told] = []
    for sha in shas:
        found += _of_commit(repository, sha, rules)
        if len(found) == most:
            break
    return found


def _of_commit(repository: Repository, sha: str, rules: IgnoreRules) -> Iterator[Told]:
    try:
        commit = repository.commit(sha)
        if not tells(commit):
            return
        changed = hunks(repository, sha, few(rules.ignored)).hunks
    except (UnreadableObject, Sweep):
        return
    news, shown = parted(changed)
    chance = random.Random(sha)  # noqa: S311 - a repeatable draw, nothing secret
    texts = [_text(hunk) for hunk in chance.sample(shown, min(MOST_CHANGES, len(shown)))]
    changes = tuple(text for text in texts if len(words(text)) >= FEWEST_WORDS)
    if changes:
        said = telling(commit.message)
        message = " ".join(commit.message.split())
        yield Told(said.subject, said.sentences, message, next(_news(news), ""), changes)


def _text(hunk: Hunk) -> str:
    return change_text(hunk, hunk.added_text[:READ_OF_CHANGE] or hunk.removed_text[:READ_OF_CHANGE])


def _news(changelogs: list[Hunk]) -> Iterator[str]:
    """The first line that tells something, of each changelog."""
    for hunk in changelogs:
        lines = (line.strip(" -*+#") for line in hunk.added_text[:READ_OF_NEWS].splitlines())
        telling_lines = (line for line in lines if len(line.split()) >= FEWEST_NEWS_WORDS)
        yield from (plain(_MARKUP.sub("", line)) for line in list(telling_lines)[:1])
