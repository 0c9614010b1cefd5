"""Training batches of the cross-encoder: padded (query, candidate) pairs.

Input of a list of candidates: one pair for each, the answer's first. Segment 0 is the query, segment 1 the candidate.
"""

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

# Most tokens of a pair. Fewer than at query time saves an eighth of the time; the ends of long changes matter little.
TRAINED_TOKENS: Final = 112
# Most message tokens if the query is a sentence of it: about a subject line, so that the next sentence is no answer.
SUBJECT_TOKENS: Final = 14
# Negatives per list in training; the evaluation uses all of them.
NEGATIVES: Final = 5


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Padded rows of token ids, one per candidate, list by list with the answer first.

    `segment_ids`: 1 for tokens of the candidate, else 0. `lengths`: number of tokens of each row. `lane_scores`: shape
    (lists, candidates, 2), as in `PairDataset`.
    """

    tokens: Ints
    segment_ids: Ints
    lengths: Ints
    lane_scores: Floats


class CandidateLists:
    """Candidate lists of several files written by `pipeline.training.mine_pairs`.

    `list_ids`: a row (file index, index in the file) for each list.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._datasets = [PairDataset.read(file) for file in files]
        counts = [len(dataset) for dataset in self._datasets]
        file_indices = np.repeat(np.arange(len(counts)), counts)
        self.list_ids = np.stack(
            [file_indices, np.concatenate([np.arange(count) for count in counts])], axis=1
        )

    def get_kind(self, list_id: Ints) -> QueryKind:
        """Return the kind of a list's query."""
        return self._datasets[list_id[0]].get_kind(list_id[1])

    def build_pairs(
        self, list_ids: Ints, generator: np.random.Generator | None, hard_share: float = 1.0
    ) -> Pairs:
        """Build the pairs of some lists.

        With a generator, vary the texts and sample NEGATIVES negatives: hard ones in a share of the lists, random ones
        without lane scores in the others. Without a generator, use all hard negatives.
        """
        token_rows: list[tuple[list[int], int]] = []
        lane_scores = []
        for list_id in list_ids:
            dataset, index = self._datasets[list_id[0]], int(list_id[1])
            candidates, candidate_scores = _select_candidates(dataset, index, generator, hard_share)
            token_rows += _iter_token_rows(dataset, index, candidates, generator)
            lane_scores.append(candidate_scores)
        lengths = np.array([len(ids) for ids, _ in token_rows])
        tokens, segment_ids = np.zeros((2, len(token_rows), lengths.max()), np.int64)
        for row, (ids, text_start) in enumerate(token_rows):
            tokens[row, : len(ids)] = ids
            segment_ids[row, text_start : len(ids)] = 1
        return Pairs(tokens, segment_ids, lengths, np.stack(lane_scores))


def _select_candidates(
    dataset: PairDataset, index: int, generator: np.random.Generator | None, hard_share: float
) -> tuple[list[int], Floats]:
    """Return the numbers of a list's changes, the answer first, and their lane scores."""
    changes, lane_scores = dataset.get_candidates(index), dataset.get_lane_scores(index)
    if generator is None:
        return changes.tolist(), lane_scores
    if generator.random() >= hard_share:
        negatives = generator.integers(0, dataset.change_count, NEGATIVES)
        return [int(changes[0]), *negatives.tolist()], np.zeros((NEGATIVES + 1, 2), np.float32)
    ranks = [0, *(1 + generator.permutation(len(changes) - 1)[:NEGATIVES]).tolist()]
    return changes[ranks].tolist(), lane_scores[ranks]


def _iter_token_rows(
    dataset: PairDataset, index: int, changes: Sequence[int], generator: np.random.Generator | None
) -> Iterator[tuple[list[int], int]]:
    """Yield the token ids of each change's pair, and the offset of the change in it."""
    question = dataset.draw_query_tokens(index, generator)[:MAX_QUESTION_TOKENS]
    show_messages = dataset.shows_messages(index, generator)
    is_sentence = dataset.get_kind(index) is QueryKind.SENTENCE
    max_message_tokens = SUBJECT_TOKENS if is_sentence else MAX_MESSAGE_TOKENS
    max_text_tokens = TRAINED_TOKENS - SPECIAL_TOKENS - len(question)
    for change in changes:
        message = dataset.get_message_tokens(index, change)[:max_message_tokens] if show_messages else []
        text = (message + dataset.get_change_tokens(change))[:max_text_tokens]
        yield [CLS_TOKEN, *question, SEP_TOKEN, CLS_TOKEN, *text, SEP_TOKEN], len(question) + 2
