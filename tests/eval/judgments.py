"""Queries with relevance judgments, and the query sheets written by hand.

A sheet is a TOML file in `questions/` (holdout) or `development/` (for tuning). It names a repository by its root
commit. Its commits were judged at `head`, so that later commits change nothing. Each query has:

- `text` and `kind`; queries of the kind `none` ask for something that the repository does not contain
- `answers`: the full sha of a commit, its grade (3 highly relevant, 2 relevant, 1 partially relevant) and the reason
- `dismissed`: sha prefixes of commits that were judged irrelevant
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from tests.bench.programs import ProgramFailed, run_git

HIGHLY_RELEVANT: Final = 3
RELEVANT: Final = 2

SHA_PREFIX_LENGTH: Final = 10
SHEETS_FOLDER: Final = Path(__file__).parent / "questions"
DEVELOPMENT_FOLDER: Final = Path(__file__).parent / "development"
# Of the queries for development, every third is kept for the final comparison.
HELD_OUT_STEP: Final = 3

Sha = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{40}$")]
ShaPrefix = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{10}$")]
Text = Annotated[str, msgspec.Meta(min_length=3)]
Kind = Literal[
    "implementation", "bug fix", "api", "configuration", "origin", "removal", "reason", "paraphrase", "none"
]


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """Query text and its relevance judgments: grade by commit sha. Without judgments, the repository has no answer."""

    text: str
    grades: Mapping[str, int]
    kind: str = ""

    @classmethod
    def with_relevant(cls, text: str, shas: Iterable[str]) -> JudgedQuery:
        """Return a query for which each of these commits is highly relevant."""
        return cls(text, dict.fromkeys(sorted(shas), HIGHLY_RELEVANT))

    @property
    def relevant(self) -> frozenset[str]:
        """Commits with grade 2 or 3. A commit with grade 1 counts only for nDCG."""
        return frozenset(sha for sha, grade in self.grades.items() if grade >= RELEVANT)


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Commit, its grade and the reason for the grade."""

    sha: Sha
    grade: Annotated[int, msgspec.Meta(ge=1, le=3)]
    why: Text


class HandwrittenQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Query of a sheet."""

    text: Text
    kind: Kind
    answers: tuple[Answer, ...] = ()
    dismissed: tuple[ShaPrefix, ...] = ()

    @property
    def query(self) -> JudgedQuery:
        """The text and its grades."""
        return JudgedQuery(self.text, {answer.sha: answer.grade for answer in self.answers}, self.kind)

    def list_judged(self, canonical_sha: Callable[[str], str]) -> frozenset[str]:
        """Return the sha prefixes of all judged commits.

        `canonical_sha` maps a commit to the oldest of its near-duplicates.
        """
        answers = (canonical_sha(answer.sha)[:SHA_PREFIX_LENGTH] for answer in self.answers)
        return frozenset((*self.dismissed, *answers))


class QuerySheet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Queries about one repository. `language` is its main programming language."""

    history: Text
    language: Text
    root: Sha
    head: Sha
    questions: tuple[HandwrittenQuery, ...]


def load_sheets(folder: Path | None = None) -> dict[str, QuerySheet]:
    """Load all sheets of a folder (default: SHEETS_FOLDER) by file name without extension."""
    return {path.stem: load_sheet(path) for path in sorted((folder or SHEETS_FOLDER).glob("*.toml"))}


def load_sheet(path: Path) -> QuerySheet:
    """Load and validate a sheet. Raises `msgspec.ValidationError`."""
    return msgspec.toml.decode(path.read_bytes(), type=QuerySheet)


def find_sheet(clone: Path, folder: Path | None = None) -> QuerySheet | None:
    """Return the sheet whose root commit the clone contains, or None.

    Raises `ProgramFailed` if the clone does not contain the commit that the sheet was judged at.
    """
    roots = set(run_git(clone, "rev-list", "--max-parents=0", "HEAD").split())
    sheet = next((sheet for sheet in load_sheets(folder).values() if sheet.root in roots), None)
    if sheet:
        _check_head(clone, sheet)
    return sheet


def _check_head(clone: Path, sheet: QuerySheet) -> None:
    try:
        run_git(clone, "merge-base", "--is-ancestor", sheet.head, "HEAD")
    except ProgramFailed as error:
        raise ProgramFailed(f"{clone} has no commit {sheet.head}. Fetch {sheet.history} again.") from error
