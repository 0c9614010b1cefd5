"""Training set of the static encoder: (query, text) examples from the word bags of many repositories.

A batch has few repositories: the negatives of a query should come from its own repository.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.encoders.static import Lexicon
from pipeline.training.word_bags import BagDataset, BagKind

Ints = npt.NDArray[np.int64]

# Share of each kind of query, where a commit has one; the subject fills the rest.
QUERY_KIND_SHARES: Final = {
    BagKind.SENTENCE: 0.25,
    BagKind.BODY: 0.1,
    BagKind.CHANGELOG: 0.2,
    BagKind.COMMENT: 0.15,
}
# Probability that the text shows the commit subject, by kind of query.
MESSAGE_SHOWN_SHARES: Final = {
    BagKind.SUBJECT: 0.0,
    BagKind.SENTENCE: 0.7,
    BagKind.BODY: 0.0,
    BagKind.CHANGELOG: 0.7,
    BagKind.COMMENT: 0.5,
}
BODY_SHOWN_SHARE: Final = 0.3
# Consecutive examples of one repository: they serve as each other's negatives.
BLOCK: Final = 256
# Words sampled from a text each time: halves the time and prevents memorizing.
MAX_ROWS: Final = 96
NONE: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Bags:
    """Table rows of all bags: those of bag i are `flat[starts[i]:ends[i]]`."""

    flat: npt.NDArray[np.uint16]
    starts: Ints
    ends: Ints

    def union(self, selected: Ints, generator: np.random.Generator | None = None) -> tuple[Ints, Ints]:
        """Return the distinct rows of each line's bags and the start of each line; with a generator, a sample."""
        bags, lines = selected.reshape(-1), np.repeat(np.arange(len(selected)), selected.shape[1])
        lines, bags = lines[bags >= 0], bags[bags >= 0]
        counts = self.ends[bags] - self.starts[bags]
        first = np.repeat(self.starts[bags] - (np.cumsum(counts) - counts), counts)
        rows = self.flat[first + np.arange(counts.sum())].astype(np.int64)
        keys = np.unique(np.repeat(lines, counts) << 16 | rows)
        if generator is not None:
            keys = _sample_rows(keys, generator)
        lengths = np.bincount(keys >> 16, minlength=len(selected))
        return keys & 0xFFFF, np.cumsum(lengths) - lengths


