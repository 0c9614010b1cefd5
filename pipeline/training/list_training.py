"""Training on mined lists: reader of the lists of one repository, batches of both networks, and the training loop.

A list, as written by `mine_lists`, is a query, the change that answers it and hard negatives: changes that retrieval
ranks high by mistake. A change is the diff of one file in one commit. A lane score of a change is the score that one
retriever, BM25 or vectors, gave it.

- Encoder: padded queries and texts, each batch from one repository. The negatives of a query are the answers of the
  other queries in the batch, and one hard negative from each list of the batch.
- Cross-encoder: padded (query, candidate) pairs, one for each candidate of a list, the pair with the answer first.
  Segment 0 is the query, segment 1 the candidate.
- Loop: arguments, learning rate, logging and checkpoints.

Methods that take a `generator` vary the training data at random. With None they return what an evaluation uses.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.encoders.cross_encoder import (
    CLS_TOKEN,
    MAX_MESSAGE_TOKENS,
    MAX_QUESTION_TOKENS,
    SEP_TOKEN,
    SPECIAL_TOKEN_COUNT,
)
from pipeline.training.mine_lists import QueryKind

logger = logging.getLogger(__name__)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

# Share of the subjects that get a question opening, because users' queries often start with one.
QUESTION_OPENING_SHARE: Final = 0.3
# Share of the lists whose candidates hide their messages. If the query is a subject, the candidates always hide them.
HIDDEN_MESSAGE_SHARE: Final = 0.2
# Token ids of "how did we", "how was", "where did we", "how to".
QUESTION_OPENINGS: Final = ((2129, 2106, 2057), (2129, 2001), (2073, 2106, 2057), (2129, 2000))

QUERIES_PER_BATCH: Final = 32
# Maximum number of tokens of a query.
QUERY_TOKENS: Final = 40
# Maximum number of tokens of a text: fewer than an index embeds, since the beginning of a change shows its topic.
TEXT_TOKENS: Final = 112
# Maximum number of tokens of a message: all that `mine_lists` stores.
MESSAGE_TOKENS: Final = 64
# Maximum number of tokens of a message, about a subject line, in lists whose query is a sentence of the message.
SUBJECT_TOKENS: Final = 14

# Maximum number of tokens of a pair in training. It is lower than at query time, to save an eighth of the time: the
# ends of long changes matter little.
TRAINING_PAIR_TOKENS: Final = 112
# Negatives per list in the training of the cross-encoder. The evaluation uses all negatives of a list.
TRAINING_NEGATIVES: Final = 5

# Smallest share of the maximum learning rate, so that the last steps still change the weights.
MIN_RATE_SHARE: Final = 0.02
# Number of equal parts of the training time, each of which ends with a checkpoint.
CHECKPOINT_COUNT: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class ListDataset:
    """Lists and changes of one repository. A list is identified by an index; changes, commits and queries by numbers.

    `arrays`: content of a file that `pipeline.training.mine_lists.write_lists` wrote.
    """

    arrays: Mapping[str, npt.NDArray[np.generic]]

    @classmethod
    def read(cls, file: Path) -> ListDataset:
        """Read a file written by `mine_lists`."""
        with np.load(file) as arrays:
            return cls(dict(arrays))

    def __len__(self) -> int:
        return len(self.arrays["query_numbers"])

    @property
    def change_count(self) -> int:
        """Number of changes."""
        return len(self.arrays["commit"])

    def get_kind(self, index: int) -> QueryKind:
        """Return the kind of a list's query."""
        return QueryKind(int(self.arrays["kinds"][self._get_query_number(index)]))

    def get_candidates(self, index: int) -> Ints:
        """Return the numbers of a list's changes, the answer first."""
        return np.asarray(self.arrays["lists"][index], np.int64)

    def get_lane_scores(self, index: int) -> Floats:
        """Return the lane scores of a list's changes: shape (candidates, 2), as in `mine_lists.CandidateList`."""
        return np.asarray(self.arrays["lane_scores"][index], np.float32)

    def get_commit(self, change: int) -> int:
        """Return the number of a change's commit."""
        return int(self.arrays["commit"][change])

    def draw_query_tokens(self, index: int, generator: np.random.Generator | None) -> list[int]:
        """Return the token ids of a query; with a generator, a subject sometimes gets a question opening."""
        query = self._get_tokens("query", self._get_query_number(index))
        if (
            generator is not None
            and self.get_kind(index) is QueryKind.SUBJECT
            and generator.random() < QUESTION_OPENING_SHARE
        ):
            return [*QUESTION_OPENINGS[int(generator.integers(len(QUESTION_OPENINGS)))], *query]
        return query

    def shows_messages(self, index: int, generator: np.random.Generator | None) -> bool:
        """Return whether a list's candidates show their messages. If the query is a subject, they never do."""
        if self.get_kind(index) is QueryKind.SUBJECT:
            return False
        return generator is None or generator.random() >= HIDDEN_MESSAGE_SHARE

    def get_message_tokens(self, index: int, change: int) -> list[int]:
        """Return the token ids of a candidate's message; for the answer, without the sentence that is the query."""
        if self.get_kind(index) is QueryKind.SENTENCE and change == self.get_candidates(index)[0]:
            return self._get_tokens("rest", self._get_query_number(index))
        return self._get_tokens("message", self.get_commit(change))

    def get_change_tokens(self, change: int) -> list[int]:
        """Return the token ids of a change without its message."""
        return self._get_tokens("change", change)

    def _get_query_number(self, index: int) -> int:
        return int(self.arrays["query_numbers"][index])

    def _get_tokens(self, name: str, number: int) -> list[int]:
        ends = self.arrays[f"{name} ends"]
        start = int(ends[number - 1]) if number else 0
        ids: list[int] = self.arrays[name][start : int(ends[number])].tolist()
        return ids


