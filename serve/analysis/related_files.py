"""Files that change together with a file or directory, its owners and its hot spots: `find_related_files`.

`metrics` defines which commits count, here and in the notebooks. git blame of a file runs while this process reads the
index.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final

import polars as pl

from pipeline.git import commit_graph
from pipeline.git.changes import SUBMODULE_MODE, TREE_MODE, decode_path
from pipeline.git.errors import UnreadableObject
from pipeline.git.repository import Repository, open_repository
from serve.analysis import metrics, owners
from serve.analysis.metrics import RenamedHistory
from serve.analysis.owners import SurvivingLines, UnknownAuthors
from serve.api_types import format_rfc3339
from serve.errors import BadRequest
from serve.explain import cache
from serve.explain.blame import RunningBlame, load_ignore_revs, start_blame
from serve.explain.target import Target, describe_missing_file, list_candidate_paths, resolve_target
from serve.explain_types import ExplainRequest
from serve.index_status import (
    IndexStatus,
    build_compatibility,
    build_index_hints,
    build_index_state,
    load_index_status,
)
from serve.related_types import (
    HotSpot,
    RelatedAnswer,
    RelatedDetails,
    RelatedFile,
    RelatedMeta,
    RelatedRequest,
)
from serve.repositories import locate_index
from serve.text import UNREADABLE_HINT, escape_in_sentence, format_commit_count
from stores import frames, index_copy
from stores.errors import LineageError
from stores.frames import HistoryFrames
from stores.history import build_reachability_test
from stores.hunk_details import Connection

# Maximum number of former names of a file in an answer.
MAX_OLD_PATHS: Final = 5
# Maximum number of bots in an answer.
MAX_BOTS: Final = 3


class UnknownFile(LineageError):
    """Error for a file that neither the work tree nor the history has."""


@dataclass(frozen=True, slots=True)
class RequestedPath:
    """The requested file or directory.

    `path`: newest path; empty for the whole repository. `target`: file that git blame gets, or the directory. `note`:
    sentence that says what became of a path that HEAD does not have; empty if HEAD has it.
    """

    path: str
    is_directory: bool
    target: Target
    note: str = ""

    @property
    def selection(self) -> pl.Expr:
        """Filter on the column `file_path`: the file, or all files in the directory."""
        if not self.is_directory:
            return pl.col("file_path") == self.path
        return pl.col("file_path").str.starts_with(f"{self.path}/") if self.path else pl.lit(True)


@dataclass(frozen=True)
class PathHistory:
    """Data of the index about the requested file or directory.

    `frames`: all commits and hunks; symbols only of a requested file. `old_paths`: former names of the file, newest
    first. `symbol_lines`: first line of each symbol of the file at HEAD, by qualified name.
    """

    status: IndexStatus
    requested_path: RequestedPath
    frames: RenamedHistory
    old_paths: tuple[str, ...]
    symbol_lines: Mapping[str, int]

    @cached_property
    def changed_files(self) -> pl.DataFrame:
        """Row for each file of each reachable commit; see `metrics.list_changed_files`."""
        return metrics.list_changed_files(self.frames)

    @cached_property
    def file_hotspots(self) -> pl.DataFrame:
        """All files, files with the most commits first."""
        return metrics.find_file_hotspots(self.frames)


def find_related_files(
    request: RelatedRequest, path: Path, home: Path, cwd: Path | None = None
) -> RelatedAnswer:
    """Return the files that change together with a file or directory of the repository at `path`, and its owners.

    `request.file` is relative to the repository or to `cwd`, the user's working directory. Raises BadRequest,
    UnknownFile, and NotIndexed without an index.
    """
    finder = _Finder(open_repository(path), request, home, cwd)
    return finder.find()


class _Finder:
    """Finder for one request in an open repository."""

    def __init__(self, repository: Repository, request: RelatedRequest, home: Path, cwd: Path | None) -> None:
        self.repository = repository
        self.request = request
        self.cwd = cwd
        self.location = locate_index(home, repository)
        self.head = repository.read_head()
        self.ignore_revs = load_ignore_revs(repository)
        self.git = commit_graph.create_git_program(
            repository, self.location.git_directory, self.ignore_revs.replacement_config
        )

    def find(self) -> RelatedAnswer:
        """Return the answer."""
        target = self._resolve_target(self.request.file)
        limit = min(self.request.limit, sys.maxsize)  # `islice` accepts no larger number
        with ExitStack() as stack:
            # git blame runs while this thread reads the index. The index is closed before the rest is computed.
            running_blame = self._start_blame(stack, target)
            with index_copy.open_index_or_copy(self.location) as index:
                status = load_index_status(
                    self.repository, index.connection, location=self.location, index_holder=index.holder
                )
                history = self._read_history(index.connection, status, target)
            requested_path = history.requested_path
            if requested_path.target is not target:
                running_blame = self._start_blame(stack, requested_path.target)
            hot_spots = tuple(islice(self._find_hot_spots(history), limit))
            hits = tuple(islice(self._find_hits(history), limit))
            surviving_lines = self._count_surviving_lines(running_blame, history)
        details = self._build_details(history, hot_spots, surviving_lines)
        return RelatedAnswer(
            hits,
            RelatedMeta(
                index_status=build_index_state(status),
                hint=" ".join(_build_hints(status)) or None,
                compatibility=build_compatibility(status.verdict),
                related=details,
            ),
        )

    def _resolve_target(self, file: str) -> Target:
        if all(path is None for path in list_candidate_paths(self.repository, file, self.cwd)):
            raise BadRequest(f"{file!r:.200} is not inside the repository.", hint="Give a path inside it.")
        target = resolve_target(self.repository, self.head, file, self.cwd)
        cache.check_blocking_files(self.repository, target, self.ignore_revs)
        return target

    def _start_blame(self, stack: ExitStack, target: Target) -> RunningBlame | None:
        """Start git blame of a file. Return None if the file has no lines."""
        if not target.lines:
            return None
        request = ExplainRequest(self.request.file)
        lines = (1, len(target.lines))
        return stack.enter_context(start_blame(self.git, target, lines, request, self.ignore_revs))

    def _read_history(self, connection: Connection, status: IndexStatus, target: Target) -> PathHistory:
        """Read the data about the requested path from the open index. `target`: file that the request names."""
        is_reachable = build_reachability_test(connection, status.reachability)
        history = frames.read_history(connection, is_reachable)
        renamed_history = metrics.RenamedHistory(
            history.commits, metrics.follow_renames(history), history.symbols
        )
        requested_path = self._resolve_requested_path(target, history, renamed_history)
        hunks = renamed_history.hunks.filter(requested_path.selection)
        old_paths: tuple[str, ...] = ()
        symbol_lines: dict[str, int] = {}
        if not requested_path.is_directory:
            renamed_history = replace(
                renamed_history, symbols=frames.read_symbols(connection, hunks["hunk_id"].to_list())
            )
            hunks_with_original_paths = hunks.select("hunk_id").join(
                history.hunks, on="hunk_id", how="left", maintain_order="left"
            )
            paths = hunks_with_original_paths["file_path"].unique(maintain_order=True)
            old_paths = tuple(path for path in paths if path != requested_path.path)[:MAX_OLD_PATHS]
            lines = frames.read_symbol_lines(connection, requested_path.path).select(
                metrics.QUALIFIED_NAME, "start_line"
            )
            # Of several symbols with one name, the dict has the last row, which is that of the first line.
            symbol_lines = dict(lines.sort("start_line", descending=True).iter_rows())
        return PathHistory(status, requested_path, renamed_history, old_paths, symbol_lines)

    def _resolve_requested_path(
        self, target: Target, history: HistoryFrames, renamed_history: HistoryFrames
    ) -> RequestedPath:
        """Return the requested path. If HEAD lacks it, add a note, and use its newest name if HEAD has such a file.

        Raises UnknownFile.
        """
        path = target.display_path
        if not target.is_missing:
            return RequestedPath(path, target.is_directory, target)
        if self.head is None:
            error = self.repository.build_head_error()
            raise UnknownFile(error.message, hint=error.hint)
        try:
            removal, sentence = describe_missing_file(self.repository, self.git, self.head, target)
        except UnreadableObject as error:
            raise UnknownFile(
                f"The history of {escape_in_sentence(path)} is unreadable: {error.reason}."
            ) from error
        if removal is None:
            # A sentence that ends with a question mark suggests similar files, so it needs no hint.
            hint = "" if sentence.endswith("?") else "Name a file or directory that HEAD has or had."
            raise UnknownFile(sentence, hint=hint)
        path = decode_path(removal.path)
        entry = self.repository.find_entry(removal.parent, removal.path)
        if entry is not None and entry.mode == TREE_MODE:
            return RequestedPath(path, is_directory=True, target=target, note=sentence)
        changes = history.hunks.filter(pl.col("file_path") == path).select("hunk_id")
        newest_paths = renamed_history.hunks.join(changes, on="hunk_id", maintain_order="left")["file_path"]
        newest_path = newest_paths[0] if newest_paths.len() else path
        if newest_path != path and self._has_file(newest_path):
            note = f"{escape_in_sentence(path)} is now {escape_in_sentence(newest_path)}."
            target = resolve_target(self.repository, self.head, newest_path, None)
            return RequestedPath(newest_path, is_directory=False, target=target, note=note)
        return RequestedPath(path, is_directory=False, target=target, note=sentence)

    def _find_hits(self, history: PathHistory) -> Iterator[RelatedFile]:
        """Yield the files of HEAD that change together with the requested path, strongest association first."""
        rows = metrics.find_files_changed_with(
            history.frames, history.changed_files, history.requested_path.selection
        )
        commit_subjects = _load_commit_subjects(history.frames, rows["last_commit"])
        for row in rows.iter_rows(named=True):
            if self._has_file(row["file_path"]):
                yield RelatedFile(
                    file_path=row["file_path"],
                    support=row["together"],
                    confidence=round(row["confidence"], 3),
                    lift=round(row["lift"], 2),
                    commit_sha=row["last_commit"],
                    commit_subject=commit_subjects[row["last_commit"]],
                    commit_date=_format_date(row["last_date"]),
                )

    def _find_hot_spots(self, history: PathHistory) -> Iterator[HotSpot]:
        """Yield the symbols of the file, or the files of the directory, most commits first.

        If HEAD has the requested path, symbols and files that HEAD lacks are left out.
        """
        requested_path, symbol_lines = history.requested_path, history.symbol_lines
        if requested_path.is_directory:
            rows = history.file_hotspots.filter(requested_path.selection)
        else:
            rows = metrics.find_symbol_hotspots(history.frames)
        for row in rows.iter_rows(named=True):
            if requested_path.is_directory:
                name, line = row["file_path"], None
                is_at_head = self._has_file(name)
            else:
                name, line = row["name"], symbol_lines.get(row["name"])
                # If the index has no symbols of the file at HEAD, the file was not parsed, so it may have any symbol.
                is_at_head = line is not None or not symbol_lines
            if is_at_head or requested_path.target.is_missing:
                date = _format_date(row["last_date"])
                yield HotSpot(name, row["changes"], row["fixes"], line, row["last_commit"], date)

    def _count_surviving_lines(
        self, running_blame: RunningBlame | None, history: PathHistory
    ) -> SurvivingLines:
        """Return the surviving lines of the file or directory that git blame finds within the time limit."""
        requested_path = history.requested_path
        if requested_path.target.is_missing or self.head is None:
            return SurvivingLines({})
        if not requested_path.is_directory:
            return owners.read_surviving_lines(
                self.repository, self.git, requested_path.target, running_blame, self.ignore_revs
            )
        blobs = dict(self._rank_files(history))
        return owners.blame_directory(self.repository, self.git, self.head, blobs, self.ignore_revs)

    def _rank_files(self, history: PathHistory) -> Iterator[tuple[bytes, str]]:
        """Yield path and blob of each file of HEAD in the directory, files with the most commits first."""
        prefix = f"{history.requested_path.path}/" if history.requested_path.path else ""
        files = {path: file for path, file in self._head_files.items() if path.startswith(prefix)}
        for path in history.file_hotspots["file_path"]:
            if path in files:
                yield files.pop(path)
        for path in sorted(files):
            yield files[path]

    @cached_property
    def _head_files(self) -> Mapping[str, tuple[bytes, str]]:
        """Path in bytes and blob of each file of HEAD, by the path as text."""
        files = self.repository.list_files_with_raw_paths(self.head) if self.head else []
        return {decode_path(path): (path, blob) for path, blob in files}

    def _build_details(
        self, history: PathHistory, hot_spots: tuple[HotSpot, ...], surviving_lines: SurvivingLines
    ) -> RelatedDetails:
        """Build the part of the answer about the requested path: owners, recent authors, bots and limitations."""
        requested_path, limit = history.requested_path, self.request.limit
        period = owners.find_recent_period(history.frames)
        recent_commits = (
            owners.list_recent_commits(history.frames, requested_path.selection, period) if period else []
        )
        limitations = list(filter(None, (requested_path.note, *surviving_lines.limitations)))
        lines = surviving_lines.lines
        try:
            shas = [*lines, *(commit.commit_sha for commit in recent_commits)]
            authors = owners.load_authors(self.git, shas)
        except UnknownAuthors as error:
            limitations.append(f"The owners are unknown: {error}.")
            authors, lines, recent_commits = {}, {}, []
        commits = history.frames.hunks.filter(requested_path.selection)["commit_sha"].n_unique()
        if not commits:
            limitations.append(
                history.status.head_error
                or f"The index has no commits that change {escape_in_sentence(requested_path.path or '.')}. "
                "The path may be ignored, or not committed yet."
            )
        return RelatedDetails(
            path=requested_path.path or ".",
            kind="directory" if requested_path.is_directory else "file",
            old_paths=history.old_paths,
            commits=commits,
            large_commits=metrics.count_large_commits(history.changed_files, requested_path.selection),
            max_files=metrics.MAX_FILES_PER_COMMIT,
            lines=sum(surviving_lines.lines.values()),
            owners=owners.rank_owners(lines, authors)[:limit],
            recent_since=_format_date(period[0]) if period else None,
            recent_until=_format_date(period[1]) if period else None,
            recent_authors=owners.rank_recent_authors(recent_commits, authors)[:limit],
            bots=owners.list_bots(lines, recent_commits, authors)[:MAX_BOTS],
            hot_spots=hot_spots,
            limitation=" ".join(limitations) or None,
        )

    def _has_file(self, path: str) -> bool:
        """Check whether HEAD has a file with this path."""
        if self.head is None:
            return False
        if "\\x" in path:  # may stand for a byte that is not UTF-8, see `decode_path`
            return path in self._head_files
        entry = self.repository.find_entry(self.head, path.encode())
        return entry is not None and entry.mode not in (TREE_MODE, SUBMODULE_MODE)


def _load_commit_subjects(history: HistoryFrames, shas: Iterable[str]) -> dict[str, str]:
    """Return the subject of each commit."""
    rows = history.commits.filter(pl.col("commit_sha").is_in(list(shas))).select("commit_sha", "message")
    return dict(rows.iter_rows())  # the messages of these frames are subjects


def _build_hints(status: IndexStatus) -> Iterator[str]:
    yield from build_index_hints(status)
    if status.unreadable_commits:
        count = format_commit_count(status.unreadable_commits)
        yield f"{count} could not be read and may have changed this path. {UNREADABLE_HINT}"


def _format_date(date: datetime) -> str:
    return format_rfc3339(date.replace(tzinfo=None))
