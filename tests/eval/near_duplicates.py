"""Near-identical commits count as one: backports, cherry-picks, the same change made again.

Two commits are twins when they make the same patch, wherever in its files (`git patch-id`), or when they have the
same subject and change the same paths. Kinship is passed on; a family stands under its oldest commit.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.bench.programs import Failed
from tests.eval.commits import Told
from tests.eval.question import Question
from tests.repos import environment


@dataclass(frozen=True, slots=True)
class Twins:
    """Commit -> the commit it counts as; those that are alone are not named."""

    counted: Mapping[str, str]

    @classmethod
    def of(cls, commits: Sequence[Told], patches: Mapping[str, str]) -> Twins:
        """The families of a history, oldest commit first; `patches` has the patch-id of those that have one."""
        families = _Families()
        for commit in commits:
            if commit.paths:
                families.meet(commit.sha, ("told", commit.subject, *sorted(commit.paths)))
            if commit.sha in patches:
                families.meet(commit.sha, ("patch", patches[commit.sha]))
        return cls(families.counted())

    def one(self, sha: str) -> str:
        """The commit this one counts as."""
        return self.counted.get(sha, sha)

    def asked(self, question: Question) -> Question:
        """The question with each family as one answer, at its best grade."""
        grades: dict[str, int] = {}
        for sha, grade in question.grades.items():
            grades[self.one(sha)] = max(grade, grades.get(self.one(sha), 0))
        return Question(question.text, grades)


class _Families:
    """Commits that share a mark, directly or through others."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}
        self._first: dict[tuple[str, ...], str] = {}
        self._age: dict[str, int] = {}

    def meet(self, sha: str, mark: tuple[str, ...]) -> None:
        self._age.setdefault(sha, len(self._age))
        one, other = self._root(sha), self._root(self._first.setdefault(mark, sha))
        older, younger = sorted((one, other), key=self._age.__getitem__)
        if older != younger:
            self._parent[younger] = older

    def counted(self) -> dict[str, str]:
        roots = {sha: self._root(sha) for sha in self._age}
        return {sha: root for sha, root in roots.items() if sha != root}

    def _root(self, sha: str) -> str:
        while sha in self._parent:
            sha = self._parent[sha]
        return sha


def patch_ids(repository: Path) -> dict[str, str]:
    """Commit -> patch-id, for all that HEAD reaches and that change lines; the diffs pass from git to git."""
    log = ("log", "--no-merges", "--no-color", "--no-ext-diff", "--no-textconv", "--patch", "HEAD")
    with (
        _git(repository, log, stdin=subprocess.DEVNULL) as told,
        _git(repository, ("patch-id", "--stable"), stdin=told.stdout) as read,
    ):
        assert told.stdout and read.stdout
        told.stdout.close()  # or git would write on after its reader is gone
        lines = read.stdout.read().decode().splitlines()
    if told.returncode or read.returncode:
        raise Failed(f"git could not tell the patches of {repository}")
    return {sha: patch for patch, sha in map(str.split, lines)}


def _git(
    repository: Path, arguments: Sequence[str], stdin: IO[bytes] | int | None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["git", "-C", str(repository), *arguments],
        env=environment(),
        stdin=stdin,
        stdout=subprocess.PIPE,
    )
