"""Texts of sampled commits, and retrieval over them to mine hard negatives: changes that rank high by mistake.

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
    MIN_DISTINCT_WORDS,
    CommitSample,
    build_change_text,
    sample_commits,
    split_message,
    strip_issue_numbers,
)
from stores.fulltext import K1, B, compute_inverse_document_frequency
from stores.vector_search import MESSAGE_WEIGHT
from stores.vectors import Whitening, fit_whitening

# Hunks per commit: further ones add little.
MAX_HUNKS: Final = 3
MAX_CHANGE_CHARS: Final = 8_000
MAX_CHANGELOG_CHARS: Final = 1_500
# Shorter changelog lines are headings or names.
MIN_CHANGELOG_WORDS: Final = 6

_MARKUP: Final = re.compile(r"[`*]{1,2}|:\w+:(?=`)|\[|\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class CommitText:
    """Texts of a commit: parts of the message, the whole message in one line, a changelog line, and its changes.

    `changelog_line`: empty for a commit that adds none. `changes`: for each sampled hunk, the text that the encoder
    embeds, without the commit message.
    """

    sha: str
    subject: str
    sentences: tuple[str, ...]
    message: str
    changelog_line: str
    changes: tuple[str, ...]


def read_commit_texts(path: Path, max_count: int, seed: int) -> list[CommitText]:
    """Return the texts of at most `max_count` commits, sampled with a seed."""
    texts = (text for sample in sample_commits(path, seed) if (text := _extract_commit_text(sample)))
    return list(islice(texts, max_count))


def _extract_commit_text(sample: CommitSample) -> CommitText | None:
    """Return the texts of a commit; None if no change has enough words."""
    texts = [_build_hunk_text(hunk) for hunk in sample.sample_hunks(MAX_HUNKS)]
    changes = tuple(text for text in texts if len(count_terms(text)) >= MIN_DISTINCT_WORDS)
    if not changes:
        return None
    message = sample.commit.message
    message_parts = split_message(message)
    return CommitText(
        sample.commit.sha,
        message_parts.subject,
        message_parts.sentences,
        " ".join(message.split()),
        next(_iter_changelog_lines(sample.changelog_hunks), ""),
        changes,
    )


def _build_hunk_text(hunk: Hunk) -> str:
    return build_change_text(hunk, hunk.added_text[:MAX_CHANGE_CHARS] or hunk.removed_text[:MAX_CHANGE_CHARS])


def _iter_changelog_lines(hunks: list[Hunk]) -> Iterator[str]:
    """Yield the first long enough line that each hunk adds to a changelog."""
    for hunk in hunks:
        lines = (line.strip(" -*+#") for line in hunk.added_text[:MAX_CHANGELOG_CHARS].splitlines())
        long_lines = (line for line in lines if len(line.split()) >= MIN_CHANGELOG_WORDS)
        yield from (strip_issue_numbers(_MARKUP.sub("", line)) for line in list(long_lines)[:1])


Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

# Most characters of a message for BM25, and for its vector (as in an index).
MAX_MESSAGE_CHARS: Final = 1_600
MAX_EMBEDDED_MESSAGE_CHARS: Final = 400


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """BM25 index of texts.

    The texts with term number t are `text_numbers[starts[t]:starts[t + 1]]`. The same slice of `weights` has the weight
    of the term in each of them. `count`: number of texts.
    """

    starts: Ints
    text_numbers: Ints
    weights: Floats
    count: int

    @classmethod
    def from_bags(cls, bags: Sequence[Counter[str]], numbers: Mapping[str, int]) -> Postings:
        """Build the index of texts, each a bag of terms with their counts; `numbers` maps each term to its number."""
        lengths = np.array([bag.total() for bag in bags], np.float64)
        length_norms = K1 * (1 - B + B * lengths / max(float(lengths.mean()), 1))
        text_numbers = np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])
        terms = np.array([numbers[term] for bag in bags for term in bag], np.int64)
        counts = np.array([count for bag in bags for count in bag.values()], np.float64)
        text_counts = np.bincount(terms, minlength=len(numbers))
        weights = (
            compute_inverse_document_frequency(text_counts, len(bags))[terms]
            * counts
            * (K1 + 1)
            / (counts + length_norms[text_numbers])
        )
        order = np.argsort(terms, kind="stable")
        starts = np.concatenate(([0], np.cumsum(text_counts)))
        return cls(starts, text_numbers[order], weights[order].astype(np.float32), len(bags))

    def score(self, terms: Iterable[int]) -> Floats:
        """Return the BM25 score of every text for the query's term numbers."""
        scores = np.zeros(self.count, np.float32)
        for term in terms:
            postings = slice(self.starts[term], self.starts[term + 1])
            scores[self.text_numbers[postings]] += self.weights[postings]
        return scores


