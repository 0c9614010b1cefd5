"""Cache of mindmaps (short: maps) as JSON, and of their summaries. An entry is valid until its map file changes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec
from cachetools import LRUCache

from mindmap.document import encode
from mindmap.map_store import UNREADABLE_ERRORS, MapStore
from mindmap.tree import Summary, summarize
from serve.viewer.responses import format_error_code
from stores.errors import LineageError
from stores.mindmap_files import FolderUnusable, NoSuchMindmap, format_file_name, parse_file_name

# The kernel updates the time for files every 10 ms at most, so two writes within 10 ms can have the same time. Doubled.
MTIME_RESOLUTION_NS: Final = 20_000_000
# A dozen maps of 4 MB.
MAX_CACHE_BYTES: Final = 48_000_000
# Locks for loading maps, chosen by the id's hash. With so many, threads that load different maps rarely share one.
LOCK_COUNT: Final = 16


@dataclass(frozen=True, slots=True)
class FileSignature:
    """Stat fields of a map's file, which differ after every write or replacement.

    `is_settled` is False if the last write was within MTIME_RESOLUTION_NS: another write may not change the fields.
    """

    inode: int
    modified_ns: int
    changed_ns: int
    size: int
    is_settled: bool = field(compare=False)


class Problem(msgspec.Struct, frozen=True):
    """A map file that cannot be shown, with the error."""

    id: str
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class _CacheEntry:
    """A loaded map: its file's signature before loading, the `time.monotonic()` of the start, and the results.

    `summary` is an error if the map cannot be read. `content` is its JSON; empty if only the summary was needed.
    """

    signature: FileSignature | None
    loaded_at: float
    summary: Summary | LineageError
    content: bytes = b""

    def is_valid_for(self, current: FileSignature | None, requested_at: float) -> bool:
        """Return True if the entry may answer a request, given the file's current signature."""
        # An entry that was loaded after the request arrived is valid, even if the file has changed since. So many
        # requests for a map that is written continuously share one load.
        return self.loaded_at >= requested_at or (
            self.signature is not None and self.signature.is_settled and self.signature == current
        )


class DocumentCache:
    """Thread-safe cache of the maps in a data directory. `requested_at` is the request's `time.monotonic()`."""

    def __init__(self, directory: Path) -> None:
        self.store = MapStore(directory)
        self._locks = [threading.Lock() for _ in range(LOCK_COUNT)]
        self._lock = threading.Lock()
        self._summaries: dict[str, _CacheEntry] = {}
        self._contents: LRUCache[str, _CacheEntry] = LRUCache(
            MAX_CACHE_BYTES, getsizeof=lambda entry: len(entry.content)
        )

    def load_json(self, mindmap_id: str, requested_at: float) -> bytes:
        """Return a map as JSON. It is read and encoded only if the cached one is stale. Raises the store's errors."""
        with self._lock_for(mindmap_id):
            signature = read_signature(self.store.path, mindmap_id)
            with self._lock:
                entry = self._contents.get(mindmap_id)
            if entry is not None and entry.is_valid_for(signature, requested_at):
                return entry.content
            loaded_at = time.monotonic()
            document = self.store.read(mindmap_id)
            content = encode(document)
            self._store_entry(mindmap_id, _CacheEntry(signature, loaded_at, summarize(document), content))
            return content

    def list_maps(self, requested_at: float) -> tuple[list[Summary], list[Problem]]:
        """Return a summary of every readable map, last updated first, and a problem for every other map file."""
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
        return sorted(summaries, key=lambda entry: entry.updated_at, reverse=True), problems

    def _load_summary(
        self, mindmap_id: str, signature: FileSignature, requested_at: float
    ) -> Summary | LineageError:
        with self._lock_for(mindmap_id):
            entry = self._summaries.get(mindmap_id)
            if entry is None or not entry.is_valid_for(signature, requested_at):
                entry = _CacheEntry(signature, time.monotonic(), self._read_summary(mindmap_id))
                with self._lock:
                    self._summaries[mindmap_id] = entry
            return entry.summary

    def _read_summary(self, mindmap_id: str) -> Summary | LineageError:
        try:
            return summarize(self.store.read(mindmap_id))
        except (*UNREADABLE_ERRORS, FolderUnusable, NoSuchMindmap) as error:
            return error

    def _lock_for(self, mindmap_id: str) -> threading.Lock:
        return self._locks[hash(mindmap_id) % LOCK_COUNT]

    def _read_signatures(self) -> dict[str, FileSignature]:
        try:
            return read_signatures(self.store.path)
        except OSError as error:
            raise FolderUnusable(
                f"Cannot read {self.store.path}: {error.strerror or error}.",
                hint="Make it readable, or set MINDMAP_DATA_DIR to another directory.",
            ) from error

    def _store_entry(self, mindmap_id: str, entry: _CacheEntry) -> None:
        """Add an entry to the cache. Of content larger than MAX_CACHE_BYTES, only the summary is cached."""
        with self._lock:
            self._summaries[mindmap_id] = replace(entry, content=b"")
            with suppress(ValueError):
                self._contents[mindmap_id] = entry

    def _drop_deleted(self, existing_ids: AbstractSet[str]) -> None:
        with self._lock:
            for mindmap_id in (self._summaries.keys() | self._contents.keys()) - existing_ids:
                self._summaries.pop(mindmap_id, None)
                self._contents.pop(mindmap_id, None)


def read_signature(directory: Path, mindmap_id: str) -> FileSignature | None:
    """Return the signature of a map's file; None if there is no such file."""
    try:
        return _create_signature((directory / format_file_name(mindmap_id)).lstat())
    except OSError:
        return None


def read_signatures(directory: Path) -> dict[str, FileSignature]:
    """Return the signatures of all maps in a directory by id; none if it is missing. Raises OSError if unreadable."""
    signatures: dict[str, FileSignature] = {}
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
        for entry in entries:
            mindmap_id = parse_file_name(entry.name)
            if mindmap_id is not None:
                with suppress(OSError):  # deleted since the scan
                    signatures[mindmap_id] = _create_signature(entry.stat(follow_symlinks=False))
    return signatures


def _create_signature(status: os.stat_result) -> FileSignature:
    # A time in the future comes from another machine's clock and counts as old.
    age = time.time_ns() - status.st_mtime_ns
    is_settled = not 0 <= age < MTIME_RESOLUTION_NS
    return FileSignature(status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size, is_settled)
