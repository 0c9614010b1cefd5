"""Reader of the training lists of one repository, as written by `mine_pairs`.

A list is a query, the change that answers it and hard negatives: changes that retrieval ranks high by mistake. A change
is the diff of one file in one commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.training.mine_pairs import QueryKind

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

# Share of subjects that start like a question, as those of users do, and of lists that hide the messages.
QUESTION_OPENING_SHARE: Final = 0.3
HIDDEN_MESSAGE_SHARE: Final = 0.2
# Token ids of "how did we", "how was", "where did we", "how to".
QUESTION_OPENINGS: Final = ((2129, 2106, 2057), (2129, 2001), (2073, 2106, 2057), (2129, 2000))


@dataclass(frozen=True, slots=True, eq=False)
class PairDataset:
    """Lists of one repository by index, and its changes by number. `arrays`: content of the file."""

    arrays: Mapping[str, npt.NDArray[np.generic]]

    @classmethod
    def read(cls, file: Path) -> PairDataset:
        """Read a file written by `mine_pairs`."""
        with np.load(file) as arrays:
            return cls(dict(arrays))

    def __len__(self) -> int:
        return len(self.arrays["asked"])

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
        """Return the lane scores of a list's changes: shape (candidates, 2), BM25 share and cosine."""
        return np.asarray(self.arrays["known"][index], np.float32)

    def get_commit(self, change: int) -> int:
        """Return the number of a change's commit."""
        return int(self.arrays["commit"][change])

    def draw_query_tokens(self, index: int, generator: np.random.Generator | None) -> list[int]:
        """Return the token ids of a query; with a generator, a subject sometimes gets a question opening."""
        question = self._get_tokens("question", self._get_query_number(index))
        if (
            generator is not None
            and self.get_kind(index) is QueryKind.SUBJECT
            and generator.random() < QUESTION_OPENING_SHARE
        ):
            return [*QUESTION_OPENINGS[int(generator.integers(len(QUESTION_OPENINGS)))], *question]
        return question

    def shows_messages(self, index: int, generator: np.random.Generator | None) -> bool:
        """Check whether a list's candidates show their messages: never for a subject; with a generator, not always."""
        if self.get_kind(index) is QueryKind.SUBJECT:
            return False
        return generator is None or generator.random() >= HIDDEN_MESSAGE_SHARE

    def get_message_tokens(self, index: int, change: int) -> list[int]:
        """Return the token ids of a candidate's message; the answer's lacks the sentence that is the query."""
        if self.get_kind(index) is QueryKind.SENTENCE and change == self.get_candidates(index)[0]:
            return self._get_tokens("rest", self._get_query_number(index))
        return self._get_tokens("message", self.get_commit(change))

    def get_change_tokens(self, change: int) -> list[int]:
        """Return the token ids of a change without its message."""
        return self._get_tokens("change", change)

    def _get_query_number(self, index: int) -> int:
        return int(self.arrays["asked"][index])

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
