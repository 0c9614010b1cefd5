"""Lessons of many histories -> numbered examples: what is asked, and the text that should be found.

A batch is drawn from few histories, because what a question has to be told apart from is the rest of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.encoders.static import Lexicon
from pipeline.training.word_bags import Kind, Lessons

Ints = npt.NDArray[np.int64]

# How often each kind of question is asked where a commit has it; its subject fills the rest.
ASKED: Final = {Kind.SENTENCE: 0.25, Kind.BODY: 0.1, Kind.NEWS: 0.2, Kind.COMMENT: 0.15}
# What of a message is shown when something else of it is asked.
SHOWN: Final = {
    Kind.SUBJECT: 0.0,
    Kind.SENTENCE: 0.7,
    Kind.BODY: 0.0,
    Kind.NEWS: 0.7,
    Kind.COMMENT: 0.5,
}
BODY_SHOWN: Final = 0.3
# Examples of one history in a row: what they are told apart from.
BLOCK: Final = 256
# Drawn from a text each time it is read: half the time, and no text is learnt by heart.
MOST_ROWS: Final = 96
NONE: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Bags:
    """Rows of the table, bag by bag: `flat[starts[i]:ends[i]]`."""

    flat: npt.NDArray[np.uint16]
    starts: Ints
    ends: Ints

    def union(self, chosen: Ints, chance: np.random.Generator | None = None) -> tuple[Ints, Ints]:
        """Rows of each line's bags together, each once, and where a line's begin; with chance, some of them."""
        bags, lines = chosen.reshape(-1), np.repeat(np.arange(len(chosen)), chosen.shape[1])
        lines, bags = lines[bags >= 0], bags[bags >= 0]
        counts = self.ends[bags] - self.starts[bags]
        first = np.repeat(self.starts[bags] - (np.cumsum(counts) - counts), counts)
        rows = self.flat[first + np.arange(counts.sum())].astype(np.int64)
        keys = np.unique(np.repeat(lines, counts) << 16 | rows)
        if chance is not None:
            keys = _some(keys, chance)
        lengths = np.bincount(keys >> 16, minlength=len(chosen))
        return keys & 0xFFFF, np.cumsum(lengths) - lengths


def _some(keys: Ints, chance: np.random.Generator) -> Ints:
    """At most MOST_ROWS of each line."""
    order = np.lexsort((chance.random(len(keys)), keys >> 16))
    lengths = np.bincount(keys >> 16)
    place = np.arange(len(keys)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return keys[order][place < MOST_ROWS]


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """All histories' bags, and the numbers of bags by what they are to each other; NONE where there is none.

    By commit: `subject`, `body`, `news`, `sentence` (the first) and how many `sentences`. By change: `change` (its
    bag), `comment`, `commit` and `history`.
    """

    bags: Bags
    subject: Ints
    body: Ints
    news: Ints
    sentence: Ints
    sentences: Ints
    change: Ints
    comment: Ints
    commit: Ints
    history: Ints

    @classmethod
    def read(cls, files: Sequence[Path], lexicon: Lexicon) -> Material:
        """Lessons as rows of the table that is to be trained."""
        flat, lengths, commits, kinds, histories = [], [], [], [], []
        before = 0
        for number, file in enumerate(files):
            lessons = Lessons.read(file)
            rows, ends = _as_rows(lessons, lexicon)
            flat.append(rows)
            lengths.append(np.diff(ends, prepend=0))
            commits.append(lessons.commits.astype(np.int64) + before)
            kinds.append(lessons.kinds)
            histories.append(np.full(len(ends), number))
            before = commits[-1].max() + 1
        ends = np.cumsum(np.concatenate(lengths))
        bags = Bags(np.concatenate(flat), np.concatenate([[0], ends[:-1]]), ends)
        return _numbered(bags, np.concatenate(commits), np.concatenate(kinds), np.concatenate(histories))

    @property
    def blocks(self) -> int:
        """How many blocks a pass has."""
        return int((np.bincount(self.history) // BLOCK).sum())

    def batches(self, blocks: int, chance: np.random.Generator) -> Iterator[Ints]:
        """Every change once, in batches of so many blocks, each block of one history."""
        order = np.lexsort((chance.random(len(self.change)), self.history))
        parts = [
            of_one[start : start + BLOCK]
            for of_one in np.split(order, np.flatnonzero(np.diff(self.history[order])) + 1)
            for start in range(0, len(of_one) - BLOCK + 1, BLOCK)
        ]
        shuffled = chance.permutation(len(parts))
        for start in range(0, len(parts) - blocks + 1, blocks):
            yield np.concatenate([parts[number] for number in shuffled[start : start + blocks]])

    def examples(self, changes: Ints, chance: np.random.Generator) -> tuple[Ints, Ints]:
        """For each change a question and a text, as numbers of bags."""
        commits = self.commit[changes]
        drawn = self.sentence[commits] + (chance.random(len(changes)) * self.sentences[commits]).astype(
            np.int64
        )
        bag_of = {
            Kind.SENTENCE: np.where(self.sentences[commits] > 0, drawn, NONE),
            Kind.BODY: self.body[commits],
            Kind.NEWS: self.news[commits],
            Kind.COMMENT: self.comment[changes],
        }
        asked, kind = self.subject[commits], np.full(len(changes), int(Kind.SUBJECT))
        dice, reached = chance.random(len(changes)), 0.0
        for name, bag in bag_of.items():
            here = (dice >= reached) & (dice < reached + ASKED[name]) & (bag != NONE)
            asked, kind = np.where(here, bag, asked), np.where(here, int(name), kind)
            reached += ASKED[name]
        text = np.stack(
            [
                self.change[changes],
                np.where(kind == Kind.COMMENT, NONE, self.comment[changes]),
                np.where(_happens(SHOWN, kind, chance), self.subject[commits], NONE),
                np.where(
                    (kind == Kind.SUBJECT) & (chance.random(len(kind)) < BODY_SHOWN), self.body[commits], NONE
                ),
            ],
            axis=1,
        )
        return asked[:, None], text


def _happens(chances: dict[Kind, float], kind: Ints, chance: np.random.Generator) -> npt.NDArray[np.bool_]:
    likely = np.array([chances.get(Kind(number), 0.0) for number in range(len(Kind))])
    return np.asarray(chance.random(len(kind)) < likely[kind])


def _as_rows(lessons: Lessons, lexicon: Lexicon) -> tuple[npt.NDArray[np.uint16], Ints]:
    """A history's bags in the table's rows; a word has none, one or two."""
    rows = [lexicon.rows([word]) for word in lessons.words]
    counts = np.array([len(of_word) for of_word in rows], np.int64)
    table = np.array([row for of_word in rows for row in of_word], np.int64)
    begins = np.cumsum(counts) - counts
    of_flat = counts[lessons.flat]
    shift = np.repeat(begins[lessons.flat] - (np.cumsum(of_flat) - of_flat), of_flat)
    ends = np.concatenate([[0], np.cumsum(of_flat)])[lessons.ends]
    return table[shift + np.arange(of_flat.sum())].astype(np.uint16), ends


def _numbered(bags: Bags, commits: Ints, kinds: npt.NDArray[np.uint8], histories: Ints) -> Material:
    count = int(commits.max()) + 1

    def first(kind: Kind) -> Ints:
        found = np.full(count, NONE, np.int64)
        places = np.flatnonzero(kinds == kind)[::-1]
        found[commits[places]] = places
        return found

    change = np.flatnonzero(kinds == Kind.CHANGE)
    after = np.minimum(change + 1, len(kinds) - 1)
    comment = np.where(kinds[after] == Kind.COMMENT, after, NONE)
    return Material(
        bags,
        subject=first(Kind.SUBJECT),
        body=first(Kind.BODY),
        news=first(Kind.NEWS),
        sentence=first(Kind.SENTENCE),
        sentences=np.bincount(commits[kinds == Kind.SENTENCE], minlength=count),
        change=change,
        comment=comment,
        commit=commits[change],
        history=histories[change],
    )
