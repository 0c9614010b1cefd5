"""Data that the index adds to an explanation (indexed and related commits), and sentences about missing data.

A hit is a commit that blame found for a requested line. Related commits are the commits just before and after a hit in
the history of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from pipeline.git.git_cli import GitProgram
from pipeline.git.patches import strip_file_header
from pipeline.git.repository import Repository, UnreadableObject
from pipeline.hunks import OVERSIZE_BYTES
from pipeline.interrupts import check_cancelled
from pipeline.walk import HISTORY_ARGUMENTS, sort_newest_first
from serve.api_types import format_rfc3339
from serve.excerpts import split_sections
from serve.explain.blame import BlamedLine, LineOrigin
from serve.explain.cache import BoundedCache, compute_history_key
from serve.explain_types import RelatedCommit
from serve.index_status import (
    IndexStatus,
    build_index_hints,
    build_status_without_index,
    load_index_status,
)
from stores import errors, history, hunk_details
from stores.connections import ReaderPools
from stores.database import DamagedIndex, NotIndexed
from stores.errors import LineageError, StorageError
from stores.history import FileCommit
from stores.hunk_details import Connection, load_hunk_details
from stores.index_copy import COPY_AFTER_SECONDS, OpenIndex
from stores.index_location import IndexLocation
from stores.locks import IndexBusy
from stores.migrations import NewerSchema

# This many commits before each hit in the file's history are related commits, and as many after it.
MAX_RELATED_DISTANCE: Final = 2
# Maximum wait for the index: long enough to try a copy after COPY_AFTER_SECONDS, and then the index again. An index run
# holds the index for 60 ms per batch. A rebuild holds it for longer than this, so the answer then lacks the index.
LOCK_WAIT_SECONDS: Final = 2 * COPY_AFTER_SECONDS


@dataclass(frozen=True, slots=True)
class Enrichment:
    """Data that the index adds to an answer.

    `indexed_commits`: blamed commits that the index has. `related_commits`: newest first. `lacks_file`: True if related
    commits were requested, but the index has no change of the file. `error`: why the index could not be read; empty if
    it was read or does not exist.
    """

    indexed_commits: frozenset[str] = frozenset()
    related_commits: tuple[RelatedCommit, ...] = ()
    lacks_file: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class FileHistoryReader:
    """Reader of the index for one explanation.

    `index`: None if there is no index or it cannot be read. `error`: why it cannot be read; else empty.
    `file_history`: each indexed commit that changed the file, newest first, with the id of its hunk (the commit's diff
    of the file); None if the request excludes related commits or `index` is None. `walked_history`: without an index,
    git's output with a line for each commit reachable from HEAD, children first: its sha and the shas of its parents.
    Empty with an index.
    """

    status: IndexStatus
    index: OpenIndex | None = None
    error: str = ""
    file_history: tuple[tuple[str, int], ...] | None = None
    walked_history: bytes = b""

    @property
    def is_copy(self) -> bool:
        """True if `index` is a copy, because another process holds the index."""
        return self.index is not None and self.index.holder is not None

    def load_enrichment(
        self, repository: Repository, shas: Sequence[str], hit_shas: Sequence[str]
    ) -> Enrichment:
        """Look up which of the commits `shas` are indexed, and find the commits related to the hits."""
        if self.index is None:
            return Enrichment(error=self.error)
        connection = self.index.connection
        try:
            with self.index.translate_errors():
                hunk_ids = dict(self.file_history or ())
                indexed_shas = hunk_ids.keys() & set(shas)
                if other_shas := set(shas) - indexed_shas:
                    indexed_shas |= history.find_recorded_commits(connection, other_shas)
                if self.file_history is None:
                    return Enrichment(frozenset(indexed_shas))
                related_shas = find_related_commits(list(hunk_ids), hit_shas)
                related_hunks = [hunk for sha, hunk in hunk_ids.items() if sha in related_shas]
                related_commits = tuple(
                    _build_related_commit(repository, connection, commit)
                    for commit in history.load_file_commits(connection, related_hunks)
                )
                return Enrichment(frozenset(indexed_shas), related_commits, lacks_file=not hunk_ids)
        except (DamagedIndex, IndexBusy, StorageError) as error:
            return Enrichment(error=_format_error(error))

    def find_possible_copies(self, shas: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return for each commit the commits that may be copies of it; an empty mapping without a readable index."""
        if self.index is None:
            return {}
        with suppress(DamagedIndex, IndexBusy, StorageError), self.index.translate_errors():
            return hunk_details.find_possible_copies(self.index.connection, self.status.reachability, shas)
        return {}

    def find_reverts(self, shas: Sequence[str]) -> Mapping[str, str]:
        """Return the newest revert of each reverted commit; an empty mapping without a readable index."""
        if self.index is None:
            return {}
        with suppress(DamagedIndex, IndexBusy, StorageError), self.index.translate_errors():
            return hunk_details.find_reverts(self.index.connection, self.status.reachability, shas)
        return {}


