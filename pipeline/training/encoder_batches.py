"""Training batches of the encoder: padded queries and texts, each batch from one repository.

The negatives of a query come from its own repository: the answers of the other queries, and for each
list one hard negative.
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
QUERY_TOKENS: Final = 40
# Half of the length at query time: the beginning of a change says what it is about.
TEXT_TOKENS: Final = 112
# About as much as an index embeds of a message; only the subject where the query is a sentence of it.
MESSAGE_TOKENS: Final = 64
SUBJECT_TOKENS: Final = 14


@dataclass(frozen=True, slots=True, eq=False)
class PaddedTokens:
    """Token lines padded with zeros to the same length, and the length of each."""

    tokens: Ints
    lengths: Ints

    @classmethod
    def from_lines(cls, lines: Sequence[Sequence[int]]) -> PaddedTokens:
        """Pad the lines."""
        lengths = np.array([len(line) for line in lines])
        tokens = np.zeros((len(lines), lengths.max()), np.int64)
        for row, line in enumerate(lines):
            tokens[row, : len(line)] = line
        return cls(tokens, lengths)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Queries and texts: the answers in the order of the queries, then one hard negative of each.

    `excluded`, of shape (queries, texts), marks texts of the query's own commit other than its answer.
    """

    queries: PaddedTokens
    texts: PaddedTokens
    excluded: npt.NDArray[np.bool_]


def iterate_batches(datasets: Sequence[PairDataset], generator: np.random.Generator) -> Iterator[Batch]:
    """Yield batches forever; each epoch uses every list once, except an incomplete last batch per repository."""
    if not any(len(history) >= QUERIES_PER_BATCH for history in datasets):
        return
    while True:
        parts = [
            (history, places)
            for history in datasets
            for places in _full_batches(generator.permutation(len(history)))
        ]
        for number in generator.permutation(len(parts)):
            history, places = parts[number]
            yield build_batch(history, places, generator)


def _full_batches(places: Ints) -> Iterator[Ints]:
    for start in range(0, len(places) - QUERIES_PER_BATCH + 1, QUERIES_PER_BATCH):
        yield places[start : start + QUERIES_PER_BATCH]


def build_batch(dataset: PairDataset, places: Ints, generator: np.random.Generator) -> Batch:
    """Build the batch of some lists."""
    queries, answers, others = [], [], []
    for place in places.tolist():
        answer, *rest = dataset.candidates(place).tolist()
        other = rest[int(generator.integers(len(rest)))]
        show_messages = dataset.shows_messages(place, generator)
        queries.append(query_tokens(dataset, place, generator))
        answers.append((answer, text_tokens(dataset, place, answer, show_message=show_messages)))
        others.append((other, text_tokens(dataset, place, other, show_message=show_messages)))
    changes, texts = zip(*answers, *others, strict=True)
    commits = np.array([dataset.commit(change) for change in changes])
    excluded = commits[: len(places), None] == commits[None]
    np.fill_diagonal(excluded, val=False)
    return Batch(PaddedTokens.from_lines(queries), PaddedTokens.from_lines(texts), excluded)


def query_tokens(dataset: PairDataset, place: int, generator: np.random.Generator | None) -> list[int]:
    """Return the tokens of a query with the start and end tokens."""
    return [CLS_TOKEN, *dataset.query(place, generator)[:QUERY_TOKENS], SEP_TOKEN]


def text_tokens(dataset: PairDataset, place: int, change: int, *, show_message: bool) -> list[int]:
    """Return the tokens of a candidate: message, then change, as in a semantic text."""
    max_message_tokens = SUBJECT_TOKENS if dataset.kind(place) is QueryKind.SENTENCE else MESSAGE_TOKENS
    message = dataset.message(place, change)[:max_message_tokens] if show_message else []
    return [CLS_TOKEN, *(message + dataset.change(change))[: TEXT_TOKENS - 2], SEP_TOKEN]
