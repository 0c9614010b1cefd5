"""Training batches of the cross-encoder: padded (query, candidate) pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from pipeline.encoders.cross_encoder import (
    CLS_TOKEN,
    MAX_MESSAGE_TOKENS,
    MAX_QUESTION_TOKENS,
    SEP_TOKEN,
    SPECIAL_TOKENS,
)
from pipeline.training.mine_pairs import QueryKind
from pipeline.training.pair_dataset import Floats, Ints, PairDataset

# Shorter than at query time: saves an eighth of the time; the ends of long changes matter little.
TRAINED_TOKENS: Final = 112
# About a subject line: a body sentence must be found by subject and change, not by the next sentence.
SUBJECT_TOKENS: Final = 14
# Negatives per list while training; evaluation uses all of them.
NEGATIVES: Final = 5


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Padded token lines, one per candidate, list by list with the answer first; `sides` is 1 for candidate tokens.

    `lane_scores` has shape (lists, candidates, 2).
    """

    tokens: Ints
    sides: Ints
    lengths: Ints
    lane_scores: Floats


class CandidateLists:
    """Candidate lists of several files written by `pipeline.training.mine_pairs`; `numbers` has rows (file, list)."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._datasets = [PairDataset.read(file) for file in files]
        counts = [len(history) for history in self._datasets]
        history = np.repeat(np.arange(len(counts)), counts)
        self.numbers = np.stack([history, np.concatenate([np.arange(count) for count in counts])], axis=1)

    def kind(self, number: Ints) -> QueryKind:
        """Return the kind of a list's query."""
        return self._datasets[number[0]].kind(number[1])

    def build_pairs(
        self, numbers: Ints, generator: np.random.Generator | None, hard_share: float = 1.0
    ) -> Pairs:
        """Build the pairs of some lists.

        With a generator, vary them and use hard negatives in a share of the lists only.
        """
        lines: list[tuple[list[int], int]] = []
        lane_scores = []
        for number in numbers:
            history, place = self._datasets[number[0]], int(number[1])
            candidates, scores = _select_candidates(history, place, generator, hard_share)
            lines += _token_lines(history, place, candidates, generator)
            lane_scores.append(scores)
        lengths = np.array([len(line) for line, _ in lines])
        tokens, sides = np.zeros((2, len(lines), lengths.max()), np.int64)
        for row, (line, text_start) in enumerate(lines):
            tokens[row, : len(line)] = line
            sides[row, text_start : len(line)] = 1
        return Pairs(tokens, sides, lengths, np.stack(lane_scores))


def _select_candidates(
    dataset: PairDataset, place: int, generator: np.random.Generator | None, hard_share: float
) -> tuple[list[int], Floats]:
    line, lane_scores = dataset.candidates(place), dataset.lane_scores(place)
    if generator is None:
        return line.tolist(), lane_scores
    if generator.random() >= hard_share:
        others = generator.integers(0, dataset.change_count, NEGATIVES)
        return [int(line[0]), *others.tolist()], np.zeros((NEGATIVES + 1, 2), np.float32)
    selected = [0, *(1 + generator.permutation(len(line) - 1)[:NEGATIVES]).tolist()]
    return line[selected].tolist(), lane_scores[selected]


def _token_lines(
    dataset: PairDataset, place: int, candidates: Sequence[int], generator: np.random.Generator | None
) -> Iterator[tuple[list[int], int]]:
    question = dataset.query(place, generator)[:MAX_QUESTION_TOKENS]
    show_messages = dataset.shows_messages(place, generator)
    max_message_tokens = SUBJECT_TOKENS if dataset.kind(place) is QueryKind.SENTENCE else MAX_MESSAGE_TOKENS
    for change in candidates:
        message = dataset.message(place, change)[:max_message_tokens] if show_messages else []
        text = (message + dataset.change(change))[: TRAINED_TOKENS - SPECIAL_TOKENS - len(question)]
        yield [CLS_TOKEN, *question, SEP_TOKEN, CLS_TOKEN, *text, SEP_TOKEN], len(question) + 2