def _sample_rows(keys: Ints, generator: np.random.Generator) -> Ints:
    """Sample at most MAX_ROWS keys of each line."""
    order = np.lexsort((generator.random(len(keys)), keys >> 16))
    lengths = np.bincount(keys >> 16)
    place = np.arange(len(keys)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return keys[order][place < MAX_ROWS]


@dataclass(frozen=True, slots=True, eq=False)
class StaticTrainingSet:
    """Bags of all repositories, and the bag numbers of each commit and change; NONE where there is no such bag.

    Per commit: `subject`, `body`, `changelog`, `sentence` (the first) and the number of `sentences`.
    Per change: `change` (its bag), `comment`, `commit` and `history`.
    """

    bags: Bags
    subject: Ints
    body: Ints
    changelog: Ints
    sentence: Ints
    sentences: Ints
    change: Ints
    comment: Ints
    commit: Ints
    history: Ints

    @classmethod
    def read(cls, files: Sequence[Path], lexicon: Lexicon) -> StaticTrainingSet:
        """Read bag files and map their words to table rows."""
        flat, lengths, commits, kinds, histories = [], [], [], [], []
        before = 0
        for number, file in enumerate(files):
            dataset = BagDataset.read(file)
            rows, ends = _table_rows(dataset, lexicon)
            flat.append(rows)
            lengths.append(np.diff(ends, prepend=0))
            commits.append(dataset.commits.astype(np.int64) + before)
            kinds.append(dataset.kinds)
            histories.append(np.full(len(ends), number))
            before = commits[-1].max() + 1
        ends = np.cumsum(np.concatenate(lengths))
        bags = Bags(np.concatenate(flat), np.concatenate([[0], ends[:-1]]), ends)
        return _build_training_set(
            bags, np.concatenate(commits), np.concatenate(kinds), np.concatenate(histories)
        )

    @property
    def block_count(self) -> int:
        """Number of blocks per epoch."""
        return int((np.bincount(self.history) // BLOCK).sum())

    def batches(self, blocks: int, generator: np.random.Generator) -> Iterator[Ints]:
        """Yield every change once, in batches of `blocks` blocks; a block is from one repository."""
        order = np.lexsort((generator.random(len(self.change)), self.history))
        parts = [
            of_one[start : start + BLOCK]
            for of_one in np.split(order, np.flatnonzero(np.diff(self.history[order])) + 1)
            for start in range(0, len(of_one) - BLOCK + 1, BLOCK)
        ]
        shuffled = generator.permutation(len(parts))
        for start in range(0, len(parts) - blocks + 1, blocks):
            yield np.concatenate([parts[number] for number in shuffled[start : start + blocks]])

    def examples(self, changes: Ints, generator: np.random.Generator) -> tuple[Ints, Ints]:
        """Return a query and a text for each change, as bag numbers."""
        commits = self.commit[changes]
        sentences = self.sentence[commits] + (
            generator.random(len(changes)) * self.sentences[commits]
        ).astype(np.int64)
        bag_of = {
            BagKind.SENTENCE: np.where(self.sentences[commits] > 0, sentences, NONE),
            BagKind.BODY: self.body[commits],
            BagKind.CHANGELOG: self.changelog[commits],
            BagKind.COMMENT: self.comment[changes],
        }
        queries, kind = self.subject[commits], np.full(len(changes), int(BagKind.SUBJECT))
        dice, cumulative = generator.random(len(changes)), 0.0
        for name, bag in bag_of.items():
            is_kind = (dice >= cumulative) & (dice < cumulative + QUERY_KIND_SHARES[name]) & (bag != NONE)
            queries, kind = np.where(is_kind, bag, queries), np.where(is_kind, int(name), kind)
            cumulative += QUERY_KIND_SHARES[name]
        text = np.stack(
            [
                self.change[changes],
                np.where(kind == BagKind.COMMENT, NONE, self.comment[changes]),
                np.where(_draw_by_kind(MESSAGE_SHOWN_SHARES, kind, generator), self.subject[commits], NONE),
                np.where(
                    (kind == BagKind.SUBJECT) & (generator.random(len(kind)) < BODY_SHOWN_SHARE),
                    self.body[commits],
                    NONE,
                ),
            ],
            axis=1,
        )
        return queries[:, None], text


def _draw_by_kind(
    chances: dict[BagKind, float], kind: Ints, generator: np.random.Generator
) -> npt.NDArray[np.bool_]:
    probabilities = np.array([chances.get(BagKind(number), 0.0) for number in range(len(BagKind))])
    return np.asarray(generator.random(len(kind)) < probabilities[kind])


def _table_rows(bags: BagDataset, lexicon: Lexicon) -> tuple[npt.NDArray[np.uint16], Ints]:
    """Return the table rows of all bags and the end of each bag; a word has zero to two rows."""
    rows = [lexicon.find_rows([word]) for word in bags.words]
    counts = np.array([len(word_rows) for word_rows in rows], np.int64)
    table = np.array([row for word_rows in rows for row in word_rows], np.int64)
    starts = np.cumsum(counts) - counts
    row_counts = counts[bags.flat]
    shift = np.repeat(starts[bags.flat] - (np.cumsum(row_counts) - row_counts), row_counts)
    ends = np.concatenate([[0], np.cumsum(row_counts)])[bags.ends]
    return table[shift + np.arange(row_counts.sum())].astype(np.uint16), ends


def _build_training_set(
    bags: Bags, commits: Ints, kinds: npt.NDArray[np.uint8], histories: Ints
) -> StaticTrainingSet:
    count = int(commits.max()) + 1

    def first_bag(kind: BagKind) -> Ints:
        first_bags = np.full(count, NONE, np.int64)
        places = np.flatnonzero(kinds == kind)[::-1]
        first_bags[commits[places]] = places
        return first_bags

    change = np.flatnonzero(kinds == BagKind.CHANGE)
    after = np.minimum(change + 1, len(kinds) - 1)
    comment = np.where(kinds[after] == BagKind.COMMENT, after, NONE)
    return StaticTrainingSet(
        bags,
        subject=first_bag(BagKind.SUBJECT),
        body=first_bag(BagKind.BODY),
        changelog=first_bag(BagKind.CHANGELOG),
        sentence=first_bag(BagKind.SENTENCE),
        sentences=np.bincount(commits[kinds == BagKind.SENTENCE], minlength=count),
        change=change,
        comment=comment,
        commit=commits[change],
        history=histories[change],
    )
