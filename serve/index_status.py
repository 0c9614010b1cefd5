"""Index status: last indexed commit, commits behind HEAD, compatibility and reachability.

- `IndexStatus` and the functions that load it.
- Fields and hints of answers (`build_index_state`, `build_compatibility`, `build_index_hints`, `describe_empty_index`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from pipeline.component_versions import get_component_versions, get_encoder_name
from pipeline.git.errors import BEYOND_SHALLOW_BOUNDARY
from pipeline.git.git_cli import GitProgram
from pipeline.git.repository import Repository, open_repository
from pipeline.options import EmbedCacheMode, EncoderName
from pipeline.walk import compute_reachability_delta, exclude_recorded, list_candidate_commits
from pipeline.workers import count_usable_cpus
from serve.api_types import Compatibility, IndexState, format_rfc3339
from serve.commit_ranges import RangeCoverage, compute_coverage
from serve.repositories import locate_index
from serve.text import UNREADABLE_HINT, describe_vector_share, format_commit_count
from stores import compatibility, history, index_copy, locks
from stores.compatibility import (
    RESUME_COMMAND,
    CompatibilityStatus,
    CompatibilityVerdict,
    RecordedVersions,
)
from stores.database import NotIndexed
from stores.filters import CommitRange
from stores.history import CacheUsage, IndexSummary, ReachabilityDelta
from stores.hunk_details import Connection
from stores.index_copy import IndexHolder
from stores.index_location import IndexLocation

# Commits per second and processor that an index run makes searchable by words. flask's 5,531 commits took 15 s on two
# processors.
WORDS_COMMITS_PER_SECOND: Final = 180.0
# Commits per second and processor that a complete index run makes searchable by words and by meaning. flask took 227 s.
COMMITS_PER_SECOND: Final = 12.0


@dataclass(frozen=True, slots=True)
class CacheStatus:
    """Status of an embedding cache: mode (an `EmbedCacheMode`), size on disk, and usage by the latest index run."""

    mode: str
    size_bytes: int
    usage: CacheUsage


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """Status of an index relative to HEAD.

    - `last_indexed_commit`, `indexed_at`: None if nothing is indexed.
    - `commits_behind`: number of commits of HEAD that the next index run would index.
    - `commits`: number of indexed commits.
    - `reachability`: which recorded commits HEAD reaches, as a difference from the recorded state.
    - `verdict`: compatibility with this program; None without an index.
    - `cache`: loaded only by `load_status_at_path`; None if no cache is in use.
    - `encoder_name`: encoder of the vectors.
    - `unreadable_commits`: number of commits that could not be read.
    - `vector_share`: share of the hunks, from 0 to 1, whose text has a vector.
    - `index_holder`: process that holds the index, if a copy of the index was read; else None.
    - `is_run_active`: True if an index run was found active. Always False for an index that is complete and compatible,
      because then no run is looked for.
    - `indexed_until`: date of the last indexed commit; set only during an active run.
    - `range_coverage`: set only if the request has a range.
    - `branch_patterns`: patterns of refs that are indexed besides HEAD; loaded only by `load_status_at_path`.
    - `head_error`: why HEAD has no commit, and what to do; empty if it has one.
    """

    last_indexed_commit: str | None = None
    indexed_at: datetime | None = None
    commits_behind: int = 0
    commits: int = 0
    reachability: ReachabilityDelta = field(default_factory=ReachabilityDelta)
    verdict: CompatibilityVerdict | None = None
    cache: CacheStatus | None = None
    encoder_name: EncoderName = EncoderName.MINILM
    unreadable_commits: int = 0
    vector_share: float = 1.0
    index_holder: IndexHolder | None = None
    is_run_active: bool = False
    indexed_until: datetime | None = None
    range_coverage: RangeCoverage | None = None
    branch_patterns: tuple[str, ...] = ()
    head_error: str = ""

    @property
    def is_being_updated(self) -> bool:
        """True if an index run was found active, or a copy was read because an index run holds the index."""
        return self.is_run_active or (self.index_holder is not None and self.index_holder.is_index_run)

    @property
    def has_partial_history(self) -> bool:
        """True until the first index run has recorded all commits."""
        return bool(self.commits_behind and self.verdict and self.verdict.has_no_finished_run)


@dataclass(frozen=True, slots=True)
class RecordedState:
    """State that is recorded in an index. Only an index run changes it.

    `summary`: None if nothing is recorded. `vector_share`: as in `IndexStatus`. `boundary_commits`: commits that were
    unreadable because their parents are beyond the boundary of a shallow clone.
    """

    summary: IndexSummary | None
    versions: RecordedVersions
    vector_share: float
    boundary_commits: tuple[str, ...]


def load_status_at_path(path: Path, home: Path) -> tuple[IndexLocation, IndexStatus]:
    """Return the index location of the repository at `path` and the status of its index."""
    repository = open_repository(path)
    location = locate_index(home, repository)
    try:
        with index_copy.open_index_or_copy(location) as index:
            status = load_index_status(
                repository, index.connection, location=location, index_holder=index.holder
            )
            cache = _load_cache_status(index.connection, location)
            patterns = history.load_branch_patterns(index.connection)
            return location, replace(status, cache=cache, branch_patterns=patterns)
    except NotIndexed:
        return location, build_status_without_index(repository)


def load_index_status(
    repository: Repository,
    connection: Connection,
    recorded_state: RecordedState | None = None,
    *,
    location: IndexLocation | None = None,
    index_holder: IndexHolder | None = None,
) -> IndexStatus:
    """Return the status of an open index.

    `recorded_state`: loaded here if None. `location`: location of the index, to look for an active run; None to skip
    this. `index_holder`: as in `IndexStatus`.
    """
    recorded_state = recorded_state or load_recorded_state(connection)
    summary = recorded_state.summary
    if summary is None:
        return build_status_without_index(repository)
    encoder_name = get_encoder_name(recorded_state.versions.embedding_model) or EncoderName.MINILM
    status = IndexStatus(
        last_indexed_commit=summary.last_indexed_commit,
        indexed_at=summary.indexed_at,
        commits_behind=_count_commits_behind(
            repository, connection, summary, recorded_state.boundary_commits
        ),
        commits=summary.commits,
        reachability=compute_reachability_delta(repository, repository.read_head(), summary.head_commit),
        verdict=check_recorded_versions(recorded_state.versions),
        encoder_name=encoder_name,
        unreadable_commits=summary.unreadable,
        vector_share=recorded_state.vector_share,
        index_holder=index_holder,
        head_error=_describe_missing_head(repository),
    )
    verdict = status.verdict
    needs_run = status.commits_behind > 0 or status.vector_share < 1 or (verdict and verdict.remedy)
    if not location or not needs_run or not locks.is_run_active(location.folder):
        return status
    last_commit = status.last_indexed_commit
    indexed_until = repository.read_commit(last_commit).commit_date if last_commit else None
    verdict = verdict and verdict.during_run()
    return replace(status, is_run_active=True, indexed_until=indexed_until, verdict=verdict)


def add_range(
    status: IndexStatus,
    repository: Repository,
    git: GitProgram,
    connection: Connection,
    commit_range: CommitRange | None,
) -> IndexStatus:
    """Return the status with the coverage of a range. The commits of the range are added to the reachable commits.

    Without a range, return the status unchanged.
    """
    if commit_range is None:
        return status
    is_reachable = history.build_reachability_test(connection, status.reachability)
    outside = sorted(sha for sha in commit_range.commits if not is_reachable(sha))
    recorded_commits = history.find_recorded_commits(connection, commit_range.commits)
    tips = [status.last_indexed_commit, *history.load_branch_tips(connection)]
    return replace(
        status,
        reachability=replace(
            status.reachability, added_commits=(*status.reachability.added_commits, *outside)
        ),
        range_coverage=compute_coverage(repository, git, commit_range, recorded_commits, tips),
    )


def load_recorded_state(connection: Connection) -> RecordedState:
    """Load the state recorded in an open index."""
    summary = history.load_index_summary(connection)
    return RecordedState(
        summary,
        compatibility.load_recorded_versions(connection),
        _compute_vector_share(connection, summary) if summary else 1.0,
        tuple(
            entry.commit_sha
            for entry in history.load_unreadable_commits(connection)
            if entry.reason == BEYOND_SHALLOW_BOUNDARY
        ),
    )


def _compute_vector_share(connection: Connection, summary: IndexSummary) -> float:
    # Counting the vectors takes longer than the rest of a status. After a finished run, every text has a vector.
    is_complete = summary.completed_commit == summary.last_indexed_commit
    return 1.0 if is_complete else history.compute_vector_share(connection)


def build_status_without_index(repository: Repository) -> IndexStatus:
    """Return the status of a repository without an index. All commits that HEAD reaches count as behind."""
    head = repository.read_head()
    commits_behind = len(repository.walk(head)) if head else 0
    return IndexStatus(commits_behind=commits_behind, head_error=_describe_missing_head(repository))


def _describe_missing_head(repository: Repository) -> str:
    if repository.read_head():
        return ""
    error = repository.build_head_error()
    return f"{error.message} {error.hint}"


def build_index_state(status: IndexStatus) -> IndexState:
    """Return the `index_status` field of an answer."""
    indexed_at = format_rfc3339(status.indexed_at) if status.indexed_at else None
    return IndexState(status.last_indexed_commit, status.commits_behind, indexed_at)


def build_compatibility(verdict: CompatibilityVerdict | None) -> Compatibility:
    """Return the `compatibility` field of an answer. `verdict`: None without an index."""
    if verdict is None:
        return Compatibility(CompatibilityStatus.UNKNOWN.value, "there is no index")
    if verdict.has_no_finished_run:
        return Compatibility(verdict.status.value, "no index run has ended")
    if verdict.status is CompatibilityStatus.COMPATIBLE:
        return Compatibility(verdict.status.value)
    return Compatibility(verdict.status.value, verdict.reason, verdict.missing)


def build_index_hints(status: IndexStatus, *, uses_vectors: bool = False) -> Iterator[str]:
    """Yield hints about the requested range, and about an index that is a copy, incomplete, incompatible or outdated.

    `uses_vectors`: True if the answer depends on vectors.
    """
    yield from filter(None, [status.head_error])
    if status.range_coverage:
        yield from status.range_coverage.describe()
    if status.index_holder:
        yield f"This answer is from {describe_copy(status.index_holder, status.indexed_at)}"
    if status.is_run_active and status.commits_behind and not status.index_holder:
        yield describe_active_run(status)
        return
    if status.verdict and status.verdict.has_no_finished_run:
        remedy = "" if status.is_being_updated else f": run `{RESUME_COMMAND}`"
        yield f"The {describe_unfinished_run(status)}{remedy}."
        return
    if status.commits_behind:
        behind = format_commit_count(status.commits_behind)
        remedy = "" if status.is_being_updated else ": run `lineage index --incremental`"
        yield f"The index is {behind} behind HEAD{remedy}."
    if uses_vectors and status.vector_share < 1:
        remedy = "; an index run is at work" if status.is_being_updated else ": run `lineage index`"
        yield (
            f"The index has {describe_vector_share(status.vector_share)}; other changes are found by words only"
            f"{remedy}."
        )
    if status.verdict and (sentence := describe_compatibility(status.verdict)):
        yield sentence


def describe_active_run(status: IndexStatus) -> str:
    """Return a sentence about an active index run: its progress, and the commits that answers cover meanwhile."""
    share = status.commits / (status.commits + status.commits_behind)
    until = (
        f"; answers cover the commits up to {status.indexed_until:%Y-%m-%d}" if status.indexed_until else ""
    )
    remaining = format_commit_count(status.commits_behind)
    return (
        f"An index run is at work: {int(share * 100)} % of the commits are indexed, {remaining} left{until}."
    )


def describe_copy(index_holder: IndexHolder, indexed_at: datetime | None) -> str:
    """Return the end of a sentence about a copy of an index: its date, the holder of the index, and a remedy."""
    age = f" of {indexed_at:%Y-%m-%d %H:%M} UTC" if indexed_at else ""
    remedy = f" {index_holder.remedy}" if index_holder.remedy else ""
    return f"the last committed state{age}, because {index_holder} holds the index.{remedy}"


def describe_unfinished_run(status: IndexStatus) -> str:
    """Return a phrase about an unfinished first index run: `first index run has not ended, 5 commits are left`."""
    verb = "is" if status.commits_behind == 1 else "are"
    remaining = f", {format_commit_count(status.commits_behind)} {verb} left" if status.commits_behind else ""
    return f"first index run has not ended{remaining}"


def describe_compatibility(verdict: CompatibilityVerdict) -> str:
    """Return a sentence with the verdict and its remedy; empty if the index is compatible."""
    if verdict.status is CompatibilityStatus.COMPATIBLE:
        return ""
    remedy = f": run `{verdict.remedy}`" if verdict.remedy and verdict.remedy not in str(verdict) else ""
    verb = "" if verdict.status is CompatibilityStatus.NEEDS_REBUILD else "is "
    return f"The index {verb}{verdict}{remedy}."


def check_recorded_versions(recorded: RecordedVersions) -> CompatibilityVerdict:
    """Compare the versions recorded in an index with those of this program for the same encoder."""
    encoder_name = get_encoder_name(recorded.embedding_model) or EncoderName.MINILM
    return compatibility.check_compatibility(recorded, get_component_versions(encoder_name=encoder_name))


def _load_cache_status(connection: Connection, location: IndexLocation) -> CacheStatus | None:
    """Return the status of the embedding cache that the index uses; None if it uses none."""
    mode = compatibility.load_recorded_versions(connection).embed_cache
    if mode in {None, EmbedCacheMode.OFF}:
        return None
    size = location.embeddings.stat().st_size if location.embeddings.exists() else 0
    return CacheStatus(str(mode), size, history.load_cache_usage(connection))


def _count_commits_behind(
    repository: Repository, connection: Connection, summary: IndexSummary, boundary_commits: Collection[str]
) -> int:
    head, last_indexed_commit = repository.read_head(), summary.last_indexed_commit
    # Commits at the former shallow boundary become readable when the clone is unshallowed.
    now_readable_commits = {sha for sha in boundary_commits if repository.can_diff(sha)}
    if head is None or (head == last_indexed_commit and not now_readable_commits):
        return 0
    candidates = list_candidate_commits(repository, head, last_indexed_commit, now_readable_commits)
    find_recorded = partial(history.find_recorded_commits, connection)
    return len(exclude_recorded(candidates, find_recorded, now_readable_commits))


def describe_empty_index(status: IndexStatus) -> str:
    """Return a hint about an index without commits: why it has none, and what to do."""
    if status.head_error:
        return status.head_error
    if status.unreadable_commits:
        count = format_commit_count(status.unreadable_commits)
        return f"Nothing is indexed: {count} could not be read. {UNREADABLE_HINT}"
    if status.commits_behind:
        run_time = describe_run_time(status.commits_behind)
        return f"This repository is not indexed yet: run `lineage index`.{run_time}"
    return "There is nothing to search: the repository has no commits that could be indexed."


def describe_run_time(commits: int) -> str:
    """Return a space and a sentence about the duration of a first index run; empty if less than a minute.

    `commits`: number of commits to index.
    """
    processors = count_usable_cpus()
    words_seconds = commits / WORDS_COMMITS_PER_SECOND / processors
    total_seconds = commits / COMMITS_PER_SECOND / processors
    if total_seconds < 60:
        return ""
    return (
        f" It has {format_commit_count(commits)}: all can be found by words after about "
        f"{_format_duration(words_seconds)}, and by meaning after about {_format_duration(total_seconds)}."
    )


def _format_duration(seconds: float) -> str:
    return (
        f"{math.ceil(seconds / 10) * 10} seconds" if seconds < 100 else f"{math.ceil(seconds / 60)} minutes"
    )
