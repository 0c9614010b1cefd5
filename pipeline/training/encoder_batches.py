"""Training batches of the encoder: padded queries and texts, each batch from one repository.

The negatives of a query come from its own repository: the answers of the other queries, and for each list one hard
negative, a change that retrieval ranks high by mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.encoders.cross_encoder import CLS_TOKEN, SEP_TOKEN
from pipeline.training.mine_pairs import QueryKind
from pipeline.training.pair_dataset import Ints, PairDataset

QUERIES_PER_BATCH: Final = 32
# Most tokens of a query.
QUERY_TOKENS: Final = 40
# Most tokens of a text: half of those at query time, since the beginning of a change shows its topic.
TEXT_TOKENS: Final = 112
# Most tokens of a message: about as many as an index embeds; about a subject line if the query is a sentence of it.
MESSAGE_TOKENS: Final = 64
SUBJECT_TOKENS: Final = 14


@dataclass(frozen=True, slots=True, eq=False)
class PaddedTokens:
    """Rows of token ids padded with zeros to the same length, and the length of each."""

    tokens: Ints
    lengths: Ints

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[int]]) -> PaddedTokens:
        """Pad the rows."""
        lengths = np.array([len(ids) for ids in rows])
        tokens = np.zeros((len(rows), lengths.max()), np.int64)
        for row, ids in enumerate(rows):
            tokens[row, : len(ids)] = ids
        return cls(tokens, lengths)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Queries and texts: the answers in the order of the queries, then one hard negative for each query.

    `excluded`, of shape (queries, texts), marks texts of the query's own commit other than its answer.
    """

    queries: PaddedTokens
    texts: PaddedTokens
    excluded: npt.NDArray[np.bool_]


def iterate_batches(datasets: Sequence[PairDataset], generator: np.random.Generator) -> Iterator[Batch]:
    """Yield batches forever; each epoch uses every list once, except an incomplete last batch per repository."""
    if not any(len(dataset) >= QUERIES_PER_BATCH for dataset in datasets):
        return
    while True:
        batch_indices = [
            (dataset, indices)
            for dataset in datasets
            for indices in _iter_full_batches(generator.permutation(len(dataset)))
        ]
        for number in generator.permutation(len(batch_indices)):
            dataset, indices = batch_indices[number]
            yield build_batch(dataset, indices, generator)


def _iter_full_batches(indices: Ints) -> Iterator[Ints]:
    for start in range(0, len(indices) - QUERIES_PER_BATCH + 1, QUERIES_PER_BATCH):
        yield indices[start : start + QUERIES_PER_BATCH]


def build_batch(dataset: PairDataset, indices: Ints, generator: np.random.Generator) -> Batch:
    """Build the batch of the lists at these indices."""
    queries, answers, negatives = [], [], []
    for index in indices.tolist():
        answer, *candidates = dataset.get_candidates(index).tolist()
        negative = candidates[int(generator.integers(len(candidates)))]
        show_messages = dataset.shows_messages(index, generator)
        queries.append(build_query_tokens(dataset, index, generator))
        answers.append((answer, build_text_tokens(dataset, index, answer, show_message=show_messages)))
        negatives.append((negative, build_text_tokens(dataset, index, negative, show_message=show_messages)))
    changes, texts = zip(*answers, *negatives, strict=True)
    commits = np.array([dataset.get_commit(change) for change in changes])
    excluded = commits[: len(indices), None] == commits[None]
    np.fill_diagonal(excluded, val=False)
    return Batch(PaddedTokens.from_rows(queries), PaddedTokens.from_rows(texts), excluded)


def build_query_tokens(dataset: PairDataset, index: int, generator: np.random.Generator | None) -> list[int]:
    """Return the token ids of a query, between [CLS] and [SEP]."""
    return [CLS_TOKEN, *dataset.draw_query_tokens(index, generator)[:QUERY_TOKENS], SEP_TOKEN]


def build_text_tokens(dataset: PairDataset, index: int, change: int, *, show_message: bool) -> list[int]:
    """Return the token ids of a candidate, between [CLS] and [SEP]: message, then change, as in an index."""
    max_message_tokens = SUBJECT_TOKENS if dataset.get_kind(index) is QueryKind.SENTENCE else MESSAGE_TOKENS
    message = dataset.get_message_tokens(index, change)[:max_message_tokens] if show_message else []
    return [CLS_TOKEN, *(message + dataset.get_change_tokens(change))[: TEXT_TOKENS - 2], SEP_TOKEN]
