"""Main line of an index run, which has two parts.

1. Extract: write the rows of all commits and of the HEAD snapshot, except the vectors. This takes a small part of the
   time. After it, queries find the whole history by its words.
2. Embed: write the vectors of the texts that have none.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

import pyarrow as pa

from pipeline import head_symbols, write
from pipeline.component_versions import get_encoder_name
from pipeline.embed import (
    TEXTS_PER_TASK,
    TEXTS_PER_TRANSACTION,
    EmbeddingCacheSession,
    EmbeddingStage,
    use_cluster,
)
from pipeline.encoders.base import Encoder
from pipeline.extract import ExtractedBatch, ExtractTask
from pipeline.git.errors import UnreadableObject
from pipeline.git.libgit2 import check_alternates, check_objects
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
from pipeline.history_refresh import HistoryRefresh, RefreshResult
from pipeline.ignore import IgnoreRules
from pipeline.options import EmbedCacheMode
from pipeline.profile import Profile
from pipeline.walk import split_into_chunks
from pipeline.workers import check_free_memory, count_jobs, map_groups
from pipeline.write import RunStart
from stores import embedding_cache
from stores.compatibility import CompatibilityVerdict
from stores.connections import IndexWriter
from stores.history import UnreadableCommit
from stores.index_location import IndexLocation
from stores.maintenance import delete_index

# Commits per batch, which is written in one transaction.
COMMITS_PER_BATCH: Final = 100

# Maximum number of consecutive batches per task, which reuses the syntax trees of its earlier batches. With one batch,
# two workers together parse for 40 % more time than one worker, and with four batches 13 % (README.md).
BATCHES_PER_TASK: Final = 4
# Tasks per worker in a group. More tasks would take more memory. Fewer tasks would take more time, because the workers
# wait for each other at the end of a group.
TASKS_PER_WORKER: Final = 2


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of an index run.

    `commit_batch`: commits per transaction.
    `force`: parse every file of HEAD again, and extract outdated symbols and terms of the history again.
    `rebuild`: delete the index first.
    `embed_cache`: embedding cache mode; None keeps the mode of the index.
    `embed_batch`: texts per call of the encoder.
    `skip_vectors`: stop after the first part; a later run embeds the texts.
    `branch_patterns`: patterns of refs to index besides HEAD. They are added to those recorded in the index.
    `head_only`: index only HEAD, and delete the recorded patterns.
    `scheduler`: address of a Dask scheduler whose workers embed; None embeds on this machine.
    """

    commit_batch: int = COMMITS_PER_BATCH
    force: bool = False
    rebuild: bool = False
    embed_cache: EmbedCacheMode | None = None
    embed_batch: int = TEXTS_PER_TASK
    skip_vectors: bool = False
    branch_patterns: tuple[str, ...] = ()
    head_only: bool = False
    scheduler: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of an index run, reported after each batch of commits or texts.

    `total_commits`: number of commits to index. `processed_commits`: how many of them are done. Both numbers include
    commits that get no row, because they are unreadable or change only ignored files.
    `written_commits`, `written_hunks`, `head_symbols`: number of rows written so far.
    `unreadable_head_files`: paths of files at HEAD that could not be read.
    `watermark`: commit whose whole history is indexed; None as long as this run has not moved the watermark.
    `total_texts`: number of texts to embed; 0 during the first part. `embedded_texts`: how many of them are done.
    """

    processed_commits: int = 0
    total_commits: int = 0
    written_commits: int = 0
    written_hunks: int = 0
    head_symbols: int = 0
    unreadable_head_files: tuple[str, ...] = ()
    watermark: str | None = None
    embedded_texts: int = 0
    total_texts: int = 0


@dataclass(frozen=True, slots=True)
class HeadUpdate:
    """Changes that bring the HEAD snapshot (symbols and chunks of the files at HEAD) up to date.

    `changed_files`: files to parse. `removed_paths`: files whose rows to delete.
    `replaces_all_rows`: whether all files at HEAD are parsed, so that no row of an earlier run remains.
    `read_error`: why the tree of HEAD could not be read; empty if it was read. With an error there are no changes.
    """

    changed_files: tuple[HeadFile, ...] = ()
    removed_paths: tuple[str, ...] = ()
    replaces_all_rows: bool = False
    read_error: str = ""

    @property
    def slice_count(self) -> int:
        """Number of slices, which are the tasks for the changed files."""
        return math.ceil(len(self.changed_files) / FILES_PER_SLICE)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Result of an index run.

    `commits`, `hunks`, `head_symbols`: number of rows that this run has written.
    `indexed_commits`: number of commits in the index after the run.
    `unreadable_commits`, `unreadable_head_files`: commits, and paths at HEAD, that the next run will try to read again.
    `unreadable_refs`: branches to index whose newest commit could not be read.
    `head_error`: why the tree of HEAD could not be read; empty if it was read.
    `refresh`: result of replacing outdated rows of the history (`RunOptions.force`).
    `verdict`: compatibility of the index with this program.
    `seconds`: wall time. `workers`: number of worker processes.
    `pending_texts`: number of texts that still have no vector.
    """

    head: str
    commits: int
    hunks: int
    head_symbols: int
    indexed_commits: int
    unreadable_commits: tuple[UnreadableCommit, ...]
    unreadable_head_files: tuple[str, ...]
    unreadable_refs: tuple[str, ...]
    head_error: str
    refresh: RefreshResult
    verdict: CompatibilityVerdict
    seconds: float
    workers: int
    profile: Profile
    pending_texts: int = 0