def split_files(folder: Path, held_out: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """Split the list files of a directory into training and held-out files; KeyError for an unknown name."""
    files_by_name = {file.stem: file for file in sorted(folder.glob("*.npz"))}
    held_out_files = [files_by_name.pop(name) for name in held_out]
    return list(files_by_name.values()), held_out_files


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

    `is_excluded`, of shape (queries, texts), is True for texts of the query's own commit other than its answer.
    """

    queries: PaddedTokens
    texts: PaddedTokens
    is_excluded: npt.NDArray[np.bool_]


def iterate_batches(datasets: Sequence[ListDataset], generator: np.random.Generator) -> Iterator[Batch]:
    """Yield batches forever. Each epoch uses every list once, except an incomplete last batch per repository.

    Yield nothing if no repository fills a batch.
    """
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


def build_batch(dataset: ListDataset, indices: Ints, generator: np.random.Generator) -> Batch:
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
    is_excluded = commits[: len(indices), None] == commits[None]
    np.fill_diagonal(is_excluded, val=False)
    return Batch(PaddedTokens.from_rows(queries), PaddedTokens.from_rows(texts), is_excluded)


def build_query_tokens(dataset: ListDataset, index: int, generator: np.random.Generator | None) -> list[int]:
    """Return the token ids of a query, between [CLS] and [SEP]."""
    return [CLS_TOKEN, *dataset.draw_query_tokens(index, generator)[:QUERY_TOKENS], SEP_TOKEN]


def build_text_tokens(dataset: ListDataset, index: int, change: int, *, show_message: bool) -> list[int]:
    """Return the token ids of a candidate, between [CLS] and [SEP]: message, then change, as in an index."""
    max_message_tokens = SUBJECT_TOKENS if dataset.get_kind(index) is QueryKind.SENTENCE else MESSAGE_TOKENS
    message = dataset.get_message_tokens(index, change)[:max_message_tokens] if show_message else []
    return [CLS_TOKEN, *(message + dataset.get_change_tokens(change))[: TEXT_TOKENS - 2], SEP_TOKEN]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Padded rows of token ids, one per candidate, list by list with the answer first.

    `segment_ids`: 1 for tokens of the candidate, else 0. `lengths`: number of tokens of each row. `lane_scores`: shape
    (lists, candidates, 2), as in `ListDataset`.
    """

    tokens: Ints
    segment_ids: Ints
    lengths: Ints
    lane_scores: Floats


class CandidateLists:
    """Candidate lists of several files written by `pipeline.training.mine_lists`.

    `list_ids`: a row (file index, index in the file) for each list.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._datasets = [ListDataset.read(file) for file in files]
        counts = [len(dataset) for dataset in self._datasets]
        file_indices = np.repeat(np.arange(len(counts)), counts)
        self.list_ids = np.stack(
            [file_indices, np.concatenate([np.arange(count) for count in counts])], axis=1
        )

    def get_kind(self, list_id: Ints) -> QueryKind:
        """Return the kind of a list's query."""
        dataset, index = self._find_list(list_id)
        return dataset.get_kind(index)

    def build_pairs(
        self, list_ids: Ints, generator: np.random.Generator | None, hard_share: float = 1.0
    ) -> Pairs:
        """Build the pairs of these lists.

        With a generator, vary the texts and sample TRAINING_NEGATIVES negatives: hard ones in `hard_share` of the
        lists, and random ones, without lane scores, in the other lists. With None, use all hard negatives.
        """
        token_rows: list[tuple[list[int], int]] = []
        lane_scores = []
        for list_id in list_ids:
            dataset, index = self._find_list(list_id)
            candidates, candidate_scores = _select_candidates(dataset, index, generator, hard_share)
            token_rows += _iter_token_rows(dataset, index, candidates, generator)
            lane_scores.append(candidate_scores)
        lengths = np.array([len(ids) for ids, _ in token_rows])
        tokens, segment_ids = np.zeros((2, len(token_rows), lengths.max()), np.int64)
        for row, (ids, text_start) in enumerate(token_rows):
            tokens[row, : len(ids)] = ids
            segment_ids[row, text_start : len(ids)] = 1
        return Pairs(tokens, segment_ids, lengths, np.stack(lane_scores))

    def _find_list(self, list_id: Ints) -> tuple[ListDataset, int]:
        """Return the dataset of a list, and its index there."""
        file_index, index = map(int, list_id)
        return self._datasets[file_index], index


def _select_candidates(
    dataset: ListDataset, index: int, generator: np.random.Generator | None, hard_share: float
) -> tuple[list[int], Floats]:
    """Return the numbers of a list's changes, the answer first, and their lane scores.

    `generator`, `hard_share`: as in `CandidateLists.build_pairs`.
    """
    changes, lane_scores = dataset.get_candidates(index), dataset.get_lane_scores(index)
    if generator is None:
        return changes.tolist(), lane_scores
    if generator.random() >= hard_share:
        negatives = generator.integers(0, dataset.change_count, TRAINING_NEGATIVES)
        no_scores = np.zeros((TRAINING_NEGATIVES + 1, 2), np.float32)
        return [int(changes[0]), *negatives.tolist()], no_scores
    ranks = [0, *(1 + generator.permutation(len(changes) - 1)[:TRAINING_NEGATIVES]).tolist()]
    return changes[ranks].tolist(), lane_scores[ranks]


def _iter_token_rows(
    dataset: ListDataset, index: int, changes: Sequence[int], generator: np.random.Generator | None
) -> Iterator[tuple[list[int], int]]:
    """Yield the token ids of each change's pair, and the index at which segment 1 starts."""
    query = dataset.draw_query_tokens(index, generator)[:MAX_QUESTION_TOKENS]
    show_messages = dataset.shows_messages(index, generator)
    is_sentence = dataset.get_kind(index) is QueryKind.SENTENCE
    max_message_tokens = SUBJECT_TOKENS if is_sentence else MAX_MESSAGE_TOKENS
    max_text_tokens = TRAINING_PAIR_TOKENS - SPECIAL_TOKEN_COUNT - len(query)
    for change in changes:
        message = dataset.get_message_tokens(index, change)[:max_message_tokens] if show_messages else []
        text = (message + dataset.get_change_tokens(change))[:max_text_tokens]
        yield [CLS_TOKEN, *query, SEP_TOKEN, CLS_TOKEN, *text, SEP_TOKEN], len(query) + 2


@dataclass(slots=True)
class Clock:
    """Clock of a training run: its duration in seconds, and its start on the monotonic clock."""

    seconds: float
    start_time: float = field(default_factory=time.monotonic)

    @property
    def elapsed_share(self) -> float:
        """Elapsed share of the training time: 0 at the start, 1 at the end, more after it."""
        return (time.monotonic() - self.start_time) / self.seconds


def compute_learning_rate_factor(step: int, warmup_steps: int, elapsed_share: float) -> float:
    """Return the factor of the maximum learning rate: a rise over the first steps, times a fall with elapsed time."""
    return min(1, (step + 1) / warmup_steps) * max(MIN_RATE_SHARE, 1 - elapsed_share)


class TrainingArgumentParser(argparse.ArgumentParser):
    """Argument parser of `train_networks`, the command that trains either network."""

    def __init__(self, description: str | None) -> None:
        super().__init__(
            prog="python -m pipeline.training.train_networks",
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.add_argument("network", choices=("encoder", "cross-encoder"))
        self.add_argument("lists", type=Path, metavar="LISTS")
        self.add_argument("out", type=Path, metavar="OUT")
        self.add_argument("--weights", type=Path, required=True, metavar="FOLDER")
        self.add_argument("--held-out", action="append", default=[], metavar="NAME")
        self.add_argument("--minutes", type=float, default=60.0)
        self.add_argument("--rate", type=float)
        self.add_argument("--seed", type=int, default=1)

    def select_files(self, arguments: argparse.Namespace) -> tuple[list[Path], list[Path]]:
        """Return the files to train on and the held-out files.

        Exit with a message if a held-out repository has no file, or if no file is left to train on.
        """
        try:
            training_files, held_out_files = split_files(arguments.lists, arguments.held_out)
        except KeyError as missing_name:
            self.error(
                f"{arguments.lists} has no lists of {missing_name}. "
                "Give `--held-out` the name of a list file without its extension."
            )
        if not training_files:
            self.error(
                f"{arguments.lists} has no training lists. Run `python -m pipeline.training.mine_lists` first."
            )
        return training_files, held_out_files

    def require_batch(self, list_count: int, batch_size: int) -> None:
        """Exit with a message if the lists do not fill one batch: the training would have no step."""
        if list_count < batch_size:
            self.error(
                f"{list_count} lists do not fill a batch of {batch_size}. "
                "Mine a longer history with `python -m pipeline.training.mine_lists`."
            )


def train_with_checkpoints(
    steps: Iterable[tuple[int, float]], clock: Clock, log_every: int, save_checkpoint: Callable[[], None]
) -> None:
    """Run all steps, and log their mean loss every `log_every` steps.

    Save a checkpoint after each quarter of the time and at the end. `steps` yields the number and loss of each step.
    """
    losses: list[float] = []
    next_checkpoint = 1
    for step, loss in steps:
        losses.append(loss)
        if (step + 1) % log_every == 0:
            logger.info("step %d: loss %.3f", step + 1, np.mean(losses[-log_every:]))
        if next_checkpoint < CHECKPOINT_COUNT and clock.elapsed_share > next_checkpoint / CHECKPOINT_COUNT:
            next_checkpoint += 1
            save_checkpoint()
    save_checkpoint()
