"""Lines that a commit removes and adds, by text and by word, and the support of a pair of lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from serve.explain.line_similarity import (
    LineFeatures,
    build_key,
    compute_dice,
    compute_similarity,
    extract_features,
    extract_literals,
)

# Nonblank lines before and as many after a line, from which support is computed.
SUPPORT_LINES: Final = 2
# Support is a weighted mean: a line without words, such as a brace, has this weight, and one with words at most 1.
MIN_SUPPORT_WEIGHT: Final = 0.1
# A moved line must be better than an edited one by this much, because most edits stay where they were.
MOVE_ADVANTAGE: Final = 0.1
# A removed line is not the source of a line if another added line is more similar to it by this much.
RIVAL_ADVANTAGE: Final = 0.1
# Limit of the lines of one text or word that are compared with a line. Lines of commoner words are not compared.
MAX_CANDIDATES: Final = 40
# Words of a line, the rarest ones, by which similar removed lines are looked up: similar lines share most words.
MAX_SEARCH_WORDS: Final = 3
# A copied line needs more than a moved one, because its original was not removed: idioms are equal by chance.
MIN_COPY_WEIGHT: Final = 2.0
COPY_SUPPORT: Final = 0.5


@dataclass(frozen=True, slots=True)
class ChangedLine:
    """Line that a commit removes or adds.

    `lines`: all lines of its file. `number`: that of the line, from 1. `block`: that of its block in the file's diff.
    """

    path: bytes
    lines: Sequence[str]
    number: int
    block: int

    @property
    def text(self) -> str:
        """The line itself."""
        return self.lines[self.number - 1]

    @property
    def features(self) -> LineFeatures:
        """Features of the line."""
        return extract_features(self.text)


@dataclass(frozen=True)
class ChangedLines:
    """Lines that a commit removes from one parent, and those that it adds."""

    removed: Sequence[ChangedLine]
    added: Sequence[ChangedLine]

    @cached_property
    def _removed_by_key(self) -> Mapping[str, list[ChangedLine]]:
        return _group_by_key(self.removed)

    @cached_property
    def _added_by_key(self) -> Mapping[str, list[ChangedLine]]:
        return _group_by_key(self.added)

    @cached_property
    def _removed_by_word(self) -> Mapping[str, list[ChangedLine]]:
        """Removed lines, without those whose text the commit adds again: they became no other line."""
        by_word: dict[str, list[ChangedLine]] = defaultdict(list)
        for key, lines in self._removed_by_key.items():
            if key not in self._added_by_key:
                for line in lines:
                    for word in line.features.words:
                        by_word[word].append(line)
        return by_word

    def find_candidates(self, features: LineFeatures) -> list[ChangedLine]:
        """Return the removed lines of equal text, and those that share a rare word."""
        candidates = self._removed_by_key.get(features.key, [])[:MAX_CANDIDATES]
        by_word = self._removed_by_word
        postings = sorted((by_word[word] for word in features.words if word in by_word), key=len)
        for posting in postings[:MAX_SEARCH_WORDS]:
            if len(posting) <= MAX_CANDIDATES:
                candidates = [*candidates, *posting]
        return candidates

    def compute_best_support(self, removed: ChangedLine) -> float:
        """Return the best support of the added lines of this text; 0 if no more were added than removed.

        Of several added lines, only the one with the best support continues the removed line.
        """
        key = removed.features.key
        added = self._added_by_key.get(key, [])
        if len(added) <= len(self._removed_by_key[key]):
            return 0.0
        return max(
            compute_support(line.lines, line.number, removed.lines, removed.number)
            for line in added[:MAX_CANDIDATES]
        )

    def has_better_successor(self, removed: ChangedLine, path: bytes, number: int, similarity: float) -> bool:
        """Check whether a removed line rather became another added line of its file than the line `number` of `path`.

        Most lines stay where they were, so an added line of its block may be less similar by `MOVE_ADVANTAGE`.
        """
        if similarity == 1:
            return False
        return any(
            _is_more_similar(
                line.features,
                removed.features,
                similarity + (-MOVE_ADVANTAGE if line.block == removed.block else RIVAL_ADVANTAGE),
            )
            for line in self.added
            if line.path == removed.path and (line.path, line.number) != (path, number)
        )

    def share_unique_literal(self, features: LineFeatures, removed: ChangedLine) -> bool:
        """Check whether a line has a literal that only one removed and one added line of the commit have."""
        return any(
            sum(literal in line.text for line in self.removed) == 1
            and sum(literal in line.text for line in self.added) == 1
            for literal in extract_literals(removed.text)
            if literal in features.words
        )


def compute_support(lines: Sequence[str], number: int, old_lines: Sequence[str], old_number: int) -> float:
    """Return how similar the lines around two lines are, 0 to 1. Lines with more words count more."""
    total = weights = 0.0
    for step in (-1, 1):
        neighbours = zip(
            _iter_nonblank(lines, number - 1, step),
            _iter_nonblank(old_lines, old_number - 1, step),
            strict=False,
        )
        for (new, old), _ in zip(neighbours, range(SUPPORT_LINES), strict=False):
            weight = max(MIN_SUPPORT_WEIGHT, min(1.0, new.weight))
            weights += weight
            total += weight * compute_similarity(new, old)
    return total / weights if weights else 0.0


def is_copy(lines: Sequence[str], number: int, old_lines: Sequence[str], old_number: int) -> bool:
    """Check whether a line is a copy of an equal line of the parent: the lines around both must be similar."""
    return compute_support(lines, number, old_lines, old_number) >= COPY_SUPPORT


def has_better_rival(removed: LineFeatures, added_texts: Iterable[str], similarity: float) -> bool:
    """Check whether an added line is more similar to a removed line than `similarity` by `RIVAL_ADVANTAGE`."""
    least = similarity + RIVAL_ADVANTAGE
    return least < 1 and any(_is_more_similar(extract_features(text), removed, least) for text in added_texts)


def _is_more_similar(first: LineFeatures, second: LineFeatures, similarity: float) -> bool:
    # The Dice ratio is half of the similarity, and takes less time than the other half.
    may_be = (1 + compute_dice(first, second)) / 2 > similarity
    return may_be and compute_similarity(first, second) > similarity


def _group_by_key(lines: Sequence[ChangedLine]) -> dict[str, list[ChangedLine]]:
    by_key: dict[str, list[ChangedLine]] = defaultdict(list)
    for line in lines:
        by_key[build_key(line.text)].append(line)
    return by_key


def _iter_nonblank(lines: Sequence[str], index: int, step: int) -> Iterator[LineFeatures]:
    """Yield the features of the nonblank lines before or after the line of an index."""
    index += step
    while 0 <= index < len(lines):
        features = extract_features(lines[index])
        if features.key:
            yield features
        index += step
