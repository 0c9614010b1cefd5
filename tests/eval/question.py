"""What is asked, and which commits answer it how well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

# Grades of an answer. Where a protocol knows only right and wrong, right is the precedent.
PRECEDENT: Final = 3
GOOD: Final = 2
TOUCHES: Final = 1


@dataclass(frozen=True, slots=True)
class Question:
    """A text and its answers: commit -> grade. Without answers it asks for what the history does not have."""

    text: str
    grades: Mapping[str, int]

    @classmethod
    def answered(cls, text: str, commits: Iterable[str]) -> Question:
        """A question that each of these commits answers fully."""
        return cls(text, dict.fromkeys(sorted(commits), PRECEDENT))

    @property
    def answers(self) -> frozenset[str]:
        """The commits worth finding: what only touches the subject is none."""
        return frozenset(sha for sha, grade in self.grades.items() if grade >= GOOD)
