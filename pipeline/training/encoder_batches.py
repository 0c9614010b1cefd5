"""Lists of many histories -> batches of questions and texts, padded; a batch is of one history.

What a question has to be told apart from is the rest of its own history: the other questions' answers, and of each
list one change that looks like the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.encoders.cross_encoder import FIRST, LAST
from pipeline.training.mine_pairs import Kind
from pipeline.training.pair_dataset import History, Ints

QUESTIONS: Final = 32
QUESTION_TOKENS: Final = 40
# Half of what is read in the end: what a change is about stands at its beginning.
TEXT_TOKENS: Final = 112
# About what an index shows of a message; of the message a sentence was taken from, the subject.
MESSAGE_TOKENS: Final = 64
SUBJECT_TOKENS: Final = 14


@dataclass(frozen=True, slots=True, eq=False)
class Padded:
    """Tokens of so many texts, a line each, and how many of a line are the text's."""

    tokens: Ints
    lengths: Ints

    @classmethod
    def of(cls, lines: Sequence[Sequence[int]]) -> Padded:
        """Lines side by side."""
        lengths = np.array([len(line) for line in lines])
        tokens = np.zeros((len(lines), lengths.max()), np.int64)
        for row, line in enumerate(lines):
            tokens[row, : len(line)] = line
        return cls(tokens, lengths)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Questions, and texts: their answers in the same order, then one other of each.

    `apart`: questions by texts, which are of the question's own commit and not its answer.
    """

    questions: Padded
    texts: Padded
    apart: npt.NDArray[np.bool_]


def batches(histories: Sequence[History], chance: np.random.Generator) -> Iterator[Batch]:
    """Every list once a pass, pass after pass, but for the last few of each history."""
    if not any(len(history) >= QUESTIONS for history in histories):
        return
    while True:
        parts = [
            (history, places) for history in histories for places in _parts(chance.permutation(len(history)))
        ]
        for number in chance.permutation(len(parts)):
            history, places = parts[number]
            yield batch(history, places, chance)


def _parts(places: Ints) -> Iterator[Ints]:
    for start in range(0, len(places) - QUESTIONS + 1, QUESTIONS):
        yield places[start : start + QUESTIONS]


def batch(history: History, places: Ints, chance: np.random.Generator) -> Batch:
    """One of some lists."""
    questions, answers, others = [], [], []
    for place in places.tolist():
        answer, *rest = history.candidates(place).tolist()
        other = rest[int(chance.integers(len(rest)))]
        shown = history.shown(place, chance)
        questions.append(question(history, place, chance))
        answers.append((answer, text(history, place, answer, shown=shown)))
        others.append((other, text(history, place, other, shown=shown)))
    changes, texts = zip(*answers, *others, strict=True)
    commits = np.array([history.commit(change) for change in changes])
    apart = commits[: len(places), None] == commits[None]
    np.fill_diagonal(apart, val=False)
    return Batch(Padded.of(questions), Padded.of(texts), apart)


def question(history: History, place: int, chance: np.random.Generator | None) -> list[int]:
    """The tokens of what is asked, between the encoder's marks."""
    return [FIRST, *history.question(place, chance)[:QUESTION_TOKENS], LAST]


def text(history: History, place: int, change: int, *, shown: bool) -> list[int]:
    """The tokens of a candidate, as the encoder reads a hunk: message, then change."""
    most = SUBJECT_TOKENS if history.kind(place) is Kind.SENTENCE else MESSAGE_TOKENS
    message = history.message(place, change)[:most] if shown else []
    return [FIRST, *(message + history.change(change))[: TEXT_TOKENS - 2], LAST]
