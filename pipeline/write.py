"""Writes of an index run: its start, each batch with the watermark, the HEAD snapshot, and its end.

Each batch is one transaction that ends with the watermark, so an interrupted run loses at most the batch in progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from pipeline.component_versions import get_component_versions, get_encoder_name
from pipeline.extract import ExtractedBatch
from pipeline.git.repository import Repository
from pipeline.head_symbols import ParsedFiles
from pipeline.options import EmbedCacheMode, EncoderName
from pipeline.profile import Profile
from pipeline.walk import (
    compute_reachability_delta,
    exclude_recorded,
    find_unreachable,
    list_candidate_commits,
)
from stores import compatibility, database, history, maintenance, quantized_vectors
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
from stores.history import CacheUsage, UnreadableCommit
from stores.hunk_details import Connection
from stores.index_location import IndexLocation
from stores.migrations import NewerSchema
from stores.types import ReachabilityDelta
from stores.writer import (
    Batch,
    HeadChange,
    record_run_end,
    record_run_start,
    replace_batch,
    replace_head,
)


class IncompatibleIndex(LineageError):
    """The index holds vectors of another encoder or cache mode, to which this program cannot add."""


@dataclass(frozen=True, slots=True)
class RunStart:
    """State at the start of an index run.

    `pending`: commits to index, parents before children, those to retry included.
    `previously_unreadable`: commits that earlier runs could not read.
    `obsolete_unreadable`: those of them that HEAD does not reach; they are not retried.
    `head_files`: path -> blob of each file in the recorded HEAD snapshot.
    `components`: versions that this run writes rows with.
    """

    pending: tuple[str, ...]
    previously_unreadable: frozenset[str]
    obsolete_unreadable: frozenset[str]
    head_files: dict[str, str]
    components: ComponentVersions

    @property
    def cache_mode(self) -> EmbedCacheMode:
        """Embedding cache mode of this run."""
        return EmbedCacheMode(self.components.embed_cache or EmbedCacheMode.OFF)

    def get_watermark_after(self, shas: Sequence[str]) -> str | None:
        """Return the last of these commits that is not a retry (retries lie behind the watermark); None if all are."""
        advancing = [sha for sha in shas if sha not in self.previously_unreadable]
        return advancing[-1] if advancing else None


@dataclass(frozen=True, slots=True)
class RunResult:
    """Index after a run: number of commits, unreadable commits, and compatibility with this program."""

    commits: int
    unreadable: tuple[UnreadableCommit, ...]
    verdict: CompatibilityVerdict


def start_run(
    writer: IndexWriter,
    repository: Repository,
    head: str,
    cache_mode: EmbedCacheMode | None,
    encoder_name: EncoderName | None = None,
) -> RunStart:
    """Create the index if there is none, record the target HEAD, and find the commits to index.

    `cache_mode`: None keeps the mode of the index. `encoder_name`: None means the default encoder.
    Raises IncompatibleIndex if the index needs a rebuild.
    """
    with writer.batch() as connection:
        recorded = compatibility.load_recorded_versions(connection)
        summary = history.load_index_summary(connection)
        unreadable = frozenset(entry.commit_sha for entry in history.load_unreadable_commits(connection))
    current = get_component_versions(
        cache_mode or get_cache_mode(recorded) or EmbedCacheMode.OFF, encoder_name
    )
    _require_compatible_vectors(recorded, current)
    # Walking a long history takes seconds: do it outside the transactions, so that queries are answered meanwhile.
    watermark = summary.last_indexed_commit if summary else None
    candidates = list_candidate_commits(repository, head, watermark, unreadable)
    delta = (
        compute_reachability_delta(repository, head, summary.head_commit) if summary else ReachabilityDelta()
    )
    with writer.batch() as connection:
        pending = exclude_recorded(candidates, partial(history.find_recorded_commits, connection), unreadable)
        record_run_start(
            connection,
            writer.location,
            head=head,
            unreached=_list_unreachable(connection, delta) if summary else (),
            components=current,
        )
        return RunStart(
            pending=tuple(pending),
            previously_unreadable=unreadable,
            obsolete_unreadable=unreadable.difference(candidates),
            head_files=history.load_head_files(connection),
            components=current,
        )


def load_index_versions(location: IndexLocation) -> RecordedVersions | None:
    """Return the versions recorded in the index; None if there is no index or it cannot be read."""
    try:
        with database.open_for_reading(location) as connection:
            return compatibility.load_recorded_versions(connection)
    except (NotIndexed, DamagedIndex, NewerSchema):
        return None


def get_cache_mode(recorded: RecordedVersions | None) -> EmbedCacheMode | None:
    """Return the embedding cache mode recorded in an index; None if there is none or it is unknown."""
    mode = recorded.embed_cache if recorded else None
    return EmbedCacheMode(mode) if mode in set(EmbedCacheMode) else None


def find_known_digests(writer: IndexWriter, digests: Iterable[bytes], profile: Profile) -> set[bytes]:
    """Return those of the text digests whose vectors the index has."""
    with profile.phase("storage"), writer.batch() as connection:
        return history.find_known_digests(connection, digests)


def write_batch(
    writer: IndexWriter,
    extracted: ExtractedBatch,
    vectors: pa.RecordBatch,
    watermark: str | None,
    profile: Profile,
    *,
    cache_usage: CacheUsage | None = None,
) -> None:
    """Write a batch's rows, the watermark and the cache usage so far in one transaction.

    `watermark`: None leaves the watermark where it is.
    """
    batch = Batch(
        covered_commits=extracted.shas,
        commits=extracted.commits,
        hunks=extracted.hunks,
        hunk_symbols=extracted.hunk_symbols,
        vectors=vectors,
        hunk_terms=extracted.hunk_terms,
        symbol_terms=extracted.symbol_terms,
        unreadable=extracted.unreadable,
        watermark=watermark,
        cache_usage=cache_usage,
    )
    _write_timed(writer, profile, "storage", lambda connection: replace_batch(connection, batch))


def write_head(writer: IndexWriter, parsed: ParsedFiles, profile: Profile) -> None:
    """Write one slice of the HEAD snapshot in one transaction."""
    change = HeadChange(
        replaced_paths=parsed.paths,
        files=parsed.files,
        symbols=parsed.symbols,
        chunks=parsed.chunks,
        terms=parsed.terms,
    )
    _write_timed(writer, profile, "symbols", lambda connection: replace_head(connection, change))


def finish_run(
    writer: IndexWriter,
    head: str,
    start: RunStart,
    profile: Profile,
    *,
    has_new_head_rows: bool,
    has_complete_head: bool,
) -> RunResult:
    """Move the watermark to HEAD, record the versions of this run, and compact the index file.

    Unreadable commits that HEAD does not reach are forgotten: if HEAD reaches them again, a walk from this watermark
    finds them.

    `has_new_head_rows`: this run wrote every row of the HEAD snapshot.
    `has_complete_head`: the HEAD snapshot has every file.
    """
    with profile.phase("storage"):
        with writer.batch() as connection:
            current = start.components
            record_run_end(
                connection,
                head,
                current,
                obsolete_unreadable=sorted(start.obsolete_unreadable),
                head_rebuilt=has_new_head_rows,
                head_complete=has_complete_head,
            )
            summary = history.load_index_summary(connection)
            unreadable = history.load_unreadable_commits(connection)
            verdict = compatibility.check_compatibility(
                compatibility.load_recorded_versions(connection), current
            )
        writer.release()
        maintenance.compact_if_needed(writer.location)
        quantized_vectors.refresh_quantized_file(writer.location)
    return RunResult(summary.commits if summary else 0, unreadable, verdict)


def _list_unreachable(connection: Connection, delta: ReachabilityDelta) -> Sequence[str]:
    """Return the recorded commits that HEAD does not reach.

    For a partial delta only the commits that it may concern are looked up.
    """
    before = history.load_unreached_commits(connection)
    candidates = {*before, *delta.removed}
    recorded = (
        history.list_recorded_commits(connection)
        if delta.complete
        else history.find_recorded_commits(connection, candidates)
    )
    return find_unreachable(delta, before, recorded)


def _require_compatible_vectors(recorded: RecordedVersions, current: ComponentVersions) -> None:
    verdict = compatibility.check_compatibility(recorded, current)
    if verdict.status is CompatibilityStatus.NEEDS_REBUILD:
        raise IncompatibleIndex(
            f"The index {verdict}.",
            hint=f"Run `{' '.join((REBUILD_COMMAND, *_list_changed_options(recorded, current)))}`.",
        )


def _list_changed_options(recorded: RecordedVersions, current: ComponentVersions) -> Iterator[str]:
    """Yield the options that a rebuild needs to switch to the current encoder and cache mode."""
    encoder = get_encoder_name(current.embedding_model)
    if encoder and get_encoder_name(recorded.embedding_model) not in (encoder, None):
        yield f"--encoder {encoder}"
    modes = {recorded.embed_cache, current.embed_cache}
    if len(modes) > 1 and EmbedCacheMode.DIFF in modes:
        yield f"--embed-cache {current.embed_cache}"


def _write_timed(
    writer: IndexWriter, profile: Profile, phase: str, write: Callable[[Connection], float]
) -> None:
    """Write in one transaction; add the seconds that `write` returns to `fts`, and the other time to `phase`."""
    with profile.phase(phase), writer.batch() as connection:
        postings_seconds = write(connection)
    profile.add_time("fts", postings_seconds)
    profile.add_time(phase, -postings_seconds)
