"""One history -> commits with what was said of them and what they changed.

Words and vectors of a history's changes, asked as an index is: BM25 and the static encoder's whitened space.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.encoders.static import StaticEncoder
from pipeline.hunks import Hunk
from pipeline.text import words
from pipeline.training.commit_sampling import FEWEST_WORDS, Drawn, change_text, drawn, plain, telling
from stores.fulltext import K1, B, rarity
from stores.vector_search import MESSAGE_SHARE
from stores.whitening import Space, learnt

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


Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

READ_OF_MESSAGE: Final = 1_600
EMBEDDED_OF_MESSAGE: Final = 400


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """What each word of each text is worth by BM25: `texts` and `worth` of a word lie between its `starts`."""

    starts: Ints
    texts: Ints
    worth: Floats
    count: int

    @classmethod
    def of(cls, bags: Sequence[Counter[str]], numbers: Mapping[str, int]) -> Postings:
        """Those of texts, by the numbers of their words."""
        lengths = np.array([bag.total() for bag in bags], np.float64)
        damped = K1 * (1 - B + B * lengths / max(float(lengths.mean()), 1))
        texts = np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])
        held = np.array([numbers[word] for bag in bags for word in bag], np.int64)
        counts = np.array([count for bag in bags for count in bag.values()], np.float64)
        holders = np.bincount(held, minlength=len(numbers))
        worth = rarity(holders, len(bags))[held] * counts * (K1 + 1) / (counts + damped[texts])
        order = np.argsort(held, kind="stable")
        starts = np.concatenate(([0], np.cumsum(holders)))
        return cls(starts, texts[order], worth[order].astype(np.float32), len(bags))

    def scores(self, asked: Iterable[int]) -> Floats:
        """Of every text, for a question's words."""
        found = np.zeros(self.count, np.float32)
        for word in asked:
            here = slice(self.starts[word], self.starts[word + 1])
            found[self.texts[here]] += self.worth[here]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """A history's changes as two lanes see them; `commit` is each one's.

    `hidden` and `shown` are their words, without and with messages.
    """

    commit: Ints
    numbers: Mapping[str, int]
    hidden: Postings
    shown: Postings
    space: Space
    changes: Floats
    messages: Floats

    @classmethod
    def of(cls, commits: Sequence[Told]) -> Lanes:
        """Those of a history."""
        texts = [(number, text) for number, told in enumerate(commits) for text in told.changes]
        commit = np.array([number for number, _ in texts], np.int64)
        said = [words(told.message[:READ_OF_MESSAGE]) for told in commits]
        changed = [words(text) for _, text in texts]
        both = [bag + said[number] for bag, (number, _) in zip(changed, texts, strict=True)]
        numbers: dict[str, int] = {}
        for word in (word for bag in both for word in bag):
            numbers.setdefault(word, len(numbers))
        encoder = StaticEncoder()
        vectors = encoder.encode([text for _, text in texts])
        space = learnt(vectors)
        messages = encoder.encode([told.message[:EMBEDDED_OF_MESSAGE] for told in commits])
        return cls(
            commit,
            numbers,
            Postings.of(changed, numbers),
            Postings.of(both, numbers),
            space,
            _placed(space, vectors),
            _placed(space, messages),
        )

    def ask(self, questions: Sequence[str], *, shown: bool) -> tuple[Floats, Floats]:
        """Scores by words and by vectors: a row for each question, a column for each change."""
        postings = self.shown if shown else self.hidden
        by_words = np.stack(
            [
                postings.scores(self.numbers[word] for word in words(text) if word in self.numbers)
                for text in questions
            ]
        )
        wanted = _placed(self.space, StaticEncoder().encode(questions))
        near = wanted @ self.changes.T
        if shown:
            told = (wanted @ self.messages.T)[:, self.commit]
            near = np.maximum(near, MESSAGE_SHARE * near + (1 - MESSAGE_SHARE) * told)
        return by_words, near


def _placed(space: Space, vectors: Floats) -> Floats:
    placed = space.placed(vectors.astype(np.float64))
    return np.asarray(placed / np.maximum(np.linalg.norm(placed, axis=1, keepdims=True), 1e-9), np.float32)
