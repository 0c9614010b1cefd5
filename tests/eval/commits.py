"""Commits of a repository, read with `git log`, and groups of near-duplicate commits.

Two commits are near-duplicates if they have the same `git patch-id` (backports, cherry-picks), or the same subject
and the same paths. The relation is transitive. The oldest commit of a group represents it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from tests.bench.programs import ProgramFailed, run_git
from tests.eval.judgments import JudgedQuery
from tests.repos import build_environment

# Control characters separate entries and fields, because messages contain line breaks.
_ENTRY: Final = "\x01"
_FIELD: Final = "\x02"
_FORMAT: Final = "--format=%x01%H%x02%P%x02%s%x02%b%x02"


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit with its message and changed paths (none for a merge)."""

    sha: str
    parents: tuple[str, ...]
    subject: str
    body: str
    paths: tuple[str, ...]


def read_commits(repository: Path) -> Iterator[Commit]:
    """Yield every commit that HEAD reaches, oldest first."""
    log = ("log", "--reverse", "--no-renames", "--name-only", _FORMAT, "HEAD")
    for entry in run_git(repository, "-c", "core.quotePath=off", *log).split(_ENTRY)[1:]:
        fields = entry.split(_FIELD)
        if len(fields) == 5:
            sha, parents, subject, body, paths = fields
            yield Commit(sha, tuple(parents.split()), subject, body, tuple(paths.strip("\n").splitlines()))


@dataclass(frozen=True, slots=True)
class DuplicateGroups:
    """Groups of near-duplicate commits: `canonical` maps every commit but the oldest of a group to the oldest."""

    canonical: Mapping[str, str]

    @classmethod
    def from_commits(cls, commits: Sequence[Commit], patch_ids: Mapping[str, str]) -> DuplicateGroups:
        """Group the commits, given oldest first. `patch_ids` maps commits to their patch-id."""
        groups = _UnionFind()
        for commit in commits:
            if commit.paths:
                groups.add(commit.sha, ("message", commit.subject, *sorted(commit.paths)))
            if commit.sha in patch_ids:
                groups.add(commit.sha, ("patch", patch_ids[commit.sha]))
        return cls(groups.map_to_canonical())

    def get_canonical_sha(self, sha: str) -> str:
        """Return the oldest commit of the commit's group."""
        return self.canonical.get(sha, sha)

    def merge_judgments(self, query: JudgedQuery) -> JudgedQuery:
        """Return the query with one judgment for each group: the best grade."""
        grades: dict[str, int] = {}
        for sha, grade in query.grades.items():
            canonical_sha = self.get_canonical_sha(sha)
            grades[canonical_sha] = max(grade, grades.get(canonical_sha, 0))
        return JudgedQuery(query.text, grades, query.kind)


class _UnionFind:
    """Disjoint sets of commits that share a key, directly or through other commits."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}
        self._first: dict[tuple[str, ...], str] = {}
        self._age: dict[str, int] = {}

    def add(self, sha: str, key: tuple[str, ...]) -> None:
        """Join the commit with the others that have this key."""
        self._age.setdefault(sha, len(self._age))
        roots = self._find_root(sha), self._find_root(self._first.setdefault(key, sha))
        older, younger = sorted(roots, key=self._age.__getitem__)
        if older != younger:
            self._parent[younger] = older

    def map_to_canonical(self) -> dict[str, str]:
        """Map every commit that is not the oldest of its set to the oldest."""
        roots = {sha: self._find_root(sha) for sha in self._age}
        return {sha: root for sha, root in roots.items() if sha != root}

    def _find_root(self, sha: str) -> str:
        while sha in self._parent:
            sha = self._parent[sha]
        return sha


def read_patch_ids(repository: Path) -> dict[str, str]:
    """Return the patch-id of every commit that HEAD reaches and that changes lines."""
    log = ("log", "--no-merges", "--no-color", "--no-ext-diff", "--no-textconv", "--patch", "HEAD")
    with (
        _start_git(repository, log, stdin=subprocess.DEVNULL) as diffs,
        _start_git(repository, ("patch-id", "--stable"), stdin=diffs.stdout) as patch_ids,
    ):
        assert diffs.stdout and patch_ids.stdout
        diffs.stdout.close()  # so that `git log` ends if `git patch-id` ends early
        lines = patch_ids.stdout.read().decode().splitlines()
    if diffs.returncode or patch_ids.returncode:
        raise ProgramFailed(f"git could not compute the patch-ids of {repository}")
    return {sha: patch_id for patch_id, sha in map(str.split, lines)}


def _start_git(
    repository: Path, arguments: Sequence[str], stdin: IO[bytes] | int | None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["git", "-C", str(repository), *arguments],
        env=build_environment(),
        stdin=stdin,
        stdout=subprocess.PIPE,
    )
