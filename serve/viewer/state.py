"""State shared by the request handlers of one viewer of mindmaps (short: maps).

- `ChangeLog`: sequence numbers of changed maps, for the event stream
- `ThreadPools`: bounded thread pools for file access and for git
- `DocumentCache`: maps as JSON and their summaries; an entry is valid until its map file changes
- `ViewerState`: the shared objects
- `LineageLookup`: `lineage explain` for a file that a map contains
- `CommitLookup`: `lineage show` for a commit of the workspace's repository
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import threading
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec
from cachetools import LRUCache

from mindmap.document import Mindmap, encode, utc_now
from mindmap.map_store import UNREADABLE_ERRORS, MapStore
from mindmap.tree import Summary, summarize
from mindmap.validation import BadPath, NoWorkspace, WorkspacePaths, parse_line_range
from serve.backend import Backend
from serve.commit_types import ShowAnswer, ShowRequest
from serve.errors import BadRequest
from serve.explain_types import ExplainAnswer, ExplainRequest
from serve.viewer.responses import (
    PAGE_DIRECTORY,
    NotInRepository,
    NotTouched,
    RequestOriginPolicy,
    TooBusy,
    TookTooLong,
    format_error_code,
)
from serve.viewer.watcher import DirectoryWatcher, FileSignature, read_signature, read_signatures
from stores.errors import LineageError
from stores.mindmap_files import FolderUnusable, NoSuchMindmap

# Maximum number of changed maps in the change log. A client that has missed more reloads everything.
MAX_CHANGES: Final = 10_000
QUICK_THREADS: Final = 4
# Each slow thread runs git or waits for the daemon.
SLOW_THREADS: Final = 4
# Maximum number of slow tasks that run or wait: more than a page requests at once.
MAX_SLOW_TASKS: Final = 32
# Maximum length of a commit's message and diff, in tokens: about 1,000 lines.
MAX_COMMIT_TOKENS: Final = 20_000
# Complete or abbreviated sha; names of branches and other revisions are refused.
_SHA: Final = re.compile(r"[0-9a-f]{7,64}", re.ASCII)
# Maximum time of a slow task, enough for `git status` of the largest work trees on a cold disk. Browsers give up after
# minutes.
SLOW_TASK_SECONDS: Final = 60.0
# Maximum size of the maps in the cache, such as a dozen maps of 4 MB.
MAX_CACHE_BYTES: Final = 48_000_000
# Locks for loading maps, chosen by the id's hash. With 16 locks, threads that load different maps rarely share one.
LOCK_COUNT: Final = 16

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Change:
    """Latest change of a map; `number` increases with every change of any map."""

    number: int
    mindmap_id: str
    timestamp: str


class ChangeLog:
    """Changed maps in order of their latest change. Not thread-safe: use it on one event loop.

    Each changed map is stored once, with the number of its latest change. A client of the event stream needs no queue,
    only the last number that it has received, and a slow client gets one event per changed map. `epoch` is a random
    text in event ids, by which the viewer recognizes ids of an earlier run.
    """

    def __init__(self) -> None:
        self.epoch = secrets.token_hex(4)
        self.last_number = 0
        self.is_closed = False
        self._last_dropped_number = 0
        self._changes: dict[str, Change] = {}
        self._next_change: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def record(self, mindmap_id: str) -> None:
        """Record a change of the map now, and wake the waiting clients."""
        self.last_number += 1
        self._changes.pop(mindmap_id, None)
        self._changes[mindmap_id] = Change(self.last_number, mindmap_id, utc_now())
        if len(self._changes) > MAX_CHANGES:
            self._last_dropped_number = self._changes.pop(next(iter(self._changes))).number
        self._notify()

    def close(self) -> None:
        """End the log and wake the waiting clients."""
        self.is_closed = True
        self._notify()

    def list_changes_after(self, number: int) -> list[Change] | None:
        """Return the changes after this number, oldest first; None if some of them are no longer stored."""
        if number < self._last_dropped_number:
            return None
        newer_changes = takewhile(lambda change: change.number > number, reversed(self._changes.values()))
        return list(newer_changes)[::-1]

    def parse_resume_position(self, last_event_id: str) -> int:
        """Return the number in a `Last-Event-ID`.

        Return the last number of the log if the id is empty, invalid or of another run of the viewer, or if some
        changes after the id are no longer stored.
        """
        epoch, _, number = last_event_id.partition("-")
        if epoch != self.epoch or not number.isdecimal() or len(number) > len(str(self.last_number)):
            return self.last_number
        position = min(int(number), self.last_number)
        return position if position >= self._last_dropped_number else self.last_number

    def format_event_id(self, number: int) -> str:
        """Return the event id, which a browser sends as `Last-Event-ID` when it reconnects."""
        return f"{self.epoch}-{number}"

    async def wait_for_change(self, seconds: float, disconnection: asyncio.Future[None]) -> None:
        """Wait until the next change, until `disconnection` is done, or for this many seconds."""
        await asyncio.wait(
            {self._next_change, disconnection}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )

    def _notify(self) -> None:
        future, self._next_change = self._next_change, asyncio.get_running_loop().create_future()
        future.set_result(None)


class ThreadPools:
    """Two thread pools, so that slow tasks (git, daemon) never delay quick ones (map files)."""

    def __init__(self) -> None:
        self._quick_pool = ThreadPoolExecutor(QUICK_THREADS, "quick")
        self._slow_pool = ThreadPoolExecutor(SLOW_THREADS, "slow")
        self.slow_task_count = 0

    async def run_quick(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Run a function that takes milliseconds."""
        return await asyncio.get_running_loop().run_in_executor(self._quick_pool, function, *arguments)

    async def run_slow(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Run a function that may take seconds.

        Raises TooBusy if MAX_SLOW_TASKS run or wait. Raises TookTooLong after SLOW_TASK_SECONDS, while the function
        continues in the background.
        """
        if self.slow_task_count >= MAX_SLOW_TASKS:
            raise TooBusy("The viewer has too many slow requests.", hint="Try again in a few seconds.")
        self.slow_task_count += 1
        future = asyncio.get_running_loop().run_in_executor(self._slow_pool, function, *arguments)
        future.add_done_callback(self._on_slow_task_done)
        try:
            return await asyncio.wait_for(asyncio.shield(future), SLOW_TASK_SECONDS)
        except TimeoutError as error:
            raise TookTooLong(
                f"The task did not finish within {SLOW_TASK_SECONDS:g} s.",
                hint="It continues in the background. Check again later.",
            ) from error

    def shutdown(self) -> None:
        """Cancel tasks that have not started, without waiting for running ones."""
        for pool in (self._quick_pool, self._slow_pool):
            pool.shutdown(wait=False, cancel_futures=True)

    def _on_slow_task_done(self, future: asyncio.Future[Result]) -> None:
        self.slow_task_count -= 1
        if not future.cancelled():
            future.exception()  # otherwise asyncio logs the error of a task whose request has timed out


class Problem(msgspec.Struct, frozen=True):
    """A map file that cannot be shown, with the error."""

    id: str
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class _CacheEntry(Generic[Result]):
    """A value made of a map. `signature` is that of the map's file before it was loaded.

    `load_started_at` is the time of `time.monotonic()` at which the load started.
    """

    signature: FileSignature | None
    load_started_at: float
    value: Result

    def is_valid_for(self, current_signature: FileSignature | None, requested_at: float) -> bool:
        """Return True if the entry may answer a request that arrived at `requested_at`."""
        # An entry whose load started after the request arrived is valid, even if the file has changed since. So
        # requests for a map that is written continuously share one load.
        return self.load_started_at >= requested_at or (
            self.signature is not None and self.signature.is_settled and self.signature == current_signature
        )


class DocumentCache:
    """Thread-safe cache of the maps in a data directory. `requested_at` is the request's `time.monotonic()`.

    `_lock` guards the dicts. With `_load_locks`, simultaneous requests for one map load it once.
    """

    def __init__(self, directory: Path) -> None:
        self.store = MapStore(directory)
        self._load_locks = [threading.Lock() for _ in range(LOCK_COUNT)]
        self._lock = threading.Lock()
        self._summaries: dict[str, _CacheEntry[Summary | LineageError]] = {}
        self._contents: LRUCache[str, _CacheEntry[bytes]] = LRUCache(
            MAX_CACHE_BYTES, getsizeof=lambda entry: len(entry.value)
        )

    def load_json(self, mindmap_id: str, requested_at: float) -> bytes:
        """Return a map as JSON; it is read only if the cached JSON is stale. Raises the errors of MapStore.read."""
        with self._get_load_lock(mindmap_id):
            signature = read_signature(self.store.path, mindmap_id)
            with self._lock:
                entry = self._contents.get(mindmap_id)
            if entry is not None and entry.is_valid_for(signature, requested_at):
                return entry.value
            # The summary is not computed here, because that takes a fifth of the time for loading, and only the list
            # of maps needs it.
            entry = _CacheEntry(signature, time.monotonic(), encode(self.store.read(mindmap_id)))
            with self._lock, suppress(ValueError):  # content larger than MAX_CACHE_BYTES is not cached
                self._contents[mindmap_id] = entry
            return entry.value

    def list_maps(self, requested_at: float) -> tuple[list[Summary], list[Problem]]:
        """Return a summary of each readable map, last updated first, and a problem for each unreadable map file."""
        signatures = self._read_signatures()
        self._drop_deleted(signatures.keys())
        results = {
            mindmap_id: self._load_summary(mindmap_id, signature, requested_at)
            for mindmap_id, signature in signatures.items()
        }
        summaries = [result for result in results.values() if isinstance(result, Summary)]
        problems = [
            Problem(mindmap_id, format_error_code(result), result.message, result.hint)
            for mindmap_id, result in sorted(results.items())
            if isinstance(result, LineageError) and not isinstance(result, NoSuchMindmap)
        ]
        return sorted(summaries, key=lambda summary: summary.updated_at, reverse=True), problems

    def _load_summary(
        self, mindmap_id: str, signature: FileSignature, requested_at: float
    ) -> Summary | LineageError:
        with self._get_load_lock(mindmap_id):
            entry = self._summaries.get(mindmap_id)
            if entry is None or not entry.is_valid_for(signature, requested_at):
                entry = _CacheEntry(signature, time.monotonic(), self._read_summary(mindmap_id))
                with self._lock:
                    self._summaries[mindmap_id] = entry
            return entry.value

    def _read_summary(self, mindmap_id: str) -> Summary | LineageError:
        try:
            return summarize(self.store.read(mindmap_id))
        except (*UNREADABLE_ERRORS, FolderUnusable, NoSuchMindmap) as error:
            return error

    def _get_load_lock(self, mindmap_id: str) -> threading.Lock:
        return self._load_locks[hash(mindmap_id) % LOCK_COUNT]

    def _read_signatures(self) -> dict[str, FileSignature]:
        try:
            return read_signatures(self.store.path)
        except OSError as error:
            raise FolderUnusable(
                f"Cannot read {self.store.path}: {error.strerror or error}.",
                hint="Make it readable, or set MINDMAP_DATA_DIR to another directory.",
            ) from error

    def _drop_deleted(self, existing_ids: AbstractSet[str]) -> None:
        with self._lock:
            for mindmap_id in (self._summaries.keys() | self._contents.keys()) - existing_ids:
                self._summaries.pop(mindmap_id, None)
                self._contents.pop(mindmap_id, None)


@dataclass(slots=True)
class ViewerState:
    """Objects shared by the handlers. Create it on the running event loop."""

    directory: Path
    port: int
    backend: Backend
    page_directory: Path = PAGE_DIRECTORY
    listener_count: int = 0
    threads: ThreadPools = field(default_factory=ThreadPools)
    changes: ChangeLog = field(default_factory=ChangeLog)
    shutdown: asyncio.Event = field(default_factory=asyncio.Event)
    origin_policy: RequestOriginPolicy = field(init=False)
    documents: DocumentCache = field(init=False)
    watcher: DirectoryWatcher = field(init=False)

    def __post_init__(self) -> None:
        """Create the objects that depend on the arguments."""
        self.origin_policy = RequestOriginPolicy(self.port)
        self.documents = DocumentCache(self.directory)
        self.watcher = DirectoryWatcher(self.directory, self.changes.record)


@dataclass(frozen=True, slots=True)
class LineageLookup:
    """Request for the lineage of a file: the commits that wrote its lines.

    `path` is the file as stored in the map. `lines` is a range such as `3-8`; empty means the whole file.
    """

    path: str
    lines: str = ""

    def explain(self, document: Mindmap, backend: Backend) -> ExplainAnswer:
        """Return the answer of `lineage explain` for a file of the map in its workspace.

        Raises NoWorkspace, NotTouched, BadPath or BadLines.
        """
        workspace = _get_workspace(document)
        file = _resolve_file(document, workspace, self.path)
        start, end = parse_line_range(self.lines) if self.lines.strip() else (1, 0)  # 0 means the last line
        request = ExplainRequest(file, start, end, include_related=True)
        return backend.explain(request, Path(workspace))


@dataclass(frozen=True, slots=True)
class CommitLookup:
    """Request for a commit with its message and files. `path`: file whose diff to show, too; empty for no diff."""

    sha: str
    path: str = ""

    def show(self, document: Mindmap) -> ShowAnswer:
        """Return the commit of the map's repository, cut to MAX_COMMIT_TOKENS.

        Raises NoWorkspace, BadRequest and NotInRepository.
        """
        from serve.explain.show_commit import FileNotChanged, MissingFile, UnknownCommit, show_commit

        if not _SHA.fullmatch(self.sha):
            raise BadRequest(
                "The commit is not named by its sha.", hint="Give the sha of a commit in `commit`."
            )
        request = ShowRequest(self.sha, self.path or None, max_tokens=MAX_COMMIT_TOKENS)
        workspace = Path(_get_workspace(document))
        try:
            return show_commit(request, workspace)
        except UnknownCommit as error:  # its hint names forms of a commit that are refused here
            raise NotInRepository(error.message) from error
        except (FileNotChanged, MissingFile) as error:
            raise NotInRepository(error.message, hint=error.hint) from error


def _get_workspace(document: Mindmap) -> str:
    if not document.workspace_path:
        raise NoWorkspace(
            "The map has no workspace.", hint="Sync the map with git, and give the path of its work tree."
        )
    return document.workspace_path


def _resolve_file(document: Mindmap, workspace: str, path: str) -> str:
    """Return the absolute path. Raises NotTouched for a path not in the map, BadPath for one outside the workspace."""
    touched_paths = {
        touched_path
        for node in document.nodes.values()
        for touch in node.files
        for touched_path in (touch.path, touch.previous_path)
    }
    if path not in touched_paths:
        raise NotTouched(f"{document.id} has no file {path!r}.", hint="Give a path as stored in the map.")
    paths = WorkspacePaths.from_workspace(workspace)
    stored_path = paths.normalize(path)
    file = Path(paths.root, stored_path)
    # A linked directory may be outside the workspace. A file that is a link is not resolved, because git blames the
    # link.
    parent = os.path.realpath(file.parent)
    if stored_path.startswith("/") or not Path(parent).is_relative_to(paths.root):
        raise BadPath(f"{path!r} is outside the workspace.", hint="Choose a file in the workspace.")
    return str(file)
