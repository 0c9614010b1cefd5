"""Ranges of commits in requests: their commits, and how many of them an index has.

A search with a range returns only commits of the range, including those that HEAD does not reach. But the scores are
computed from all commits that are reachable from HEAD or in the range.
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
    """Number of commits in a range, and how many of them the index lacks.

    - `text`: the range as the user wrote it.
    - `commits`: number of commits in the range.
    - `unindexed`: number of these commits that the index lacks.
    - `outside_head`: number of unindexed commits that HEAD does not reach.
    - `references`: branches and tags in `text` that point to an unindexed commit that HEAD does not reach.
    """

    text: str
    commits: int
    unindexed: int = 0
    outside_head: int = 0
    references: tuple[str, ...] = ()

    def describe(self) -> Iterator[str]:
        """Yield a hint if the range is empty, or if the index lacks some of its commits."""
        name = escape_in_sentence(self.text)
        if not self.commits:
            yield f"The range {name} has no commits."
        elif self.unindexed:
            if self.commits == 1:
                subject = f"The commit in {name}"
            else:
                subject = f"Of the {format_commit_count(self.commits)} in {name}, {self.unindexed:,}"
            verb = "is" if self.unindexed == 1 else "are"
            yield f"{subject} {verb} not indexed{self._describe_remedy()}"

    def _describe_remedy(self) -> str:
        """Return the end of the hint about unindexed commits: the command that indexes them, or what prevents it."""
        options = [word for name in self.references for word in ("--branch", name)]
        if options and (command := quote_command("lineage", "index", *options)):
            return f": run {command}."
        if self.outside_head:
            if self.outside_head < self.unindexed:
                unreached = f"{self.outside_head:,} of them"
            elif self.unindexed == 1:
                unreached = "it"
            else:
                unreached = "them"
            return (
                f": neither HEAD nor an indexed branch reaches {unreached}. "
                "`lineage index --branch PATTERN` adds branches."
            )
        return ": run `lineage index --incremental`."


def resolve_range(repository: Repository, git: GitProgram, text: str | None) -> CommitRange | None:
    """Return a request's range with its commits; None if the request has no range. Raises BadRequest."""
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
    together with all commits that they reach; None is ignored. A commit that changes only ignored files has no rows.
    Therefore a commit without rows is unindexed only if no tip reaches it.
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
        for name in ranges.list_positive_revisions(text)
        if name in known_names and _resolve_commit(repository, name) in outside
    )
    return RangeCoverage(text, len(commits), len(unindexed), len(outside), references)


def _resolve_commit(repository: Repository, name: str) -> str | None:
    """Return the commit that a branch or tag points to; None if it points to another object."""
    with suppress(UnreadableObject):  # git accepts a tag of a tree in a range
        return repository.resolve_revision(name)
    return None
