"""Write operations of an index run: start, batches of commits with the watermark, snapshot of HEAD, and end.

The watermark is a commit whose whole history the index has. Each batch is one transaction that also moves the
watermark, so an interrupted run loses at most the batch in progress. `embed` writes the vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow as pa

from pipeline.component_versions import get_component_versions, get_encoder_name
from pipeline.extract import ExtractedBatch
from pipeline.git.commit_graph import create_git_program
from pipeline.git.ranges import list_ref_commits, list_unreadable_refs
from pipeline.git.repository import Repository
from pipeline.head_symbols import ParsedFiles
from pipeline.options import EmbedCacheMode, EncoderName
from pipeline.profile import Profile
from pipeline.walk import (
    compute_reachability_delta,
    exclude_recorded,
    find_unreachable,
    list_branch_candidates,
    list_candidate_commits,
)
from stores import compatibility, database, history, maintenance
from stores.compatibility import (
    REBUILD_COMMAND,
    CompatibilityStatus,
    CompatibilityVerdict,
    ComponentVersions,
    RecordedVersions,
)
from stores.connections import IndexWriter
from stores.database import DamagedIndex, NotIndexed
from stores.errors import LineageError
from stores.history import ReachabilityDelta, UnreadableCommit
from stores.hunk_details import Connection
from stores.index_location import IndexLocation
from stores.migrations import NewerSchema
from stores.vectors import list_pending_texts
from stores.writer import (
    Batch,
    HeadChange,
    RefreshedRows,
    record_run_end,
    record_run_start,
    refresh_rows,
    replace_batch,
    replace_head,
)

Record = TypeVar("Record")


class IncompatibleIndex(LineageError):
    """The index has to be rebuilt before this program can add to it, for example because of another encoder."""


@dataclass(frozen=True, slots=True)
class RunStart:
    """State at the start of an index run.

    `pending_commits`: commits to index, parents before children, including those to retry.
    `unreadable_commits`: commits that earlier runs could not read.
    `commits_without_hunks`: recorded commits to read again, because lineage before schema 3 wrote no row in `hunks` for
    commits without file changes.
    `branch_commits`: pending commits that HEAD does not reach, but a branch does.
    `branch_tips`: newest commit of each branch to index.
    `unreadable_refs`: names of branches to index whose newest commit cannot be read.
    `obsolete_commits`: unreadable commits that neither HEAD nor a branch reaches. This run does not retry them.
    `head_files`: path -> SHA of the blob, for each file in the recorded HEAD snapshot.
    `components`: component versions of the rows of this run.
    """

    pending_commits: tuple[str, ...]
    unreadable_commits: frozenset[str]
    commits_without_hunks: frozenset[str]
    branch_commits: frozenset[str]
    branch_tips: tuple[str, ...]
    unreadable_refs: tuple[str, ...]
    obsolete_commits: frozenset[str]
    head_files: dict[str, str]
    components: ComponentVersions

    @property
    def cache_mode(self) -> EmbedCacheMode:
        """Embedding cache mode of this run."""
        return EmbedCacheMode(self.components.embed_cache or EmbedCacheMode.OFF)

    def get_watermark_after(self, shas: Sequence[str]) -> str | None:
        """Return the watermark after a batch of these commits; None if it does not move.

        The watermark moves to the last commit of the batch that HEAD reaches and that no earlier run tried to read.
        Commits that are read again come before the current watermark.
        """
        skipped_commits = self.unreadable_commits | self.commits_without_hunks | self.branch_commits
        new_commits = [sha for sha in shas if sha not in skipped_commits]
        return new_commits[-1] if new_commits else None


@dataclass(frozen=True, slots=True)
class RunResult:
    """State of the index after a run.

    `commits`: number of commits in the index. `verdict`: compatibility of the index with this program.
    """

    commits: int
    unreadable_commits: tuple[UnreadableCommit, ...]
    verdict: CompatibilityVerdict


def start_run(
    writer: IndexWriter,
    repository: Repository,
    head: str,
    cache_mode: EmbedCacheMode | None,
    encoder_name: EncoderName | None = None,
    branch_patterns: Sequence[str] | None = None,
) -> RunStart:
    """Create the index if there is none, record the target HEAD, and find the commits to index.

    `cache_mode`: embedding cache mode; None keeps the index's mode. `encoder_name`: None for the default encoder.
    `branch_patterns`: patterns of refs to index besides HEAD; None keeps the index's patterns.
    Raises IncompatibleIndex if the index has to be rebuilt.
    """
    with writer.open_batch() as connection:
        recorded_versions = compatibility.load_recorded_versions(connection)
        summary = history.load_index_summary(connection)
        unreadable_commits = frozenset(
            entry.commit_sha for entry in history.load_unreadable_commits(connection)
        )
        # Only a migration leaves commits without hunks, and it clears `completed_commit`.
        is_complete = summary is not None and summary.completed_commit is not None
        commits_without_hunks = [] if is_complete else history.list_commits_without_hunks(connection)
        if branch_patterns is None:
            branch_patterns = history.load_branch_patterns(connection)
        recorded_tips = history.load_branch_tips(connection)
    # Leave out commits that this clone has lost, or that are at its shallow boundary, because they cannot be read.
    commits_without_hunks = [sha for sha in commits_without_hunks if repository.can_diff(sha)]
    current_versions = get_component_versions(
        cache_mode or get_cache_mode(recorded_versions) or EmbedCacheMode.OFF, encoder_name
    )
    _require_compatible_index(recorded_versions, current_versions)
    branch_tips: list[str] = []
    unreadable_refs: list[str] = []
    if branch_patterns:
        git = create_git_program(repository)
        branch_tips = list_ref_commits(repository, git, branch_patterns)
        unreadable_refs = list_unreadable_refs(repository, git, branch_patterns)
    record_start = partial(
        record_run_start,
        location=writer.location,
        head=head,
        components=current_versions,
        branch_patterns=branch_patterns,
    )
    if summary is None:
        # Record the settings before the walk: a rebuild has deleted them, and an interrupted walk would lose them.
        with writer.open_batch() as connection:
            record_start(connection, unreachable=())
    # Outside of a transaction, because walking a long history takes seconds, and queries can read the index meanwhile.
    watermark = summary.last_indexed_commit if summary else None
    if unreadable_commits:  # they may be anywhere, so walk the whole histories
        watermark, recorded_tips = None, frozenset()
    candidates = list_candidate_commits(repository, head, watermark, unreadable_commits)
    branch_candidates = list_branch_candidates(repository, branch_tips, candidates, watermark, recorded_tips)
    delta = (
        compute_reachability_delta(repository, head, summary.head_commit) if summary else ReachabilityDelta()
    )
    with writer.open_batch() as connection:
        pending = exclude_recorded(
            [*candidates, *branch_candidates],
            partial(history.find_recorded_commits, connection),
            unreadable_commits,
        )
        record_start(connection, unreachable=_list_unreachable(connection, delta) if summary else ())
        return RunStart(
            pending_commits=(*commits_without_hunks, *pending),
            unreadable_commits=unreadable_commits,
            commits_without_hunks=frozenset(commits_without_hunks),
            branch_commits=frozenset(branch_candidates).intersection(pending),
            branch_tips=tuple(branch_tips),
            unreadable_refs=tuple(unreadable_refs),
            obsolete_commits=unreadable_commits.difference(candidates, branch_candidates),
            head_files=history.load_head_files(connection),
            components=current_versions,
        )


def load_index_versions(location: IndexLocation) -> RecordedVersions | None:
    """Return the versions recorded in the index; None if there is no index or it cannot be read."""
    return _load_if_readable(location, compatibility.load_recorded_versions)


def get_cache_mode(recorded_versions: RecordedVersions | None) -> EmbedCacheMode | None:
    """Return the embedding cache mode recorded in an index; None if none or an unknown one is recorded."""
    mode = recorded_versions.embed_cache if recorded_versions else None
    return EmbedCacheMode(mode) if mode in set(EmbedCacheMode) else None


def load_branch_patterns(location: IndexLocation) -> tuple[str, ...]:
    """Return the patterns of refs recorded in the index; none if there is no index or it cannot be read."""
    return _load_if_readable(location, history.load_branch_patterns) or ()


def _load_if_readable(location: IndexLocation, load: Callable[[Connection], Record]) -> Record | None:
    try:
        with database.open_for_reading(location) as connection:
            return load(connection)
    except (NotIndexed, DamagedIndex, NewerSchema):
        return None


def write_batch(writer: IndexWriter, batch: ExtractedBatch, start: RunStart, profile: Profile) -> str | None:
    """Write a batch and the watermark in one transaction. Return the new watermark; None if it does not move."""
    watermark = start.get_watermark_after(batch.shas)
    rows = Batch(
        covered_commits=batch.shas,
        commits=batch.commits,
        hunks=batch.hunks,
        hunk_symbols=batch.hunk_symbols,
        hunk_terms=batch.hunk_terms,
        symbol_terms=batch.symbol_terms,
        unreadable=batch.unreadable_commits,
        watermark=watermark,
        unreachable=[sha for sha in batch.shas if sha in start.branch_commits],
    )
    _write_timed(writer, profile, "storage", lambda connection: replace_batch(connection, rows))
    return watermark


def write_head(writer: IndexWriter, parsed_files: ParsedFiles, profile: Profile) -> None:
    """Write the rows of one slice of the HEAD snapshot in one transaction."""
    change = HeadChange(
        replaced_paths=parsed_files.replaced_paths,
        files=parsed_files.files,
        symbols=parsed_files.symbols,
        chunks=parsed_files.chunks,
        terms=parsed_files.terms,
    )
    _write_timed(writer, profile, "symbols", lambda connection: replace_head(connection, change))


def write_refreshed_rows(writer: IndexWriter, rows: RefreshedRows, profile: Profile) -> None:
    """Write new symbols and terms of recorded hunks in one transaction."""
    _write_timed(writer, profile, "storage", lambda connection: refresh_rows(connection, rows))


def finish_extraction(
    writer: IndexWriter,
    head: str,
    start: RunStart,
    profile: Profile,
    *,
    is_head_rebuilt: bool,
    is_head_complete: bool,
) -> pa.Table:
    """Move the watermark to HEAD and record the versions of this run. Return the texts that have no vector yet.

    The records of `start.obsolete_commits` are deleted. If HEAD reaches such a commit again, the walk from the new
    watermark finds it.
    `is_head_rebuilt`: this run wrote every row of the HEAD snapshot.
    `is_head_complete`: the HEAD snapshot has every file.
    """
    with profile.measure("storage"), writer.open_batch() as connection:
        pending = list_pending_texts(connection)
        record_run_end(
            connection,
            head,
            start.components,
            obsolete_commits=sorted(start.obsolete_commits),
            branch_tips=start.branch_tips,
            is_head_rebuilt=is_head_rebuilt,
            is_complete=is_head_complete and not pending.num_rows,
        )
    return pending


def finish_run(writer: IndexWriter, start: RunStart, profile: Profile) -> RunResult:
    """Compact the index file if it has much unused space, and return the state of the index."""
    with profile.measure("storage"):
        with writer.open_batch() as connection:
            summary = history.load_index_summary(connection)
            unreadable_commits = history.load_unreadable_commits(connection)
            verdict = compatibility.check_compatibility(
                compatibility.load_recorded_versions(connection), start.components
            )
        writer.release()
        maintenance.compact_if_needed(writer.location)
    return RunResult(summary.commits if summary else 0, unreadable_commits, verdict)


def _list_unreachable(connection: Connection, delta: ReachabilityDelta) -> Sequence[str]:
    """Return the recorded commits that the new HEAD does not reach. `delta`: difference to the recorded HEAD.

    If `delta` does not list every commit that HEAD reaches, only two groups of commits can be unreachable and are
    looked up: the commits recorded as unreachable, and `removed_commits`.
    """
    previously_unreachable = history.load_unreachable_commits(connection)
    candidates = {*previously_unreachable, *delta.removed_commits}
    recorded_commits = (
        history.list_recorded_commits(connection)
        if delta.lists_all_commits
        else history.find_recorded_commits(connection, candidates)
    )
    return find_unreachable(delta, previously_unreachable, recorded_commits)


def _require_compatible_index(
    recorded_versions: RecordedVersions, current_versions: ComponentVersions
) -> None:
    """Raise IncompatibleIndex if the index has to be rebuilt."""
    verdict = compatibility.check_compatibility(recorded_versions, current_versions)
    if verdict.status is CompatibilityStatus.NEEDS_REBUILD:
        raise IncompatibleIndex(
            f"The index {verdict}.",
            hint=f"Run `{' '.join((REBUILD_COMMAND, *_list_changed_options(recorded_versions, current_versions)))}`.",
        )


def _list_changed_options(
    recorded_versions: RecordedVersions, current_versions: ComponentVersions
) -> Iterator[str]:
    """Yield the options that a rebuild needs to switch to the current encoder and cache mode."""
    encoder = get_encoder_name(current_versions.embedding_model)
    if encoder and get_encoder_name(recorded_versions.embedding_model) not in (encoder, None):
        yield f"--encoder {encoder}"
    # The mode `diff` embeds other texts than `off` and `semantic`. A change between the last two needs no rebuild.
    modes = {recorded_versions.embed_cache, current_versions.embed_cache}
    if len(modes) > 1 and EmbedCacheMode.DIFF in modes:
        yield f"--embed-cache {current_versions.embed_cache}"


def _write_timed(
    writer: IndexWriter, profile: Profile, phase: str, write: Callable[[Connection], float]
) -> None:
    """Call `write` in one transaction, and add its time to the profile.

    `write` returns the seconds that it spent on the full-text index. These are added to the phase `fts`, and the rest
    of the time to `phase`.
    """
    with profile.measure(phase), writer.open_batch() as connection:
        postings_seconds = write(connection)
    profile.add_time("fts", postings_seconds)
    profile.add_time(phase, -postings_seconds)
