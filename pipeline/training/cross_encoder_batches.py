"""Lists of many histories -> batches of padded pairs, but for their end as the bundled cross-encoder reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from pipeline.encoders.cross_encoder import FIRST, LAST, MARKS, MESSAGE_TOKENS, QUESTION_TOKENS
from pipeline.training.mine_pairs import Kind
from pipeline.training.pair_dataset import Floats, History, Ints

# Shorter than what is read in the end: an eighth less to compute, for ends of changes that say little.
TRAINED_TOKENS: Final = 112
# About a subject line: a sentence of the body is to be found by that and the change, not by the sentence after it.
SUBJECT_TOKENS: Final = 14
# Of a list the answer and so many others; without a draw, all of them.
OTHERS: Final = 5


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """A line for each candidate, list by list, the answer first: its tokens, which side each is of, and how many.

    `known` is what the lanes know of each: lists by candidates by two.
    """

    tokens: Ints
    sides: Ints
    lengths: Ints
    known: Floats


class Lists:
    """The lists that lie in files of `pipeline.training.mine_pairs`."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._histories = [History.read(file) for file in files]
        counts = [len(history) for history in self._histories]
        history = np.repeat(np.arange(len(counts)), counts)
        self.numbers = np.stack([history, np.concatenate([np.arange(count) for count in counts])], axis=1)

    def kind(self, number: Ints) -> Kind:
        """What the question of a list is."""
        return self._histories[number[0]].kind(number[1])

    def pairs(self, numbers: Ints, chance: np.random.Generator | None, hard: float = 1.0) -> Pairs:
        """Those of some lists; with chance, varied, and only a share of them beside what looks like the answer."""
        lines: list[tuple[list[int], int]] = []
        known = []
        for number in numbers:
            history, place = self._histories[number[0]], int(number[1])
            candidates, evidence = _candidates(history, place, chance, hard)
            lines += _lines(history, place, candidates, chance)
            known.append(evidence)
        lengths = np.array([len(line) for line, _ in lines])
        tokens, sides = np.zeros((2, len(lines), lengths.max()), np.int64)
        for row, (line, begins) in enumerate(lines):
            tokens[row, : len(line)] = line
            sides[row, begins : len(line)] = 1
        return Pairs(tokens, sides, lengths, np.stack(known))


def _candidates(
    history: History, place: int, chance: np.random.Generator | None, hard: float
) -> tuple[list[int], Floats]:
    line, known = history.candidates(place), history.known(place)
    if chance is None:
        return line.tolist(), known
    if chance.random() >= hard:
        others = chance.integers(0, history.changes, OTHERS)
        return [int(line[0]), *others.tolist()], np.zeros((OTHERS + 1, 2), np.float32)
    drawn = [0, *(1 + chance.permutation(len(line) - 1)[:OTHERS]).tolist()]
    return line[drawn].tolist(), known[drawn]


def _lines(
    history: History, place: int, candidates: Sequence[int], chance: np.random.Generator | None
) -> Iterator[tuple[list[int], int]]:
    question = history.question(place, chance)[:QUESTION_TOKENS]
    shown = history.shown(place, chance)
    most = SUBJECT_TOKENS if history.kind(place) is Kind.SENTENCE else MESSAGE_TOKENS
    for change in candidates:
        message = history.message(place, change)[:most] if shown else []
        text = (message + history.change(change))[: TRAINED_TOKENS - MARKS - len(question)]
        yield [FIRST, *question, LAST, FIRST, *text, LAST], len(question) + 2