@contextmanager
def open_file_history(
    repository: Repository,
    location: IndexLocation | None,
    git: GitProgram,
    histories: BoundedCache[bytes],
    reader_pools: ReaderPools,
    path: str | None = None,
) -> Iterator[FileHistoryReader]:
    """Open the index for an explanation. If it is missing or cannot be read, the reader has no index.

    The index stays open until the context ends: if it were opened twice, an index run could lock it in between.
    `path`: file whose history to read; None to read none. `histories`: cache of the histories that git walks if there
    is no index. Walking a history can take longer than blame.
    """
    with ExitStack() as stack:
        yield _open_reader(stack, repository, location, git, histories, reader_pools, path)


def find_related_commits(shas: Sequence[str], hit_shas: Iterable[str]) -> set[str]:
    """Return the commits at most MAX_RELATED_DISTANCE positions from a hit, without the hits.

    `shas`: commits that changed the file, newest first. `hit_shas`: the hits.
    """
    positions = {sha: position for position, sha in enumerate(shas)}
    excluded_shas = set(hit_shas)
    hit_positions = [positions[sha] for sha in excluded_shas if sha in positions]
    return {
        sha
        for position in hit_positions
        for sha in shas[max(0, position - MAX_RELATED_DISTANCE) : position + MAX_RELATED_DISTANCE + 1]
    } - excluded_shas


def _open_reader(
    stack: ExitStack,
    repository: Repository,
    location: IndexLocation | None,
    git: GitProgram,
    histories: BoundedCache[bytes],
    reader_pools: ReaderPools,
    path: str | None,
) -> FileHistoryReader:
    """Return a reader of the index, open until the stack is closed; a reader without an index if it cannot be read."""
    reason = ""
    if location is not None:
        try:
            index = stack.enter_context(reader_pools.acquire(location, wait=LOCK_WAIT_SECONDS, threads=1))
            with index.translate_errors():
                status = load_index_status(
                    repository, index.connection, location=index.location, index_holder=index.holder
                )
                file_history = None
                if path is not None:
                    sort_commits = partial(sort_newest_first, repository=repository, git=git)
                    file_history = history.load_file_history(
                        index.connection, path, status.reachability, sort_commits
                    )
                return FileHistoryReader(status, index, file_history=file_history)
        except NotIndexed:
            pass
        except (DamagedIndex, IndexBusy, NewerSchema, StorageError) as error:
            reason = _format_error(error)
        except OSError as error:
            reason = _format_error(errors.from_os_error(error) or error)
    return _create_reader_without_index(repository, git, histories, reason)


def _create_reader_without_index(
    repository: Repository, git: GitProgram, histories: BoundedCache[bytes], error: str
) -> FileHistoryReader:
    """Return a reader without an index. Its status counts all commits of HEAD as commits that the index lacks."""
    head = repository.read_head()
    if head is None:
        return FileHistoryReader(build_status_without_index(repository), error=error)
    key = compute_history_key(repository, head)
    walked_history = histories.get(key)
    if walked_history is None:
        result = git.run(*HISTORY_ARGUMENTS, head)
        if result.exit_code:  # not cached: after a timeout, the next call may succeed
            walked_history = b""
        else:
            walked_history = result.stdout
            histories.put(key, walked_history, len(walked_history))
    count = walked_history.count(b"\n") or len(repository.walk(head))  # the history is empty if git failed
    return FileHistoryReader(IndexStatus(commits_behind=count), error=error, walked_history=walked_history)


