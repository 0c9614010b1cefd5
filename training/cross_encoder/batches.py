"""Lists of many histories -> batches of padded pairs, but for their end as the bundled cross-encoder reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.cross_encoder import FIRST, LAST, MARKS, MESSAGE_TOKENS, QUESTION_TOKENS
from training.cross_encoder.mine import Kind

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

# Shorter than what is read in the end: an eighth less to compute, for ends of changes that say little.
TRAINED_TOKENS: Final = 112
# About a subject line: a sentence of the body is to be found by that and the change, not by the sentence after it.
SUBJECT_TOKENS: Final = 14
# Of a list the answer and so many others; without a draw, all of them.
OTHERS: Final = 5
# How often a subject is asked as a question, and a question asked of changes without their messages.
ASKED: Final = 0.3
UNTOLD: Final = 0.2
# "how did we", "how was", "where did we", "how to", in the tokenizer's numbers.
OPENINGS: Final = ((2129, 2106, 2057), (2129, 2001), (2073, 2106, 2057), (2129, 2000))


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
    """The lists that lie in files of `mine`."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._histories = [dict(np.load(file)) for file in files]
        counts = [len(history["asked"]) for history in self._histories]
        history = np.repeat(np.arange(len(counts)), counts)
        self.numbers = np.stack([history, np.concatenate([np.arange(count) for count in counts])], axis=1)

    def kind(self, number: Ints) -> Kind:
        """What the question of a list is."""
        history, place = self._histories[number[0]], number[1]
        return Kind(int(history["kinds"][history["asked"][place]]))

    def pairs(self, numbers: Ints, chance: np.random.Generator | None, hard: float = 1.0) -> Pairs:
        """Those of some lists; with chance, varied, and only a share of them beside what looks like the answer."""
        lines: list[tuple[list[int], int]] = []
        known = []
        for number in numbers:
            candidates, evidence = self._candidates(number, chance, hard)
            lines += self._lines(number, candidates, chance)
            known.append(evidence)
        lengths = np.array([len(line) for line, _ in lines])
        tokens, sides = np.zeros((2, len(lines), lengths.max()), np.int64)
        for row, (line, begins) in enumerate(lines):
            tokens[row, : len(line)] = line
            sides[row, begins : len(line)] = 1
        return Pairs(tokens, sides, lengths, np.stack(known).astype(np.float32))

    def _candidates(
        self, number: Ints, chance: np.random.Generator | None, hard: float
    ) -> tuple[list[int], Floats]:
        history, place = self._histories[number[0]], number[1]
        line, known = history["lists"][place], history["known"][place]
        if chance is None:
            return line.tolist(), known
        if chance.random() >= hard:
            others = chance.integers(0, len(history["commit"]), OTHERS)
            return [int(line[0]), *others.tolist()], np.zeros((OTHERS + 1, 2), np.float32)
        drawn = [0, *(1 + chance.permutation(len(line) - 1)[:OTHERS]).tolist()]
        return line[drawn].tolist(), known[drawn]

    def _lines(
        self, number: Ints, candidates: Sequence[int], chance: np.random.Generator | None
    ) -> Iterator[tuple[list[int], int]]:
        history = self._histories[number[0]]
        asked, kind = int(history["asked"][number[1]]), self.kind(number)
        question = _tokens(history, "question", asked)[:QUESTION_TOKENS]
        if chance is not None and kind is Kind.SUBJECT and chance.random() < ASKED:
            question = [*OPENINGS[int(chance.integers(len(OPENINGS)))], *question]
        shown = kind is not Kind.SUBJECT and not (chance is not None and chance.random() < UNTOLD)
        for place, change in enumerate(candidates):
            message: list[int] = []
            if shown and place == 0 and kind is Kind.SENTENCE:
                message = _tokens(history, "rest", asked)
            elif shown:
                message = _tokens(history, "message", int(history["commit"][change]))
            message = message[: SUBJECT_TOKENS if kind is Kind.SENTENCE else MESSAGE_TOKENS]
            text = (message + _tokens(history, "change", change))[: TRAINED_TOKENS - MARKS - len(question)]
            yield [FIRST, *question, LAST, FIRST, *text, LAST], len(question) + 2


def _tokens(history: dict[str, npt.NDArray[np.generic]], name: str, number: int) -> list[int]:
    ends = history[f"{name} ends"]
    start = int(ends[number - 1]) if number else 0
    tokens: list[int] = history[name][start : int(ends[number])].tolist()
    return tokens
