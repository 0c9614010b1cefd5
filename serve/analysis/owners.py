"""Owners of files: the authors of their surviving lines, and the authors of recent changes.

Surviving lines are committed lines that still exist. git blame finds the commit that wrote each of them. `.mailmap`
maps names and addresses. Authors with the same name or the same address are one person. Bots such as `dependabot` are
not owners; they are listed separately.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Final

import polars as pl

from pipeline.git.errors import UnreadableObject
from pipeline.git.git_cli import GitProgram, GitTimeout
from pipeline.git.objects import is_bot
from pipeline.git.repository import Repository
from serve.explain.blame import (
    BlamedLine,
    BlameFailure,
    BlameIgnoreRevs,
    RunningBlame,
    blame_revision,
    describe_blame_failure,
    describe_file_limitations,
    describe_line_limitations,
)
from serve.explain.target import Target, read_committed_target
from serve.related_types import Bot, Owner, RecentAuthor
from stores.errors import LineageError
from stores.frames import HistoryFrames

# Time limit for git blame of a file, or of all files of a directory together.
MAX_BLAME_SECONDS: Final = 4.0
# Extra time to recognise the binary files among the remaining files of a directory. Binary files are not counted.
MAX_BINARY_CHECK_SECONDS: Final = 1.0
# Commits are recent if they are at most this much older than the newest commit of the history.
RECENT_PERIOD: Final = timedelta(days=365)
# A commit that is this much older than the newest commit has half its weight.
HALF_LIFE: Final = timedelta(days=182)
# Arguments of git that print sha, name and address (after `.mailmap`) of the authors of the commits on stdin.
LOG_ARGUMENTS: Final = (
    "log",
    "--no-walk=unsorted",
    "--stdin",
    "-z",
    "--encoding=UTF-8",
    "--format=%H%n%aN%n%aE",
)


@dataclass(frozen=True, slots=True)
class Author:
    """Author of a commit, after `.mailmap`."""

    name: str
    email: str

    @property
    def keys(self) -> tuple[str, ...]:
        """Name and address in lower case. Authors who share one of these keys are the same person.

        Many people can have the address of a program (`noreply@...`) or a placeholder whose domain has no dot
        (`none@none`). So such an address is no key. An author with such an address and without a name gets the key
        `<address>`.
        """
        name, email = self.name.strip().casefold(), self.email.casefold()
        has_domain = "." in email.partition("@")[2]
        is_personal = has_domain and not email.startswith(("noreply@", "no-reply@"))
        keys = tuple(filter(None, (name, email if is_personal else "")))
        return keys or (f"<{email}>",)


@dataclass(frozen=True, slots=True)
class RecentCommit:
    """Recent commit that changes the requested files. Its `weight` falls with its age from 1 to 0.25.

    `lines`: number of added and removed lines.
    """

    commit_sha: str
    lines: int
    weight: float


@dataclass(frozen=True, slots=True)
class SurvivingLines:
    """Surviving lines of one or more files.

    `lines`: number of lines of each commit, by sha. `limitations`: sentences about lines that are not counted.
    """

    lines: Mapping[str, int]
    limitations: tuple[str, ...] = ()


class UnknownAuthors(LineageError):
    """Error for a commit whose author git cannot read."""


def count_surviving_lines(lines: Iterable[BlamedLine]) -> dict[str, int]:
    """Return the number of blamed lines of each commit, without uncommitted lines."""
    return dict(Counter(line.origin.commit_sha for line in lines if line.is_committed))


def read_surviving_lines(
    repository: Repository,
    git: GitProgram,
    target: Target,
    running_blame: RunningBlame | None,
    ignore_revs: BlameIgnoreRevs,
) -> SurvivingLines:
    """Return the surviving lines of a file. `running_blame`: None if the file has no lines."""
    limitations = tuple(describe_file_limitations(target, ignore_revs, repository, git))
    if running_blame is None:
        return SurvivingLines({}, limitations)
    try:
        result = running_blame.read(MAX_BLAME_SECONDS)
    except GitTimeout:
        sentence = (
            f"git blame did not finish within {MAX_BLAME_SECONDS:.0f} seconds, "
            "so the owners of the file are unknown."
        )
        return SurvivingLines({}, (*limitations, sentence))
    if isinstance(result, BlameFailure):
        return SurvivingLines({}, (*limitations, describe_blame_failure(result, repository)))
    line_limitations = describe_line_limitations(result.lines, repository)
    return SurvivingLines(count_surviving_lines(result.lines), (*limitations, *line_limitations))


def blame_directory(
    repository: Repository,
    git: GitProgram,
    head: str,
    blobs: Mapping[bytes, str],
    ignore_revs: BlameIgnoreRevs,
) -> SurvivingLines:
    """Return the surviving lines of files of the commit `head`.

    git blames the files in the order of `blobs`, for at most MAX_BLAME_SECONDS. `blobs`: blob of each file, by path.
    """
    deadline = time.monotonic() + MAX_BLAME_SECONDS
    counts: Counter[str] = Counter()
    text_files = blamed_files = failed_files = 0
    failure: BlameFailure | None = None
    for path, blob in blobs.items():
        text_files += 1
        if time.monotonic() > deadline + MAX_BINARY_CHECK_SECONDS:
            continue  # counted as text without a check
        try:
            target = read_committed_target(repository, head, path, blob)
            if target.content is None:  # binary
                text_files -= 1
                continue
            remaining_seconds = deadline - time.monotonic()
            if remaining_seconds <= 0:
                continue
            result = blame_revision(git, head, path, (), ignore_revs, remaining_seconds)
        except GitTimeout:
            continue
        except UnreadableObject:
            failed_files += 1
            continue
        if isinstance(result, BlameFailure):
            failure = failure or result
            failed_files += 1
        else:
            counts.update(count_surviving_lines(result.lines))
            blamed_files += 1
    reason = describe_blame_failure(failure, repository) if failure else ""
    limitations = (
        *_describe_unblamed_files(text_files, blamed_files, failed_files),
        reason,
        ignore_revs.note,
    )
    return SurvivingLines(counts, tuple(filter(None, limitations)))


def _describe_unblamed_files(files: int, blamed_files: int, failed_files: int) -> Iterator[str]:
    if blamed_files + failed_files < files:
        yield (
            f"Owners cover only {blamed_files:,} of {files:,} files, those with the most commits: "
            "git blame took too long for the rest."
        )
    if failed_files:
        yield f"git blame failed for {failed_files:,} of {files:,} files."


def find_recent_period(history: HistoryFrames) -> tuple[datetime, datetime] | None:
    """Return the start and end of the recent period; None without commits.

    The period ends at the newest commit that HEAD reaches. Commits with a date in the future are ignored.
    """
    is_past = pl.col("commit_date") <= datetime.now(UTC)
    newest = history.commits.filter(pl.col("reached") & is_past).select(pl.col("commit_date").max()).item()
    return (newest - RECENT_PERIOD, newest) if newest else None


def list_recent_commits(
    history: HistoryFrames, is_selected: pl.Expr, period: tuple[datetime, datetime]
) -> list[RecentCommit]:
    """Return the commits of the period that change the selected files, oldest first.

    `history`: frames whose hunks have the newest paths of the files. `is_selected`: filter on `file_path`.
    """
    since, until = period
    recent = history.commits.filter(pl.col("reached") & pl.col("commit_date").is_between(since, until))
    rows = (
        history.hunks.filter(is_selected)
        .join(recent, on="commit_sha")
        .group_by("commit_sha", "commit_date")
        .agg(lines=pl.col("added_lines").sum() + pl.col("removed_lines").sum())
        .sort("commit_date", "commit_sha")
    )
    return [
        RecentCommit(sha, lines, 0.5 ** ((until - date) / HALF_LIFE)) for sha, date, lines in rows.iter_rows()
    ]


def load_authors(git: GitProgram, shas: Iterable[str]) -> dict[str, Author]:
    """Return the author of each commit by sha, after `.mailmap` and `unify_authors`.

    git applies `.mailmap`, not libgit2, because libgit2 compares addresses case-sensitively. Raises UnknownAuthors.
    """
    stdin = "".join(f"{sha}\n" for sha in dict.fromkeys(shas)).encode()
    if not stdin:
        return {}
    output = git.run(*LOG_ARGUMENTS, stdin=stdin)
    if output.exit_code:
        last_line = output.stderr.splitlines()[-1] if output.stderr else "git log failed"
        raise UnknownAuthors(last_line.removeprefix("fatal: "))
    entries = (entry.split("\n") for entry in output.stdout.decode("utf-8", "replace").split("\0") if entry)
    return unify_authors({sha: Author(name, email) for sha, name, email in entries})


def unify_authors(authors: Mapping[str, Author]) -> dict[str, Author]:
    """Give all authors who are the same person the name and address with the most commits.

    `authors`: author by commit sha.
    """
    counts = Counter(authors.values())
    # A group has the authors who are the same person. The dict has the group for each of their keys.
    group_by_key: dict[str, list[Author]] = {}
    for author in sorted(counts, key=lambda author: (-counts[author], author.name, author.email)):
        groups = [group_by_key[key] for key in author.keys if key in group_by_key]
        joined_group = list(dict.fromkeys([*chain.from_iterable(groups), author]))
        for member in joined_group:
            group_by_key.update(dict.fromkeys(member.keys, joined_group))
    main_authors = {
        author: min(group_by_key[author.keys[0]], key=lambda member: (-counts[member], member.name))
        for author in counts
    }
    return {sha: main_authors[author] for sha, author in authors.items()}


def rank_owners(lines: Mapping[str, int], authors: Mapping[str, Author]) -> tuple[Owner, ...]:
    """Return the people who wrote the surviving lines, most lines first, without bots.

    `lines`: number of surviving lines of each commit, by sha. `authors`: author of each commit, by sha.
    """
    counts: Counter[Author] = Counter()
    for sha, count in lines.items():
        if not is_bot(authors[sha].name):
            counts[authors[sha]] += count
    total = counts.total()
    return tuple(
        Owner(author.name, author.email, count, round(count / total, 3))
        for author, count in sorted(counts.items(), key=lambda item: (-item[1], item[0].name))
    )


def rank_recent_authors(
    commits: Sequence[RecentCommit], authors: Mapping[str, Author]
) -> tuple[RecentAuthor, ...]:
    """Return the people who changed the files recently, the largest share first, without bots.

    A person's share is the mean of two shares: of the commits and of the changed lines. Older commits and their lines
    weigh less.
    """
    commits_by_author: dict[Author, list[RecentCommit]] = defaultdict(list)
    for commit in commits:
        if not is_bot(authors[commit.commit_sha].name):
            commits_by_author[authors[commit.commit_sha]].append(commit)
    counted_commits = list(chain.from_iterable(commits_by_author.values()))
    total_weight, total_weighted_lines = _sum_weights(counted_commits)
    recent_authors = []
    for author, own_commits in commits_by_author.items():
        weight, weighted_lines = _sum_weights(own_commits)
        share = weight / total_weight
        if total_weighted_lines:
            share = (share + weighted_lines / total_weighted_lines) / 2
        lines = sum(commit.lines for commit in own_commits)
        recent_authors.append(
            RecentAuthor(author.name, author.email, len(own_commits), lines, round(share, 3))
        )
    return tuple(sorted(recent_authors, key=lambda author: (-author.share, author.name)))


def _sum_weights(commits: Iterable[RecentCommit]) -> tuple[float, float]:
    """Return the sum of the commits' weights, and the number of their changed lines multiplied by these weights."""
    weights = [(commit.weight, commit.weight * commit.lines) for commit in commits]
    return sum(weight for weight, _ in weights), sum(lines for _, lines in weights)


def list_bots(
    lines: Mapping[str, int], recent_commits: Sequence[RecentCommit], authors: Mapping[str, Author]
) -> tuple[Bot, ...]:
    """Return the bots that wrote surviving lines or changed the files recently, most lines first."""
    line_counts: Counter[str] = Counter()
    for sha, count in lines.items():
        line_counts[authors[sha].name] += count
    commit_counts = Counter(authors[commit.commit_sha].name for commit in recent_commits)
    names = filter(is_bot, line_counts.keys() | commit_counts.keys())
    bots = [Bot(name, line_counts[name], commit_counts[name]) for name in names]
    return tuple(sorted(bots, key=lambda bot: (-bot.lines, -bot.recent_commits, bot.name)))
