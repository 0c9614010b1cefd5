"""Index run: walk the commits, extract and embed each batch, write it, update the HEAD snapshot, finish."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final

from pipeline import head_symbols, write
from pipeline.component_versions import get_encoder_name
from pipeline.embed import EmbeddingCacheSession, EmbeddingStage
from pipeline.encoders.base import Encoder
from pipeline.extract import ExtractedBatch, ExtractTask, clear_worker_caches
from pipeline.git.errors import NothingToIndex, UnreadableObject
from pipeline.git.repository import Repository
from pipeline.head_symbols import (
    FILES_PER_SLICE,
    HeadFile,
    HeadSlice,
    ParsedFiles,
    build_deletion,
    run_task,
    split_into_slices,
)
from pipeline.ignore import IgnoreRules
from pipeline.options import EmbedCacheMode
from pipeline.profile import Profile
from pipeline.walk import split_into_batches
from pipeline.workers import WorkerPool
from pipeline.write import RunResult, RunStart
from stores import embedding_cache
from stores.compatibility import CompatibilityVerdict
from stores.connections import IndexWriter
from stores.history import UnreadableCommit
from stores.index_location import IndexLocation
from stores.writer import delete_index

# Commits per transaction: a killed run loses at most one batch.
COMMITS_PER_BATCH: Final = 100

# Consecutive batches for one worker process, which reuses the syntax trees of files it has parsed. Alternating batches
# cost 40 % more parsing, groups of four 13 %: see "Batches per worker" in README.md.
BATCHES_PER_GROUP: Final = 4


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of an index run. Only `embed_cache` can change the content of the index.

    `commit_batch`: commits per transaction.
    `force`: parse every file of HEAD again.
    `rebuild`: delete the index first.
    `embed_cache`: embedding cache mode; None keeps the mode of the index.
    """

    commit_batch: int = COMMITS_PER_BATCH
    force: bool = False
    rebuild: bool = False
    embed_cache: EmbedCacheMode | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of an index run, reported after each batch.

    `total_commits`: commits to index. `processed_commits`: those that are done. They include unreadable commits and
    commits with only ignored files, which have no row.
    `written_commits`, `written_hunks`, `head_symbols`: rows written so far.
    `unreadable_head_files`: paths of HEAD that could not be read.
    `watermark`: last commit up to which the history is indexed; None before the first batch.
    """

    processed_commits: int = 0
    total_commits: int = 0
    written_commits: int = 0
    written_hunks: int = 0
    head_symbols: int = 0
    unreadable_head_files: tuple[str, ...] = ()
    watermark: str | None = None


@dataclass(frozen=True, slots=True)
class HeadUpdate:
    """Changes that bring the HEAD snapshot up to date.

    `changed_files`: files to parse. `removed_paths`: paths to delete.
    `replaces_all_rows`: every file of HEAD is parsed, so that no row of an earlier run remains.
    `read_error`: reason why the tree of HEAD could not be read, then without changes; empty if it could.
    """

    changed_files: tuple[HeadFile, ...] = ()
    removed_paths: tuple[str, ...] = ()
    replaces_all_rows: bool = False
    read_error: str = ""

    @property
    def slice_count(self) -> int:
        """Number of tasks for the changed files."""
        return -(-len(self.changed_files) // FILES_PER_SLICE)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Result of an index run.

    `commits`, `hunks`, `head_symbols`: rows written by this run.
    `indexed_commits`: commits in the index after it.
    `unreadable_commits`, `unreadable_head_files`: what the next run retries.
    `verdict`: compatibility of the index with this program.
    `seconds`: wall time.
    `workers`: number of worker processes.
    """

    head: str
    commits: int
    hunks: int
    head_symbols: int
    indexed_commits: int
    unreadable_commits: tuple[UnreadableCommit, ...]
    unreadable_head_files: tuple[str, ...]
    verdict: CompatibilityVerdict
    seconds: float
    workers: int
    profile: Profile