@dataclass(frozen=True, slots=True, eq=False)
class CandidateRetriever:
    """BM25 and vector retrieval over the changes of one repository.

    `commit_numbers[i]`: number of the commit of change i. `term_numbers`: number of each term in the postings.
    `without_messages`: postings of the changes alone. `with_messages`: postings of the changes with their commits'
    messages. `space`: whitening of the vectors. `change_vectors`, `message_vectors`: whitened unit vectors of the
    changes and of the commits' messages.
    """

    commit_numbers: Ints
    term_numbers: Mapping[str, int]
    without_messages: Postings
    with_messages: Postings
    space: Whitening
    change_vectors: Floats
    message_vectors: Floats

    @classmethod
    def from_commits(cls, commit_texts: Sequence[CommitText]) -> CandidateRetriever:
        """Build the retriever of a repository's commits."""
        changes = [(number, text) for number, commit in enumerate(commit_texts) for text in commit.changes]
        message_bags = [count_terms(commit.message[:MAX_MESSAGE_CHARS]) for commit in commit_texts]
        change_bags = [count_terms(text) for _, text in changes]
        joint_bags = [
            bag + message_bags[number] for bag, (number, _) in zip(change_bags, changes, strict=True)
        ]
        term_numbers: dict[str, int] = {}
        for term in (term for bag in joint_bags for term in bag):
            term_numbers.setdefault(term, len(term_numbers))
        encoder = StaticEncoder()
        change_vectors = encoder.encode([text for _, text in changes])
        space = fit_whitening(change_vectors)
        message_vectors = encoder.encode(
            [commit.message[:MAX_EMBEDDED_MESSAGE_CHARS] for commit in commit_texts]
        )
        return cls(
            np.array([number for number, _ in changes], np.int64),
            term_numbers,
            Postings.from_bags(change_bags, term_numbers),
            Postings.from_bags(joint_bags, term_numbers),
            space,
            _whiten(space, change_vectors),
            _whiten(space, message_vectors),
        )

    def score(self, queries: Sequence[str], *, include_messages: bool) -> tuple[Floats, Floats]:
        """Return BM25 scores and cosines, each of shape (queries, changes).

        With `include_messages`, the message of a change's commit counts as well, as in an index.
        """
        postings = self.with_messages if include_messages else self.without_messages
        bm25_scores = np.stack(
            [
                postings.score(
                    self.term_numbers[term] for term in count_terms(text) if term in self.term_numbers
                )
                for text in queries
            ]
        )
        query_vectors = _whiten(self.space, StaticEncoder().encode(queries))
        cosines = query_vectors @ self.change_vectors.T
        if include_messages:
            message_cosines = (query_vectors @ self.message_vectors.T)[:, self.commit_numbers]
            weighted_cosines = (1 - MESSAGE_WEIGHT) * cosines + MESSAGE_WEIGHT * message_cosines
            cosines = np.maximum(cosines, weighted_cosines)
        return bm25_scores, cosines


def _whiten(space: Whitening, vectors: Floats) -> Floats:
    """Return whitened unit vectors."""
    projected = space.transform(vectors.astype(np.float64))
    return np.asarray(
        projected / np.maximum(np.linalg.norm(projected, axis=1, keepdims=True), 1e-9), np.float32
    )
