"""The lists of one history, as `mine` left them: tokens of what is asked and of what might answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.training.mine_pairs import Kind

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

# How often a subject is asked as a question, and a question asked of changes without their messages.
ASKED: Final = 0.3
UNTOLD: Final = 0.2
# "how did we", "how was", "where did we", "how to", in the tokenizer's numbers.
OPENINGS: Final = ((2129, 2106, 2057), (2129, 2001), (2073, 2106, 2057), (2129, 2000))


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """A history's lists by their places, and its changes by their numbers."""

    arrays: Mapping[str, npt.NDArray[np.generic]]

    @classmethod
    def read(cls, file: Path) -> History:
        """What `mine` wrote."""
        with np.load(file) as kept:
            return cls(dict(kept))

    def __len__(self) -> int:
        return len(self.arrays["asked"])

    @property
    def changes(self) -> int:
        """How many there are."""
        return len(self.arrays["commit"])

    def kind(self, place: int) -> Kind:
        """What the question of a list is."""
        return Kind(int(self.arrays["kinds"][self._asked(place)]))

    def candidates(self, place: int) -> Ints:
        """The changes of a list, the answer first."""
        return np.asarray(self.arrays["lists"][place], np.int64)

    def known(self, place: int) -> Floats:
        """What the lanes know of each candidate: candidates by two."""
        return np.asarray(self.arrays["known"][place], np.float32)

    def commit(self, change: int) -> int:
        """The number of the commit that made a change."""
        return int(self.arrays["commit"][change])

    def question(self, place: int, chance: np.random.Generator | None) -> list[int]:
        """What is asked; with chance, a subject sometimes in the words of a question."""
        question = self._tokens("question", self._asked(place))
        if chance is not None and self.kind(place) is Kind.SUBJECT and chance.random() < ASKED:
            return [*OPENINGS[int(chance.integers(len(OPENINGS)))], *question]
        return question

    def shown(self, place: int, chance: np.random.Generator | None) -> bool:
        """Whether a list's candidates show their messages; with chance, not always."""
        told = self.kind(place) is not Kind.SUBJECT
        return told and not (chance is not None and chance.random() < UNTOLD)

    def message(self, place: int, change: int) -> list[int]:
        """What of a candidate's message may be shown: of the answer's not the sentence that is asked."""
        if self.kind(place) is Kind.SENTENCE and change == self.candidates(place)[0]:
            return self._tokens("rest", self._asked(place))
        return self._tokens("message", self.commit(change))

    def change(self, change: int) -> list[int]:
        """A change without its message."""
        return self._tokens("change", change)

    def _asked(self, place: int) -> int:
        return int(self.arrays["asked"][place])

    def _tokens(self, name: str, number: int) -> list[int]:
        ends = self.arrays[f"{name} ends"]
        start = int(ends[number - 1]) if number else 0
        tokens: list[int] = self.arrays[name][start : int(ends[number])].tolist()
        return tokens


def files(folder: Path, held_out: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """The files of lists to learn from, and those held out; a name that has none is a KeyError."""
    found = {file.stem: file for file in sorted(folder.glob("*.npz"))}
    held = [found.pop(name) for name in held_out]
    return list(found.values()), held
