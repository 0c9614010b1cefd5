"""Questions written by hand: what a coding agent would ask of a history, and how well which commits answer.

A file `questions/<history>.toml` names the history by its root commit and the `head` its answers were looked for at,
so that commits made since change nothing. Each question has a `text`, a `kind` and `answers`, each answer a full sha,
a grade (3 the precedent, 2 a good one, 1 touches it) and why, in words of our own; `dismissed` are the beginnings of
other commits that were looked at, because some system brought them, and answer nothing. Questions of the kind `none`
ask for what the history does not have: no answer is right, and they measure only whether a system knows that.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from tests.bench.programs import Failed, git
from tests.eval.question import Question

BEGINNING: Final = 10
FOLDER: Final = Path(__file__).parent / "questions"

Sha = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{40}$")]
Beginning = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{10}$")]
Words = Annotated[str, msgspec.Meta(min_length=3)]
Kind = Literal["implementation", "bug fix", "api", "configuration", "none"]


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A commit, its grade, and why it has that grade."""

    sha: Sha
    grade: Annotated[int, msgspec.Meta(ge=1, le=3)]
    why: Words


class Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One question."""

    text: Words
    kind: Kind
    answers: tuple[Answer, ...] = ()
    dismissed: tuple[Beginning, ...] = ()

    @property
    def question(self) -> Question:
        return Question(self.text, {answer.sha: answer.grade for answer in self.answers})

    def judged(self, one: Callable[[str], str]) -> frozenset[str]:
        """Beginnings of the commits somebody looked at; `one` is the commit that a near-identical one counts as."""
        return frozenset((*self.dismissed, *(one(answer.sha)[:BEGINNING] for answer in self.answers)))


class Sheet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The questions of one history: `language` is what most of it is written in."""

    history: Words
    language: Words
    root: Sha
    head: Sha
    questions: tuple[Written, ...]


def sheets(folder: Path | None = None) -> dict[str, Sheet]:
    """Every sheet of a folder, FOLDER unless another is given, by its file's name."""
    return {path.stem: sheet(path) for path in sorted((folder or FOLDER).glob("*.toml"))}


def sheet(path: Path) -> Sheet:
    """A sheet read and checked."""
    return msgspec.toml.decode(path.read_bytes(), type=Sheet)


def sheet_of(clone: Path, folder: Path | None = None) -> Sheet | None:
    """The sheet for a clone's history, whatever its folder is called; None where nobody wrote one."""
    roots = set(git(clone, "rev-list", "--max-parents=0", "HEAD").split())
    written = sheets(folder).values()
    return next((sheet for sheet in written if sheet.root in roots and _has(clone, sheet)), None)


def _has(clone: Path, sheet: Sheet) -> bool:
    try:
        git(clone, "merge-base", "--is-ancestor", sheet.head, "HEAD")
    except Failed as error:
        raise Failed(f"{clone} has no commit {sheet.head}: fetch {sheet.history} anew") from error
    return True
