"""Reader of the training lists of one repository, as written by `mine_pairs`."""

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

# Share of subjects that get a question opening, and of lists whose messages are hidden.
QUESTION_OPENING_SHARE: Final = 0.3
HIDDEN_MESSAGE_SHARE: Final = 0.2
# Token ids of "how did we", "how was", "where did we", "how to".
QUESTION_OPENINGS: Final = ((2129, 2106, 2057), (2129, 2001), (2073, 2106, 2057), (2129, 2000))


@dataclass(frozen=True, slots=True, eq=False)
class PairDataset:
    """Lists of one repository by index (`place`), and its changes by number."""

    arrays: Mapping[str, npt.NDArray[np.generic]]

    @classmethod
    def read(cls, file: Path) -> PairDataset:
        """Read a file written by `mine_pairs`."""
        with np.load(file) as kept:
            return cls(dict(kept))

    def __len__(self) -> int:
        return len(self.arrays["asked"])

    @property
    def change_count(self) -> int:
        """Number of changes."""
        return len(self.arrays["commit"])

    def kind(self, place: int) -> QueryKind:
        """Return the kind of a list's query."""
        return QueryKind(int(self.arrays["kinds"][self._query_number(place)]))

    def candidates(self, place: int) -> Ints:
        """Return the change numbers of a list, the answer first."""
        return np.asarray(self.arrays["lists"][place], np.int64)

    def lane_scores(self, place: int) -> Floats:
        """Return the lane scores of a list, of shape (candidates, 2)."""
        return np.asarray(self.arrays["known"][place], np.float32)

    def commit(self, change: int) -> int:
        """Return the number of a change's commit."""
        return int(self.arrays["commit"][change])

    def query(self, place: int, chance: np.random.Generator | None) -> list[int]:
        """Return the token ids of a query; with a generator, a subject sometimes gets a question opening."""
        question = self._tokens("question", self._query_number(place))
        if (
            chance is not None
            and self.kind(place) is QueryKind.SUBJECT
            and chance.random() < QUESTION_OPENING_SHARE
        ):
            return [*QUESTION_OPENINGS[int(chance.integers(len(QUESTION_OPENINGS)))], *question]
        return question

    def shows_messages(self, place: int, chance: np.random.Generator | None) -> bool:
        """Decide whether a list's candidates show their messages; with a generator, sometimes not."""
        told = self.kind(place) is not QueryKind.SUBJECT
        return told and not (chance is not None and chance.random() < HIDDEN_MESSAGE_SHARE)

    def message(self, place: int, change: int) -> list[int]:
        """Return the token ids of a candidate's message, without the sentence that is the query."""
        if self.kind(place) is QueryKind.SENTENCE and change == self.candidates(place)[0]:
            return self._tokens("rest", self._query_number(place))
        return self._tokens("message", self.commit(change))

    def change(self, change: int) -> list[int]:
        """Return the token ids of a change without its message."""
        return self._tokens("change", change)

    def _query_number(self, place: int) -> int:
        return int(self.arrays["asked"][place])

    def _tokens(self, name: str, number: int) -> list[int]:
        ends = self.arrays[f"{name} ends"]
        start = int(ends[number - 1]) if number else 0
        tokens: list[int] = self.arrays[name][start : int(ends[number])].tolist()
        return tokens


def split_files(folder: Path, held_out: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """Split the list files of a directory into training and held-out files; KeyError for an unknown name."""
    files_by_name = {file.stem: file for file in sorted(folder.glob("*.npz"))}
    held_out_files = [files_by_name.pop(name) for name in held_out]
    return list(files_by_name.values()), held_out_files
