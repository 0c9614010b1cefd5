"""Ranges of commits in requests: their commits, and how many of them an index has.

A search with a range returns only commits of the range, also those that HEAD does not reach. Its scores are computed
from all commits that HEAD reaches or the range has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from pipeline.git import ranges
from pipeline.git.errors import UnreadableObject
from pipeline.git.git_cli import GitProgram
from pipeline.git.ranges import BadRange
from pipeline.git.repository import Repository
from serve.errors import BadRequest
from serve.text import escape_in_sentence, format_commit_count, quote_command
from stores.filters import CommitRange


@dataclass(frozen=True, slots=True)
class RangeCoverage:
    """Numbers of commits of a range, and of those that the index lacks.

    - `text`: the range. `commits`: number of its commits.
    - `unindexed`: number of commits that are not indexed. `outside_head`: number of these that HEAD does not reach.
    - `references`: branches and tags of the range that point to an unindexed commit outside of HEAD.
    """

    text: str
    commits: int
    unindexed: int = 0
    outside_head: int = 0
    references: tuple[str, ...] = ()

    def describe(self) -> Iterator[str]:
        """Yield hints about an empty range and about commits that the index lacks."""
        name = escape_in_sentence(self.text)
        if not self.commits:
            yield f"The range {name} has no commits."
        elif self.unindexed:
            count, verb = format_commit_count(self.commits), "is" if self.unindexed == 1 else "are"
            subject = (
                f"The commit in {name}"
                if self.commits == 1
                else f"Of the {count} in {name}, {self.unindexed:,}"
            )
            yield f"{subject} {verb} not indexed{self._describe_remedy()}"

    def _describe_remedy(self) -> str:
        options = [word for name in self.references for word in ("--branch", name)]
        if options and (command := quote_command("lineage", "index", *options)):
            return f": run {command}."
        if self.outside_head:
            if self.outside_head < self.unindexed:
                unreached = f"{self.outside_head:,} of them"
            else:
                unreached = "it" if self.unindexed == 1 else "them"
            remedy = "`lineage index --branch PATTERN` adds branches."
            return f": neither HEAD nor an indexed branch reaches {unreached}. {remedy}"
        return ": run `lineage index --incremental`."


def resolve_range(repository: Repository, git: GitProgram, text: str | None) -> CommitRange | None:
    """Return the commits of a request's range; None without one. Raises BadRequest."""
    return None if text is None else CommitRange(text, frozenset(list_commits(repository, git, text)))


def list_commits(repository: Repository, git: GitProgram, text: str) -> tuple[str, ...]:
    """Return the commits of a range, newest first. Raises BadRequest."""
    try:
        return ranges.list_range(repository, git, text)
    except BadRange as error:
        raise BadRequest(error.message, hint=error.hint) from error


def compute_coverage(
    repository: Repository,
    git: GitProgram,
    commit_range: CommitRange,
    recorded_commits: Collection[str],
    indexed_tips: Iterable[str | None],
) -> RangeCoverage:
    """Return how much of the range the index has.

    `recorded_commits`: commits of the range that have rows in the index. `indexed_tips`: commits that were indexed
    with all commits that they reach. A commit that changes only ignored files has no rows, so a commit without rows is
    unindexed only if none of the tips reaches it.
    """
    text, commits = commit_range.text, commit_range.commits
    unrecorded = commits.difference(recorded_commits)
    if not unrecorded:
        return RangeCoverage(text, len(commits))
    unindexed = unrecorded & ranges.list_range_outside(repository, git, text, indexed_tips)
    if not unindexed:
        return RangeCoverage(text, len(commits))
    outside = unindexed & ranges.list_range_outside(repository, git, text, [repository.read_head()])
    known_names = set(repository.list_references()) if outside else set()
    references = tuple(
        name
        for name in ranges.list_included_names(text)
        if name in known_names and _resolve_commit(repository, name) in outside
    )
    return RangeCoverage(text, len(commits), len(unindexed), len(outside), references)


def _resolve_commit(repository: Repository, name: str) -> str | None:
    with suppress(UnreadableObject):  # git accepts a tag of a tree in a range
        return repository.resolve_revision(name)
    return None
