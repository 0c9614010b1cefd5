"""One history -> commits with what was said of them and what they changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from pipeline.hunks import Hunk
from pipeline.text import words
from training.commits import FEWEST_WORDS, Drawn, change_text, drawn
from training.telling import plain, telling

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

    sha: str
    subject: str
    sentences: tuple[str, ...]
    message: str
    news: str
    changes: tuple[str, ...]


def told(path: Path, most: int, seed: int) -> list[Told]:
    """At most so many of a history's commits, drawn by a seed."""
    commits = (one for commit in drawn(path, seed) for one in _of_commit(commit))
    return list(islice(commits, most))


def _of_commit(one: Drawn) -> Iterator[Told]:
    texts = [_text(hunk) for hunk in one.some(MOST_CHANGES)]
    changes = tuple(text for text in texts if len(words(text)) >= FEWEST_WORDS)
    if changes:
        message = one.commit.message
        said = telling(message)
        yield Told(
            one.commit.sha,
            said.subject,
            said.sentences,
            " ".join(message.split()),
            next(_news(one.news), ""),
            changes,
        )


def _text(hunk: Hunk) -> str:
    return change_text(hunk, hunk.added_text[:READ_OF_CHANGE] or hunk.removed_text[:READ_OF_CHANGE])


def _news(changelogs: list[Hunk]) -> Iterator[str]:
    """The first line that tells something, of each changelog."""
    for hunk in changelogs:
        lines = (line.strip(" -*+#") for line in hunk.added_text[:READ_OF_NEWS].splitlines())
        telling_lines = (line for line in lines if len(line.split()) >= FEWEST_NEWS_WORDS)
        yield from (plain(_MARKUP.sub("", line)) for line in list(telling_lines)[:1])
