"""Refresh of the history by `lineage index --force`: replacement of outdated symbols and terms.

If a parser or the splitting into terms has a new version, the commits of the affected hunks are read from git again.
Each batch of commits is one transaction. Of a hunk, only symbols, terms and word counts are replaced.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline import write
from pipeline.extract import ExtractedBatch, ExtractTask, extract_batches
from pipeline.git.repository import Repository
from pipeline.profile import Profile
from pipeline.walk import split_into_chunks
from pipeline.workers import count_jobs, map_groups
from stores import compatibility
from stores.compatibility import ComponentVersions
from stores.connections import IndexWriter
from stores.history import UnreadableCommit
from stores.writer import RefreshedRows, finish_refresh, start_refresh

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecordedPaths:
    """Path filter that excludes all paths except those of recorded hunks. It replaces the current ignore rules."""

    paths: frozenset[str]

    def is_ignored(self, path: str) -> bool:
        """Return whether the path is excluded, because no recorded hunk has it."""
        return path not in self.paths


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """Result of a refresh.

    `hunks`: number of hunks whose symbols and terms were replaced.
    `failed_commits`: commits with hunks that could not be extracted again and keep their outdated rows.
    `workers`: number of worker processes.
    """

    hunks: int = 0
    failed_commits: tuple[UnreadableCommit, ...] = ()
    workers: int = 0


@dataclass(frozen=True, slots=True)
class HistoryRefresh:
    """Refresh of the history of an index.

    `components`: component versions of this run.
    `new_commits`: commits that this run has indexed. They are left out, because their rows are up to date.
    `commits_per_batch`: commits per transaction. `batches_per_task`: maximum number of batches in a task.
    `tasks_per_worker`: tasks that are submitted at a time, for each worker.
    `workers`: number of worker processes; None leaves the number to `joblib.parallel_config`.
    """

    repository: Repository
    writer: IndexWriter
    components: ComponentVersions
    new_commits: Sequence[str]
    commits_per_batch: int
    batches_per_task: int
    tasks_per_worker: int
    workers: int | None
    profile: Profile

    def run(self) -> RefreshResult:
        """Replace the outdated rows. If all were replaced, record the new versions."""
        with self.writer.open_batch() as connection:
            recorded_versions = compatibility.load_recorded_versions(connection)
            stale_components = compatibility.find_stale_history_components(recorded_versions, self.components)
            if not stale_components:
                return RefreshResult()
            outdated_commits = start_refresh(connection, stale_components)
        is_new = pc.is_in(outdated_commits["commit_sha"], pa.array(self.new_commits, pa.string()))
        commits = outdated_commits.filter(pc.invert(is_new))
        starts = range(0, commits.num_rows, self.commits_per_batch)
        batches = [commits.slice(start, self.commits_per_batch) for start in starts]
        workers = min(count_jobs(self.workers), max(1, len(batches)))
        results = list(self._refresh_batches(batches, workers))
        failed_commits = tuple(commit for result in results for commit in result.failed_commits)
        if not failed_commits:
            with self.profile.measure("storage"), self.writer.open_batch() as connection:
                finish_refresh(connection, stale_components)
        return RefreshResult(sum(result.hunks for result in results), failed_commits, workers)

    def _refresh_batches(self, batches: Sequence[pa.Table], workers: int) -> Iterator[RefreshResult]:
        """Replace the rows of each batch; yield the results. `batches`: slices of the rows of `start_refresh`."""
        batches_per_task = max(1, min(self.batches_per_task, len(batches) // workers))
        tasks = map(self._build_task, split_into_chunks(batches, batches_per_task))
        groups = split_into_chunks(tasks, self.tasks_per_worker * workers)
        done, total = 0, sum(batch.num_rows for batch in batches)
        with closing(map_groups(extract_batches, groups, jobs=workers, prefer="processes")) as results:
            for batch, extracted in zip(batches, chain.from_iterable(results), strict=True):
                yield self._replace_rows(batch, extracted)
                done += batch.num_rows
                logger.info("event=refreshing commits=%d total=%d", done, total)

    def _build_task(self, batches: Sequence[pa.Table]) -> ExtractTask:
        lists_of_paths = [
            paths
            for commits in batches
            # `merged_paths`: files that differ in a merge without hunks.
            for name in ("file_paths", "old_paths", "merged_paths")
            for paths in commits[name].drop_null().to_pylist()
        ]
        recorded_paths = frozenset(path for paths in lists_of_paths for path in paths if path is not None)
        shas = tuple(tuple(commits["commit_sha"].to_pylist()) for commits in batches)
        return ExtractTask(self.repository.path_to_reopen, RecordedPaths(recorded_paths), shas)

    def _replace_rows(self, commits: pa.Table, extracted: ExtractedBatch) -> RefreshResult:
        """Write the new rows of a batch. A commit fails if one of its recorded hunks was not extracted again."""
        hunk_id_by_key = dict(_iter_hunks(commits))
        keys = list(_zip_columns(extracted.hunks, "commit_sha", "file_path"))
        rows = _select_rows(extracted, pa.array(map(hunk_id_by_key.get, keys), pa.int64()))
        write.write_refreshed_rows(self.writer, rows, self.profile)
        self.profile.merge(extracted.profile)
        extracted_keys = set(keys)
        failed_shas = dict.fromkeys(key[0] for key in hunk_id_by_key if key not in extracted_keys)
        reasons = dict(_zip_columns(extracted.unreadable_commits, "commit_sha", "reason"))
        return RefreshResult(
            rows.hunks.num_rows,
            tuple(
                UnreadableCommit(sha, reasons.get(sha, "git now gives other hunks than the recorded ones"))
                for sha in failed_shas
            ),
        )


def _iter_hunks(commits: pa.Table) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield ((SHA of the commit, path), hunk id) of each recorded hunk. A commit has one hunk per path."""
    for sha, hunk_ids, paths in _zip_columns(commits, "commit_sha", "hunk_ids", "file_paths"):
        yield from (((sha, path), hunk_id) for hunk_id, path in zip(hunk_ids, paths, strict=True))


def _zip_columns(rows: pa.Table | pa.RecordBatch, *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield the values of the named columns for each row."""
    return zip(*(rows[name].to_pylist() for name in names), strict=True)


def _select_rows(extracted: ExtractedBatch, hunk_ids: pa.Array) -> RefreshedRows:
    """Return the extracted rows of those hunks that are recorded, with the ids of these hunks in the index.

    `hunk_ids`: id in the index of each extracted hunk; null if the hunk is not recorded.
    """

    def renumber(rows: pa.RecordBatch, column: str) -> pa.RecordBatch:
        ids = hunk_ids.take(rows[column])
        position = rows.schema.get_field_index(column)
        return rows.set_column(position, column, ids).filter(ids.is_valid())

    return RefreshedRows(
        hunks=renumber(extracted.hunks, "hunk_id"),
        hunk_symbols=renumber(extracted.hunk_symbols, "hunk_id"),
        # A document of these postings is a hunk.
        hunk_terms=renumber(extracted.hunk_terms, "document"),
        symbol_terms=renumber(extracted.symbol_terms, "document"),
    )