def _format_error(error: LineageError | OSError) -> str:
    """Return an error and its hint on one line."""
    return " ".join(str(error).split())


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage of the blamed lines by the index.

    `lines`: number of all blamed lines. `indexable`: number of lines whose commit can be indexed. `indexed`: number of
    lines whose commit is in the index.
    """

    lines: int
    indexable: int
    indexed: int

    @property
    def share(self) -> float:
        """Share of the lines whose commit is in the index, 0 to 1."""
        return round(self.indexed / self.lines, 6) if self.lines else 0.0


def measure_coverage(
    lines: Sequence[BlamedLine],
    lines_by_commit: Mapping[str, list[BlamedLine]],
    repository: Repository,
    enrichment: Enrichment,
) -> Coverage:
    """Count the blamed lines. Uncommitted lines and lines of a shallow clone's oldest commits are not indexable."""
    counts = {sha: len(commit_lines) for sha, commit_lines in lines_by_commit.items()}
    return Coverage(
        lines=len(lines),
        indexable=sum(count for sha, count in counts.items() if sha not in repository.shallow_boundary),
        indexed=sum(count for sha, count in counts.items() if sha in enrichment.indexed_commits),
    )


def _build_related_commit(
    repository: Repository, connection: Connection, commit: FileCommit
) -> RelatedCommit:
    return RelatedCommit(
        commit_sha=commit.commit_sha,
        commit_message=commit.commit_message,
        commit_author=commit.commit_author,
        commit_date=format_rfc3339(commit.commit_date),
        touched_hunks=_count_sections(repository, connection, commit),
    )


def _count_sections(repository: Repository, connection: Connection, commit: FileCommit) -> int:
    """Return the number of `@@` sections in a commit's diff of a file; for a merge, only of those that it made itself.

    The two versions of the file are compared, which usually takes 0.3 ms, and 30 ms for 1 MB with thousands of changes.
    The indexed diff is read, in 10 ms, only for a merge, for a root commit, and if a version of the file is missing.
    """
    check_cancelled()
    parents = repository.read_parents(commit.commit_sha)
    if len(parents) == 1:
        with suppress(UnreadableObject):
            previous = parents[0], commit.old_path
            # The index has escaped text for an old path that is not UTF-8, so the parent lacks that path.
            if commit.old_path == commit.path or repository.find_entry(*previous):
                diff = diff_versions(repository, LineOrigin(commit.commit_sha, commit.path, previous))
                return len(split_sections(diff or ""))
    (details,) = load_hunk_details(connection, [commit.hunk_id])
    return len(split_sections(details.diff))


def diff_versions(repository: Repository, origin: LineOrigin) -> str | None:
    """Return the `@@` sections of the change to the file of `origin`; None if a version is too large to compare."""
    new = repository.find_entry(origin.commit_sha, origin.path)
    old = repository.find_entry(*origin.previous) if origin.previous else None
    blobs = [entry.sha if entry else None for entry in (old, new)]
    if any(repository.read_blob_size(blob) > OVERSIZE_BYTES for blob in blobs if blob):
        return None
    body = strip_file_header(repository.create_blob_patch(*blobs).data)
    return body.decode("utf-8", errors="replace")


def describe_enrichment_limitation(
    reader: FileHistoryReader, enrichment: Enrichment, path: str
) -> str | None:
    """Return a sentence about the data that the index could not add to the answer; None if it added everything."""
    if enrichment.error:
        return f"The index could not be read. {enrichment.error}"
    if reader.index is None:
        return "There is no index, so coverage and related commits are unknown."
    if reader.status.commits_behind:  # the number of these commits is in `build_hint`
        return "The index is behind HEAD: related commits may be missing."
    if enrichment.lacks_file:
        return f"The index has no change of {path}, so there are no related commits."
    return None


def describe_missing_index(reader: FileHistoryReader) -> str:
    """Return a sentence about what the earlier commits of lines (`line_evolution`) lack without a readable index."""
    reason = "The index cannot be read" if reader.error else "There is no index"
    remedy = "" if reader.error else " Run `lineage index`."
    return (
        f"{reason}, so a line that was removed and later restored counts as introduced, "
        f"and some possible earlier commits may be missing.{remedy}"
    )


def build_hint(reader: FileHistoryReader, enrichment: Enrichment, coverage: Coverage) -> str | None:
    """Return sentences that say what is wrong with the index and what to do; None if nothing is wrong."""
    if enrichment.error:
        return enrichment.error
    if reader.status.verdict is None:  # there is no index
        if not reader.status.commits_behind:
            return reader.status.head_error
        return (
            "This repository is not indexed yet. Blame needs no index. "
            "Run `lineage index` to see related commits and to use `lineage query`."
        )
    hints = list(build_index_hints(reader.status))
    if coverage.indexed < coverage.indexable and not reader.status.commits_behind:
        hints.append("Some lines come from commits that are not indexed: run `lineage index`.")
    return " ".join(hints) or None