@dataclass(frozen=True, slots=True)
class IndexRun:
    """Index run over one repository. The caller holds the run lock of the index.

    `workers`: number of processes that extract. `threads`: number of threads that embed. The rows do not depend on
    these numbers. None: the number that `joblib.parallel_config` has set.
    `report`: called with the progress before the first batch of each part, and after each batch.
    `keep_encoder`: keep the model in memory at the end, for the next run.
    """

    repository: Repository
    location: IndexLocation
    options: RunOptions
    encoder: Encoder
    workers: int | None = 1
    threads: int | None = 1
    report: Callable[[Progress], None] = lambda _: None
    keep_encoder: bool = False
    profile: Profile = field(default_factory=Profile)

    def run(self) -> RunSummary:
        """Index the commits of HEAD and of the branch patterns. The next run continues after an interruption.

        Raises OutOfMemory without enough memory, NothingToIndex without a commit, and IncompatibleIndex if the index
        has to be rebuilt. If a commit or a file at HEAD could not be read, raises at the end StorageError without the
        permission to read some objects, and DamagedRepository if no commit is indexed and an alternate object directory
        is missing.
        """
        check_free_memory()
        start_time = time.perf_counter()
        rules = IgnoreRules.from_repository(self.repository)
        head = self._read_head()
        patterns = self._choose_branch_patterns()
        cache_mode = self._delete_index_for_rebuild() if self.options.rebuild else self.options.embed_cache
        with IndexWriter(self.location) as writer:
            start = self._start_run(writer, head, cache_mode, patterns)
            head_update = self._plan_head_update(start, rules, head)
            self.repository.release_memory()
            progress = self._extract(writer, start, head_update, rules)
            refresh = self._refresh_history(writer, start) if self.options.force else RefreshResult()
            is_head_complete = not (head_update.read_error or progress.unreadable_head_files)
            pending = write.finish_extraction(
                writer,
                head,
                start,
                self.profile,
                is_head_rebuilt=head_update.replaces_all_rows and is_head_complete,
                is_head_complete=is_head_complete,
            )
            if pending.num_rows and not self.options.skip_vectors:
                progress = self._embed(writer, start, pending, progress, head if is_head_complete else None)
            # `finish_run` may copy the index, so free the memory of the model first.
            if not self.keep_encoder:
                self.encoder.unload()
            result = write.finish_run(writer, start, self.profile)
        if result.unreadable_commits or not is_head_complete:
            check_objects(self.repository.objects_dir)
            if not result.commits:
                check_alternates(self.repository.objects_dir)
        return RunSummary(
            head=head,
            commits=progress.written_commits,
            hunks=progress.written_hunks,
            head_symbols=progress.head_symbols,
            indexed_commits=result.commits,
            unreadable_commits=result.unreadable_commits,
            unreadable_head_files=progress.unreadable_head_files,
            unreadable_refs=start.unreadable_refs,
            head_error=head_update.read_error,
            refresh=refresh,
            verdict=result.verdict,
            seconds=time.perf_counter() - start_time,
            workers=max(self._count_needed_workers(start, head_update), refresh.workers),
            profile=self.profile,
            pending_texts=pending.num_rows - progress.embedded_texts,
        )

    def _read_head(self) -> str:
        head = self.repository.read_head()
        if head is None:
            raise self.repository.build_head_error()
        return head

    def _choose_branch_patterns(self) -> Sequence[str] | None:
        """Return the patterns of refs to index besides HEAD; None to keep those of the index."""
        if self.options.head_only:
            return ()
        if not (self.options.branch_patterns or self.options.rebuild):
            return None
        # Read the recorded patterns now, because a rebuild deletes them.
        recorded_patterns = write.load_branch_patterns(self.location)
        return list(dict.fromkeys((*recorded_patterns, *self.options.branch_patterns)))

    def _delete_index_for_rebuild(self) -> EmbedCacheMode | None:
        """Delete the index. Return the embedding cache mode of the options, or else that of the deleted index."""
        mode = self.options.embed_cache or write.get_cache_mode(write.load_index_versions(self.location))
        delete_index(self.location)
        return mode

    def _start_run(
        self,
        writer: IndexWriter,
        head: str,
        cache_mode: EmbedCacheMode | None,
        branch_patterns: Sequence[str] | None,
    ) -> RunStart:
        encoder_name = get_encoder_name(self.encoder.name)
        with self.profile.measure("walk"):
            return write.start_run(writer, self.repository, head, cache_mode, encoder_name, branch_patterns)

    def _plan_head_update(self, start: RunStart, rules: IgnoreRules, head: str) -> HeadUpdate:
        """Compare the files at HEAD with the recorded HEAD snapshot. With `force`, every file counts as changed."""
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

    def _extract(
        self, writer: IndexWriter, start: RunStart, head_update: HeadUpdate, rules: IgnoreRules
    ) -> Progress:
        """Extract commits and parse files at HEAD in workers. Write the results here: commits in order, then HEAD."""
        progress = Progress(total_commits=len(start.pending_commits))
        if progress.total_commits:
            self.report(progress)
        jobs = self._count_needed_workers(start, head_update)
        tasks = self._list_tasks(start, head_update, rules, jobs)
        groups = split_into_chunks(tasks, TASKS_PER_WORKER * jobs)
        with closing(map_groups(run_task, groups, jobs=jobs, prefer="processes")) as results:
            for rows in chain.from_iterable(results):
                if isinstance(rows, ParsedFiles):
                    progress = self._write_head(writer, rows, progress)
                else:
                    progress = self._write_batch(writer, rows, start, progress)
                del rows  # frees them while the workers run
        if head_update.removed_paths:
            progress = self._write_head(writer, build_deletion(head_update.removed_paths), progress)
        return progress

    def _list_tasks(
        self, start: RunStart, head_update: HeadUpdate, rules: IgnoreRules, jobs: int
    ) -> Iterator[ExtractTask | HeadSlice]:
        """Yield tasks for the commits, then for the files at HEAD: one sequence, so that no worker waits in between."""
        batches_per_task = max(1, min(BATCHES_PER_TASK, math.ceil(self._count_batches(start) / jobs)))
        batches = split_into_chunks(start.pending_commits, self.options.commit_batch)
        diff_only = start.cache_mode is EmbedCacheMode.DIFF
        for task_batches in split_into_chunks(batches, batches_per_task):
            yield ExtractTask(self.repository.path_to_reopen, rules, task_batches, diff_only)
        yield from split_into_slices(self.repository.path_to_reopen, head_update.changed_files)

    def _write_batch(
        self, writer: IndexWriter, batch: ExtractedBatch, start: RunStart, progress: Progress
    ) -> Progress:
        self.profile.merge(batch.profile)
        watermark = write.write_batch(writer, batch, start, self.profile)
        progress = _update_progress(progress, batch, watermark)
        self.report(progress)
        return progress

    def _write_head(self, writer: IndexWriter, parsed_files: ParsedFiles, progress: Progress) -> Progress:
        write.write_head(writer, parsed_files, self.profile)
        return replace(
            progress,
            head_symbols=progress.head_symbols + parsed_files.symbols.num_rows,
            unreadable_head_files=progress.unreadable_head_files + parsed_files.unreadable_paths,
        )

    def _refresh_history(self, writer: IndexWriter, start: RunStart) -> RefreshResult:
        return HistoryRefresh(
            self.repository,
            writer,
            start.components,
            new_commits=start.pending_commits,
            commits_per_batch=self.options.commit_batch,
            batches_per_task=BATCHES_PER_TASK,
            tasks_per_worker=TASKS_PER_WORKER,
            workers=self.workers,
            profile=self.profile,
        ).run()

    def _embed(
        self,
        writer: IndexWriter,
        start: RunStart,
        pending: pa.Table,
        progress: Progress,
        completed_commit: str | None,
    ) -> Progress:
        """Embed the pending texts. `completed_commit`: commit to record as completely indexed at the end, if any."""
        with ExitStack() as stack:
            threads, texts_per_transaction = self.threads, TEXTS_PER_TRANSACTION
            if self.options.scheduler:
                cluster_threads = stack.enter_context(use_cluster(self.options.scheduler))
                threads = None
                texts_per_transaction = max(
                    TEXTS_PER_TRANSACTION, TASKS_PER_WORKER * cluster_threads * self.options.embed_batch
                )
            stage = EmbeddingStage(
                self.encoder,
                writer,
                self.profile,
                cache=self._open_cache(stack, start),
                diff_only=start.cache_mode is EmbedCacheMode.DIFF,
                jobs=threads,
                texts_per_task=self.options.embed_batch,
                texts_per_transaction=texts_per_transaction,
            )
            progress = replace(progress, total_texts=pending.num_rows)
            self.report(progress)
            for done_count in stage.embed(pending, completed_commit):
                progress = replace(progress, embedded_texts=done_count)
                self.report(progress)
        return progress

    def _open_cache(self, stack: ExitStack, start: RunStart) -> EmbeddingCacheSession | None:
        """Open the embedding cache until the stack closes; None if it is off, or if another process uses it."""
        if start.cache_mode is EmbedCacheMode.OFF:
            return None
        cache = stack.enter_context(embedding_cache.open_cache(self.location, self.encoder.name))
        return EmbeddingCacheSession(cache, start.cache_mode) if cache else None

    def _count_needed_workers(self, start: RunStart, head_update: HeadUpdate) -> int:
        """Return the number of workers, at most the larger of the numbers of batches and of slices.

        Starting a worker takes as long as processing a batch.
        """
        task_count = max(1, self._count_batches(start), head_update.slice_count)
        return min(count_jobs(self.workers), task_count)

    def _count_batches(self, start: RunStart) -> int:
        return math.ceil(len(start.pending_commits) / self.options.commit_batch)


def _update_progress(progress: Progress, batch: ExtractedBatch, watermark: str | None) -> Progress:
    """Return the progress after a batch. `watermark`: None if the batch did not move it."""
    return replace(
        progress,
        processed_commits=progress.processed_commits + len(batch.shas),
        written_commits=progress.written_commits + batch.commits.num_rows,
        written_hunks=progress.written_hunks + batch.hunk_count,
        watermark=watermark or progress.watermark,
    )
