"""What people do today: `git log --grep`, once for each word of the question.

Commits that more of the words bring come first, and of these the newest, as `git log` lists them. Words match
anywhere and in any case, since that is how they are typed; words that every question has are not asked.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.bench.programs import git

NAME: Final = "git log --grep"

_WORD: Final = re.compile(r"[^\W_][\w.-]*[^\W_]")
_UNTELLING: Final = frozenset(
    re.findall(
        r"\w+",
        """
        a about all already also an and any anything are as at be been before but by can code commit could did do does
        done earlier ever example exist find for from get had has have history how i in instead into is it its last make
        made my not of on once one or our out over past place precedent previous previously should show so some somebody
        someone something somewhere that the their them then there they thing this those to up us use used using was way
        we were what when where whether which who why with without would you your
        """,
    )
)


@dataclass(frozen=True, slots=True)
class Grep:
    """A history that is asked so; each word's commits are looked up once."""

    repository: Path
    known: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def ask(self, question: str, limit: int) -> list[str]:
        """The commits of the best match, best first."""
        found: Counter[str] = Counter()
        places: dict[str, int] = {}
        for word in words_of(question):
            for place, sha in self._commits(word):
                found[sha] += 1
                places[sha] = place
        return sorted(found, key=lambda sha: (-found[sha], places[sha]))[:limit]

    def _commits(self, word: str) -> list[tuple[int, str]]:
        if not self.known:
            self.known[""] = self._log()
        if word not in self.known:
            self.known[word] = self._log("--regexp-ignore-case", "--fixed-strings", f"--grep={word}")
        having = frozenset(self.known[word])
        return [(place, sha) for place, sha in enumerate(self.known[""]) if sha in having]

    def _log(self, *options: str) -> tuple[str, ...]:
        return tuple(git(self.repository, "log", "--format=%H", *options, "HEAD").split())


def words_of(question: str) -> list[str]:
    """The words to look for, each once."""
    found = (match[0].lower() for match in _WORD.finditer(question))
    return [word for word in dict.fromkeys(found) if word not in _UNTELLING]
