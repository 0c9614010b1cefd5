"""Data that the index adds to an explanation: indexed and related commits, and commits that changed given lines.

Related commits are the neighbours of a hit in the file's history. Searches for lines find the commit that removed a
line before, and commits that may have had its idea.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pipeline.git.commit_graph import HISTORY_ARGUMENTS, sort_newest_first
from pipeline.git.git_cli import GitProgram
from pipeline.git.repository import Repository
from serve.explain.cache import BoundedCache, compute_history_key
from serve.explain.line_similarity import build_key, extract_features, find_anchor
from serve.explain.line_sources import (
    FILE_SUPPORT,
    ROLE_SUPPORT,
    LineSource,
    SourceFinder,
    compute_support,
    find_blob,
    read_lines,
)
from serve.index_status import IndexStatus, load_index_status
from stores import errors, exact_search, history
from stores.connections import ReaderPools
from stores.database import DamagedIndex, NotIndexed
from stores.errors import LineageError, StorageError
from stores.exact_search import DiffLinePattern, LineChange
from stores.history import FileCommit
from stores.index_copy import COPY_AFTER_SECONDS, OpenIndex
from stores.index_location import IndexLocation
from stores.locks import IndexBusy
from stores.migrations import NewerSchema

# From the specification: related commits to show before and after each hit in the file's history.
MAX_RELATED_DISTANCE: Final = 2
# Blame works without the index, so a reader waits for one batch of an index run (60 ms), or for a copy of an index that
# a suspended process holds, but not for a whole rebuild.
LOCK_WAIT_SECONDS: Final = 2 * COPY_AFTER_SECONDS

# A restored line must be long: short ones recur by chance.
MIN_RESTORED_CHARACTERS: Final = 20
MIN_RESTORED_WORDS: Final = 3
# Of 22 lines, the oldest commit that adds a line's best anchor was right for 14, the three oldest for 17.
LEADS_PER_ANCHOR: Final = 3
# Patterns of one search. Each adds 5 ms to the 100 ms of a search.
MAX_PATTERNS: Final = 24


@dataclass(frozen=True, slots=True)
class Enrichment:
    """Data that the index adds to an answer.

    `indexed_commits` are the blamed commits that the index has. `related_commits` are in order, the newest first.
    `has_file_history` is False only if related commits were requested and the index has no change of the file. `error`
    says why the index could not be read; empty if it was read or does not exist.
    """

    indexed_commits: frozenset[str] = frozenset()
    related_commits: tuple[FileCommit, ...] = ()
    has_file_history: bool = True
    error: str = ""


@dataclass(frozen=True, slots=True)
class FileHistoryReader:
    """Reader of the index for one explanation.

    `index` is None if there is no index or it cannot be read. `error` says why it cannot be read; else it is "".
    `file_history` has the SHA of each indexed commit that changed the file, the newest first, and the id of its hunk
    (its diff of the file). It is None if the request excludes related commits or the index is not open.
    `walked_history`: without an index, HEAD's commits and their parents, children first, as git prints them.
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

    def load_enrichment(self, shas: Sequence[str], hit_shas: Sequence[str]) -> Enrichment:
        """Look up which of the commits are indexed, and the commits related to the hits."""
        if self.index is None:
            return Enrichment(error=self.error)
        connection = self.index.connection
        try:
            with self.index.translate_errors():
                hunk_ids = dict(self.file_history or ())
                indexed_shas = hunk_ids.keys() & set(shas)
                indexed_shas |= history.find_recorded_commits(connection, set(shas) - indexed_shas)
                if self.file_history is None:
                    return Enrichment(frozenset(indexed_shas))
                related_shas = find_related_commits(list(hunk_ids), hit_shas)
                related_hunks = [hunk for sha, hunk in hunk_ids.items() if sha in related_shas]
                related_commits = history.load_file_commits(connection, related_hunks)
                return Enrichment(frozenset(indexed_shas), related_commits, bool(hunk_ids))
        except (DamagedIndex, IndexBusy, StorageError) as error:
            return Enrichment(error=_format_error(error))

    def find_possible_copies(self, shas: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return the commits that may be copies of each of these commits; none if the index cannot be read."""
        if self.index is None:
            return {}
        with suppress(DamagedIndex, IndexBusy, StorageError), self.index.translate_errors():
            return history.find_possible_copies(self.index.connection, self.status.reachability, shas)
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
    """Open the index for an explanation. A missing, busy or damaged index gives a reader without a connection.

    With a `path`, this function also reads the file's history, while git runs blame in the background. The index stays
    open until the context ends: opening it again would take longer than an index run has to wait for the lock.
    `histories` caches the history of repositories without an index, because git can need longer to walk it than to
    blame.
    """
    with ExitStack() as stack:
        yield _open_reader(
            stack,
            repository,
            location,
            reader_pools,
            path,
            partial(sort_newest_first, repository=repository, git=git),
            partial(_create_reader_without_index, repository, git, histories),
        )


def find_related_commits(shas: Sequence[str], hit_shas: Iterable[str]) -> set[str]:
    """Return the commits within `MAX_RELATED_DISTANCE` positions of a hit, without the hits."""
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
    reader_pools: ReaderPools,
    path: str | None,
    sort_commits: Callable[[Mapping[str, int]], list[str]],
    create_reader_without_index: Callable[..., FileHistoryReader],
) -> FileHistoryReader:
    if location is None:
        return create_reader_without_index()
    try:
        index = stack.enter_context(reader_pools.acquire(location, wait=LOCK_WAIT_SECONDS))
        with index.translate_errors():
            status = load_index_status(
                repository, index.connection, location=index.location, index_holder=index.holder
            )
            file_history = (
                None
                if path is None
                else history.load_file_history(index.connection, path, status.reachability, sort_commits)
            )
            return FileHistoryReader(status, index, file_history=file_history)
    except NotIndexed:
        return create_reader_without_index()
    except (DamagedIndex, IndexBusy, NewerSchema, StorageError) as error:
        return create_reader_without_index(error=_format_error(error))
    except OSError as error:
        return create_reader_without_index(error=_format_error(errors.from_os_error(error) or error))


def _create_reader_without_index(
    repository: Repository, git: GitProgram, histories: BoundedCache[bytes], error: str = ""
) -> FileHistoryReader:
    """Return a reader whose status is behind by all commits of HEAD. `error` says why the index cannot be read."""
    head = repository.read_head()
    if head is None:
        return FileHistoryReader(IndexStatus(), error=error)
    key = compute_history_key(repository, head)
    walked_history = histories.get(key)
    if walked_history is None:
        result = git.run(*HISTORY_ARGUMENTS, head)
        walked_history = b"" if result.exit_code else result.stdout
        histories.put(key, walked_history, len(walked_history))
    count = walked_history.count(b"\n") or len(repository.walk(head))
    return FileHistoryReader(IndexStatus(commits_behind=count), error=error, walked_history=walked_history)


def _format_error(error: LineageError | OSError) -> str:
    """Return an error and its hint on one line."""
    return " ".join(str(error).split())


@dataclass(frozen=True, slots=True)
class EndedLine:
    """Line of a commit's file without a source. `text`: the line there; `queried_text`: the line of the request."""

    commit_sha: str
    path: bytes
    number: int
    date: int
    text: str
    queried_text: str

    @property
    def suffix(self) -> str:
        """Suffix of the file's name, with the dot."""
        return os.path.splitext(os.fsdecode(self.path))[1]  # noqa: PTH122 - a path in git

    @property
    def removal_pattern(self) -> DiffLinePattern | None:
        """Pattern of the removed line; None if the line is too short."""
        words = extract_features(self.text).words
        if len(words) < MIN_RESTORED_WORDS or sum(map(len, words)) < MIN_RESTORED_CHARACTERS:
            return None
        line = self.text.strip()
        return DiffLinePattern(line, rf"(?m)^-[ \t]*{re.escape(line)}[ \t\r]*$")

    @property
    def anchors(self) -> list[str]:
        """Texts by which to search for the idea of the line: of the oldest line, and of the one that was queried."""
        return [
            anchor for anchor in dict.fromkeys(map(find_anchor, (self.text, self.queried_text))) if anchor
        ]


@dataclass(frozen=True, slots=True)
class Lead:
    """Commit that may have had the idea of a line; `text`: what it has in common with the line, or what it replaced."""

    commit_sha: str
    file_path: str
    text: str


@dataclass(slots=True)
class LineSearcher:
    """Searcher of the stored diffs of an open index. `limitation` says what was not searched."""

    repository: Repository
    git: GitProgram
    reader: FileHistoryReader
    limitation: str = ""
    _found: dict[DiffLinePattern, list[LineChange]] = field(default_factory=dict)

    def search(self, lines: Sequence[EndedLine]) -> None:
        """Search for the removals and anchors of lines, which the other functions then read."""
        patterns = [
            pattern for line in lines for pattern in _list_patterns(line) if pattern not in self._found
        ]
        patterns = list(dict.fromkeys(patterns))
        if len(patterns) > MAX_PATTERNS:
            self.limitation = (
                "Only some of the lines were searched for restored lines and possible earlier commits."
            )
        patterns = patterns[:MAX_PATTERNS]
        index = self.reader.index
        if index is None or not patterns:
            return
        try:
            with index.translate_errors():
                is_reachable = history.build_reachability_test(
                    index.connection, self.reader.status.reachability
                )
                found = exact_search.find_line_changes(index.connection, patterns, is_reachable)
                self._found.update(zip(patterns, found, strict=True))
        except (DamagedIndex, IndexBusy, StorageError) as error:
            self.limitation = " ".join(f"The index could not be searched. {error}".split())

    def find_removed(self, line: EndedLine) -> LineSource | None:
        """Return the source of a restored line: the same line in the parent of the last commit that removed it before.

        It was in a file of this name, or the line's commit creates its file.
        """
        pattern = line.removal_pattern
        changes = self._found.get(pattern, []) if pattern else []
        earlier = [change for change in reversed(changes) if change.date < line.date]
        if not earlier:
            return None
        key, parents = build_key(line.text), self.repository.read_commit(line.commit_sha).parents
        blobs = [find_blob(self.repository, parent, line.path) for parent in parents]
        if any(key in map(build_key, read_lines(self.repository, blob)) for blob in blobs):
            return None  # the file has the line elsewhere: it was not missing
        is_new_file = not any(blobs)
        name = line.path.rpartition(b"/")[2]
        for change in earlier:
            old_path = os.fsencode(change.old_path or change.file_path)
            is_same_name = old_path.rpartition(b"/")[2] == name
            if (is_new_file or is_same_name) and self._is_ancestor(change.commit_sha, line.commit_sha):
                source = SourceFinder(self.repository, change.commit_sha).find_removed(old_path, key)
                least_support = FILE_SUPPORT if is_same_name else ROLE_SUPPORT
                return source if source and self._measure_support(line, source) >= least_support else None
        return None

    def _measure_support(self, line: EndedLine, source: LineSource) -> float:
        """Return how similar the lines around a line and around its source are."""
        lines = read_lines(self.repository, find_blob(self.repository, line.commit_sha, line.path))
        old_lines = read_lines(self.repository, find_blob(self.repository, source.parent, source.path))
        return compute_support(lines, line.number, old_lines, source.number)

    def find_leads(self, line: EndedLine) -> Iterator[Lead]:
        """Yield the oldest commits that added the longest literal or name of a line to a file of this kind."""
        for anchor in line.anchors:
            changes = self._found.get(_build_anchor_pattern(anchor), [])
            by_commit: dict[str, LineChange] = {}
            for change in changes:
                if change.date < line.date and change.file_path.endswith(line.suffix):
                    by_commit.setdefault(change.commit_sha, change)
            for change in list(by_commit.values())[:LEADS_PER_ANCHOR]:
                yield Lead(change.commit_sha, change.file_path, anchor)

    def _is_ancestor(self, older: str, newer: str) -> bool:
        return self.git.run("merge-base", "--is-ancestor", older, newer).exit_code == 0


def _list_patterns(line: EndedLine) -> Iterator[DiffLinePattern]:
    if removal := line.removal_pattern:
        yield removal
    yield from map(_build_anchor_pattern, line.anchors)


def _build_anchor_pattern(anchor: str) -> DiffLinePattern:
    """Return the pattern of an added line with an anchor; a name must be a whole word."""
    boundary = r"\b" if re.fullmatch(r"\w+", anchor, re.ASCII) else ""
    return DiffLinePattern(anchor, rf"(?m)^\+.*{boundary}{re.escape(anchor)}{boundary}")
