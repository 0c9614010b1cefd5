"""Texts of sampled commits, and retrieval over them to mine hard negatives.

The retriever scores like an index does: BM25 over words, and cosines in the whitened space of the static encoder.
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
from pipeline.text import count_terms
from pipeline.training.commit_sampling import (
    MIN_WORDS,
    CommitSample,
    change_text,
    sample_commits,
    split_message,
    strip_issue_numbers,
)
from stores.fulltext import K1, B, compute_inverse_document_frequency
from stores.vector_search import MESSAGE_WEIGHT
from stores.whitening import Whitening, fit_whitening

# Per commit: further hunks add little.
MAX_HUNKS: Final = 3
MAX_CHANGE_CHARS: Final = 8_000
MAX_CHANGELOG_CHARS: Final = 1_500
# Shorter changelog lines are headings or names.
MIN_CHANGELOG_WORDS: Final = 6

_MARKUP: Final = re.compile(r"[`*]{1,2}|:\w+:(?=`)|\[|\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class CommitText:
    """Texts of a commit: parts of the message, the whole message in one line, a changelog line, and its changes."""

    sha: str
    subject: str
    sentences: tuple[str, ...]
    message: str
    changelog_line: str
    changes: tuple[str, ...]


def read_commit_texts(path: Path, max_count: int, seed: int) -> list[CommitText]:
    """Return the texts of at most `max_count` commits, sampled with a seed."""
    commits = (one for commit in sample_commits(path, seed) for one in _commit_text(commit))
    return list(islice(commits, max_count))


def _commit_text(sample: CommitSample) -> Iterator[CommitText]:
    texts = [_hunk_text(hunk) for hunk in sample.sample_hunks(MAX_HUNKS)]
    changes = tuple(text for text in texts if len(count_terms(text)) >= MIN_WORDS)
    if changes:
        message = sample.commit.message
        parts = split_message(message)
        yield CommitText(
            sample.commit.sha,
            parts.subject,
            parts.sentences,
            " ".join(message.split()),
            next(_changelog_lines(sample.changelog_hunks), ""),
            changes,
        )


def _hunk_text(hunk: Hunk) -> str:
    return change_text(hunk, hunk.added_text[:MAX_CHANGE_CHARS] or hunk.removed_text[:MAX_CHANGE_CHARS])


def _changelog_lines(changelogs: list[Hunk]) -> Iterator[str]:
    """Yield the first long enough line added to each changelog."""
    for hunk in changelogs:
        lines = (line.strip(" -*+#") for line in hunk.added_text[:MAX_CHANGELOG_CHARS].splitlines())
        long_lines = (line for line in lines if len(line.split()) >= MIN_CHANGELOG_WORDS)
        yield from (strip_issue_numbers(_MARKUP.sub("", line)) for line in list(long_lines)[:1])


Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

MAX_MESSAGE_CHARS: Final = 1_600
MAX_EMBEDDED_MESSAGE_CHARS: Final = 400


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """BM25 index: the entries of term t are `texts[starts[t]:starts[t + 1]]` and the same slice of `weights`."""

    starts: Ints
    texts: Ints
    weights: Floats
    count: int

    @classmethod
    def from_bags(cls, bags: Sequence[Counter[str]], numbers: Mapping[str, int]) -> Postings:
        """Build the index of the texts; `numbers` maps each term to its number."""
        lengths = np.array([bag.total() for bag in bags], np.float64)
        damped = K1 * (1 - B + B * lengths / max(float(lengths.mean()), 1))
        texts = np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])
        held = np.array([numbers[word] for bag in bags for word in bag], np.int64)
        counts = np.array([count for bag in bags for count in bag.values()], np.float64)
        holders = np.bincount(held, minlength=len(numbers))
        worth = (
            compute_inverse_document_frequency(holders, len(bags))[held]
            * counts
            * (K1 + 1)
            / (counts + damped[texts])
        )
        order = np.argsort(held, kind="stable")
        starts = np.concatenate(([0], np.cumsum(holders)))
        return cls(starts, texts[order], worth[order].astype(np.float32), len(bags))

    def score(self, terms: Iterable[int]) -> Floats:
        """Return the BM25 score of every text for the query's term numbers."""
        scores = np.zeros(self.count, np.float32)
        for word in terms:
            entries = slice(self.starts[word], self.starts[word + 1])
            scores[self.texts[entries]] += self.weights[entries]
        return scores


@dataclass(frozen=True, slots=True, eq=False)
class CandidateRetriever:
    """BM25 and vector retrieval over the changes of one history; `commit[i]` is the commit number of change i.

    `without_messages` and `with_messages` are the BM25 indexes of the changes alone and with their commit message.
    """

    commit: Ints
    numbers: Mapping[str, int]
    without_messages: Postings
    with_messages: Postings
    space: Whitening
    changes: Floats
    messages: Floats

    @classmethod
    def from_commits(cls, commits: Sequence[CommitText]) -> CandidateRetriever:
        """Build the retriever of a history's commits."""
        texts = [(number, text) for number, told in enumerate(commits) for text in told.changes]
        commit = np.array([number for number, _ in texts], np.int64)
        said = [count_terms(told.message[:MAX_MESSAGE_CHARS]) for told in commits]
        changed = [count_terms(text) for _, text in texts]
        both = [bag + said[number] for bag, (number, _) in zip(changed, texts, strict=True)]
        numbers: dict[str, int] = {}
        for word in (word for bag in both for word in bag):
            numbers.setdefault(word, len(numbers))
        encoder = StaticEncoder()
        vectors = encoder.encode([text for _, text in texts])
        space = fit_whitening(vectors)
        messages = encoder.encode([told.message[:MAX_EMBEDDED_MESSAGE_CHARS] for told in commits])
        return cls(
            commit,
            numbers,
            Postings.from_bags(changed, numbers),
            Postings.from_bags(both, numbers),
            space,
            _whitened(space, vectors),
            _whitened(space, messages),
        )

    def score(self, questions: Sequence[str], *, show_messages: bool) -> tuple[Floats, Floats]:
        """Return BM25 scores and cosines, each of shape (queries, changes)."""
        postings = self.with_messages if show_messages else self.without_messages
        by_words = np.stack(
            [
                postings.score(self.numbers[word] for word in count_terms(text) if word in self.numbers)
                for text in questions
            ]
        )
        queries = _whitened(self.space, StaticEncoder().encode(questions))
        cosines = queries @ self.changes.T
        if show_messages:
            told = (queries @ self.messages.T)[:, self.commit]
            cosines = np.maximum(cosines, MESSAGE_WEIGHT * cosines + (1 - MESSAGE_WEIGHT) * told)
        return by_words, cosines


def _whitened(space: Whitening, vectors: Floats) -> Floats:
    projected = space.transform(vectors.astype(np.float64))
    return np.asarray(
        projected / np.maximum(np.linalg.norm(projected, axis=1, keepdims=True), 1e-9), np.float32
    )