@dataclass(frozen=True, slots=True)
class IndexRun:
    """Index run over one repository. The caller holds the run lock of the index.

    `workers`: processes that extract; the rows do not depend on their number.
    `report`: called with the total before the first batch, and after each batch.
    """

    repository: Repository
    location: IndexLocation
    options: RunOptions
    encoder: Encoder
    workers: WorkerPool = field(default_factory=lambda: WorkerPool(1))
    report: Callable[[Progress], None] = lambda _: None
    profile: Profile = field(default_factory=Profile)

    def run(self) -> RunSummary:
        """Index the commits up to HEAD. After an interruption the next run continues with the first missing batch.

        Raises NothingToIndex if there is no commit, and IncompatibleIndex if the index needs a rebuild.
        """
        start_time = time.perf_counter()
        rules = IgnoreRules.from_repository(self.repository)
        head = self._read_head()
        cache_mode = self._delete_index() if self.options.rebuild else self.options.embed_cache
        with IndexWriter(self.location) as writer:
            start = self._start_run(writer, head, cache_mode)
            head_update = self._plan_head_update(start, rules, head)
            self.repository.release_memory()
            progress = self._index_commits_and_head(writer, start, head_update, rules)
            # `finish_run` may copy the index, so free the memory of the workers and the model first.
            self.workers.request_shutdown()
            self.encoder.unload()
            result = self._finish_run(writer, head, start, head_update, progress)
        return RunSummary(
            head=head,
            commits=progress.written_commits,
            hunks=progress.written_hunks,
            head_symbols=progress.head_symbols,
            indexed_commits=result.commits,
            unreadable_commits=result.unreadable_commits,
            unreadable_head_files=progress.unreadable_head_files
            or tuple(filter(None, [head_update.read_error])),
            verdict=result.verdict,
            seconds=time.perf_counter() - start_time,
            workers=self._count_jobs(start, head_update),
            profile=self.profile,
        )

    def _read_head(self) -> str:
        head = self.repository.read_head()
        if head is None:
            raise NothingToIndex(self.repository.root)
        return head

    def _delete_index(self) -> EmbedCacheMode | None:
        """Delete the index. Return the cache mode of the options, or else that of the deleted index."""
        mode = self.options.embed_cache or write.get_cache_mode(write.load_index_versions(self.location))
        delete_index(self.location)
        return mode

    def _start_run(self, writer: IndexWriter, head: str, cache_mode: EmbedCacheMode | None) -> RunStart:
        encoder_name = get_encoder_name(self.encoder.name)
        with self.profile.measure("walk"):
            return write.start_run(writer, self.repository, head, cache_mode, encoder_name)

    def _plan_head_update(self, start: RunStart, rules: IgnoreRules, head: str) -> HeadUpdate:
        with self.profile.measure("symbols"):
            try:
                head_files = head_symbols.list_head_files(self.repository, head, rules)
            except UnreadableObject as error:
                return HeadUpdate(read_error=error.message)
            recorded_blobs = {} if self.options.force else start.head_files
            changed_files = head_symbols.find_changed_files(head_files, recorded_blobs)
            removed_paths = [path for path in start.head_files if path not in head_files]
        return HeadUpdate(
            tuple(changed_files),
            tuple(removed_paths),
            replaces_all_rows=len(changed_files) == len(head_files),
        )

    def _index_commits_and_head(
        self, writer: IndexWriter, start: RunStart, head_update: HeadUpdate, rules: IgnoreRules
    ) -> Progress:
        """Extract and parse in the workers; embed and write in this process, first the commits in order, then HEAD."""
        with ExitStack() as stack:
            stack.callback(clear_worker_caches)  # with one job, this process is the worker
            cache = self._open_cache(stack, start)
            return self._process_tasks(writer, start, head_update, rules, cache)

    def _open_cache(self, stack: ExitStack, start: RunStart) -> EmbeddingCacheSession | None:
        """Open the embedding cache until the stack closes; None if it is off, not needed or cannot be opened."""
        if start.cache_mode is EmbedCacheMode.OFF or not start.pending_commits:
            return None
        cache = stack.enter_context(embedding_cache.open_cache(self.location, self.encoder.name))
        return EmbeddingCacheSession(cache, start.cache_mode) if cache else None

    def _process_tasks(
        self,
        writer: IndexWriter,
        start: RunStart,
        head_update: HeadUpdate,
        rules: IgnoreRules,
        cache: EmbeddingCacheSession | None,
    ) -> Progress:
        diff_only = start.cache_mode is EmbedCacheMode.DIFF
        embedding = EmbeddingStage(self.encoder, writer, self.profile, cache, diff_only=diff_only)
        progress = Progress(total_commits=len(start.pending_commits))
        if progress.total_commits:
            self.report(progress)
        jobs = self._count_jobs(start, head_update)
        group_size = max(1, min(BATCHES_PER_GROUP, -(-self._count_batches(start) // jobs)))
        tasks = self._list_tasks(start, head_update, rules, diff_only=diff_only)
        for result in self.workers.map(
            run_task, tasks, max_jobs=jobs, group_size=group_size, restart_per_group=True
        ):
            if isinstance(result, ParsedFiles):
                progress = self._write_head(writer, result, progress)
                continue
            self.profile.merge(result.profile)
            vectors = embedding.embed_batch(result)
            watermark = start.get_watermark_after(result.shas)
            usage = cache.get_usage() if cache else None
            write.write_batch(writer, result, vectors, watermark, self.profile, cache_usage=usage)
            progress = _update_progress(progress, result, watermark)
            self.report(progress)
        if head_update.removed_paths:
            progress = self._write_head(writer, build_deletion(head_update.removed_paths), progress)
        return progress

    def _list_tasks(
        self, start: RunStart, head_update: HeadUpdate, rules: IgnoreRules, *, diff_only: bool
    ) -> Iterator[ExtractTask | HeadSlice]:
        """Yield the batches of commits, then the slices of HEAD, so that no worker idles between the two."""
        for shas in split_into_batches(start.pending_commits, self.options.commit_batch):
            yield ExtractTask(self.repository.reopen_path, rules, shas, diff_only)
        yield from split_into_slices(self.repository.reopen_path, head_update.changed_files)

    def _write_head(self, writer: IndexWriter, parsed_files: ParsedFiles, progress: Progress) -> Progress:
        write.write_head(writer, parsed_files, self.profile)
        return replace(
            progress,
            head_symbols=progress.head_symbols + parsed_files.symbols.num_rows,
            unreadable_head_files=progress.unreadable_head_files + parsed_files.unreadable_paths,
        )

    def _finish_run(
        self, writer: IndexWriter, head: str, start: RunStart, head_update: HeadUpdate, progress: Progress
    ) -> RunResult:
        is_head_readable = not progress.unreadable_head_files
        return write.finish_run(
            writer,
            head,
            start,
            self.profile,
            has_new_head_rows=head_update.replaces_all_rows and is_head_readable,
            has_complete_head=not head_update.read_error and is_head_readable,
        )

    def _count_jobs(self, start: RunStart, head_update: HeadUpdate) -> int:
        """Return the number of workers: at most one per batch or slice, because a start costs as much as a batch."""
        return max(1, min(self.workers.jobs, max(self._count_batches(start), head_update.slice_count)))

    def _count_batches(self, start: RunStart) -> int:
        return -(-len(start.pending_commits) // self.options.commit_batch)


def _update_progress(progress: Progress, batch: ExtractedBatch, watermark: str | None) -> Progress:
    """Return the progress after a batch. `watermark`: None if the batch has only retried commits."""
    return replace(
        progress,
        processed_commits=progress.processed_commits + len(batch.shas),
        written_commits=progress.written_commits + batch.commits.num_rows,
        written_hunks=progress.written_hunks + batch.hunks.num_rows,
        watermark=watermark or progress.watermark,
    )
