"""Enrichment of an answer from the index: indexed commits, and neighbouring commits in the file's history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from pipeline.git.git_cli import GitProgram
from pipeline.git.repository import Repository
from serve.explain.cache import BoundedCache, history_key
from serve.index_status import IndexStatus, load_index_status
from stores import database, errors, history
from stores.database import DamagedIndex, NotIndexed
from stores.errors import LineageError, StorageError
from stores.history import FileCommit
from stores.hunk_details import Connection
from stores.index_location import IndexLocation
from stores.locks import IndexBusy
from stores.migrations import NewerSchema

# From the specification: commits to show before and after each hit.
MAX_NEIGHBOURS: Final = 2
# Blame works without the index, so this waits for a writer's batch (60 ms) but not for a whole rebuild.
LOCK_WAIT_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Enrichment:
    """Data that the index adds to an answer.

    `indexed_commits` are the blamed commits that the index has. `neighbours` come newest first. `has_file_history` is
    False if related commits were requested and the index has no change of the file. `error` says why the index could
    not be read.
    """

    indexed_commits: frozenset[str] = frozenset()
    neighbours: tuple[FileCommit, ...] = ()
    has_file_history: bool = True
    error: str = ""


@dataclass(frozen=True, slots=True)
class FileHistoryReader:
    """Index of an explanation, open or unavailable.

    `connection` is None without a readable index; `error` says why it cannot be read. `file_history` has the commits of
    the file, oldest first, each with its hunk id; None if related commits are not requested.
    """

    status: IndexStatus
    location: IndexLocation | None = None
    connection: Connection | None = None
    error: str = ""
    file_history: tuple[tuple[str, int], ...] | None = None

    def load_enrichment(self, shas: Sequence[str], anchors: Sequence[str]) -> Enrichment:
        """Look up which of the commits are indexed, and the neighbours of the anchors in the file's history."""
        if self.connection is None or self.location is None:
            return Enrichment(error=self.error)
        try:
            with database.translate_errors(self.location):
                hunk_ids = dict(self.file_history or ())
                indexed = hunk_ids.keys() & set(shas)
                indexed |= history.find_recorded_commits(self.connection, set(shas) - indexed)
                if self.file_history is None:
                    return Enrichment(frozenset(indexed))
                neighbours = find_neighbours(list(hunk_ids), anchors)
                commits = history.load_file_commits(self.connection, [hunk_ids[sha] for sha in neighbours])
                return Enrichment(frozenset(indexed), commits, bool(hunk_ids))
        except (DamagedIndex, StorageError) as error:
            return Enrichment(error=_format_error(error))


@contextmanager
def open_file_history(
    repository: Repository,
    location: IndexLocation | None,
    git: GitProgram,
    commit_counts: BoundedCache[int],
    path: str | None = None,
) -> Iterator[FileHistoryReader]:
    """Open the index for an explanation. A missing, busy or damaged index gives a reader without a connection.

    With a `path`, the history of that file is read right away, while git blames. The index stays open until the blame
    is read: opening it again costs more than a writer has to wait. `commit_counts` caches the number of commits in
    histories without an index: counting can take git longer than the blame.
    """
    with ExitStack() as stack:
        yield _open_reader(
            stack, repository, location, path, partial(_status_without_index, repository, git, commit_counts)
        )


def find_neighbours(shas: Sequence[str], anchors: Iterable[str]) -> set[str]:
    """Return the commits within `MAX_NEIGHBOURS` positions of an anchor, without the anchors."""
    positions = {sha: position for position, sha in enumerate(shas)}
    excluded = set(anchors)
    found = [positions[sha] for sha in excluded if sha in positions]
    return {
        sha
        for position in found
        for sha in shas[max(0, position - MAX_NEIGHBOURS) : position + MAX_NEIGHBOURS + 1]
    } - excluded


def _open_reader(
    stack: ExitStack,
    repository: Repository,
    location: IndexLocation | None,
    path: str | None,
    status_without_index: Callable[[], IndexStatus],
) -> FileHistoryReader:
    if location is None:
        return FileHistoryReader(status_without_index())
    try:
        connection = stack.enter_context(database.open_for_reading(location, wait=LOCK_WAIT_SECONDS))
        with database.translate_errors(location):
            status = load_index_status(repository, connection)
            commits = (
                None if path is None else history.load_file_history(connection, path, status.reachability)
            )
            return FileHistoryReader(status, location, connection, file_history=commits)
    except NotIndexed:
        return FileHistoryReader(status_without_index())
    except (DamagedIndex, IndexBusy, NewerSchema, StorageError) as error:
        return FileHistoryReader(status_without_index(), error=_format_error(error))
    except OSError as error:
        return FileHistoryReader(
            status_without_index(), error=_format_error(errors.from_os_error(error) or error)
        )


def _status_without_index(
    repository: Repository, git: GitProgram, commit_counts: BoundedCache[int]
) -> IndexStatus:
    """Return a status that counts all commits as not indexed; git counts them, which is faster than a walk."""
    head = repository.read_head()
    if head is None:
        return IndexStatus()
    key = history_key(repository, head)
    count = commit_counts.get(key)
    if count is None:
        # The index ignores replace refs.
        output = git.run("rev-list", "--count", head)
        count = int(output.stdout) if output.exit_code == 0 else len(repository.walk(head))
        commit_counts.put(key, count)
    return IndexStatus(commits_behind=count)


def _format_error(error: LineageError | OSError) -> str:
    """Return an error and its hint on one line."""
    return " ".join(str(error).split())
