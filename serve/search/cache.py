"""LRU cache of open indexes and their loaded snapshots.

- `LoadedSnapshot`, `load_snapshot_with_vectors`: the part of an index that a search needs in memory.
- `IndexCache`: cache of open indexes, and of loaded snapshots by `SnapshotKey`.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Final

from pipeline.component_versions import get_encoder_name
from pipeline.options import EncoderName
from serve.api_types import LoadedIndex
from serve.index_status import RecordedState, load_recorded_state
from stores import hunk_details, vector_search
from stores.compatibility import load_recorded_versions
from stores.connections import ReaderPools
from stores.database import Fingerprint
from stores.history import ReachabilityDelta
from stores.hunk_details import Connection, DiffCache
from stores.index_copy import OpenIndex
from stores.index_location import IndexLocation
from stores.snapshot import Snapshot, load_snapshot
from stores.vector_search import CommitMessages, TextVectors

# Maximum bytes of all loaded snapshots. The snapshots of five indexes with 15,000 hunks each take about 130 MB.
MAX_BYTES: Final = 256_000_000


@dataclass(frozen=True, slots=True, eq=False)
class LoadedSnapshot:
    """Hunks (diffs of one file in one commit) that HEAD reaches, and the vectors of their texts.

    `diffs`, `messages` and `snapshot.postings` hold the short diffs, the commit messages and the postings of the whole
    index, and make queries faster. They are None until the second query loads them, which takes little more time than
    loading only what this query needs. `messages` and `snapshot.postings` stay None if the index has too many messages
    or postings. `encoder_name`: encoder of the vectors.
    """

    snapshot: Snapshot
    text_vectors: TextVectors
    encoder_name: EncoderName
    diffs: DiffCache | None = None
    messages: CommitMessages | None = None

    @property
    def bytes(self) -> int:
        """Approximate size in memory."""
        parts = (self.snapshot, self.text_vectors, self.diffs, self.messages)
        return sum(part.bytes for part in parts if part is not None)

    def with_all_texts(self, connection: Connection) -> LoadedSnapshot:
        """Return a copy that also holds the diffs, messages and postings of the whole index, within their limits."""
        return replace(
            self,
            snapshot=self.snapshot.with_postings(connection),
            diffs=hunk_details.load_diff_cache(connection),
            messages=vector_search.load_all_messages(connection),
        )


def load_snapshot_with_vectors(
    connection: Connection, reachability: ReachabilityDelta, hnsw_file: Path | None = None
) -> LoadedSnapshot:
    """Load a snapshot and its text vectors from an open index. `hnsw_file`: path of the HNSW index, if there is one."""
    snapshot = load_snapshot(connection, reachability)
    return LoadedSnapshot(
        snapshot,
        vector_search.load_text_vectors(connection, snapshot, hnsw_file=hnsw_file),
        get_encoder_name(load_recorded_versions(connection).embedding_model) or EncoderName.MINILM,
    )


@dataclass(frozen=True, slots=True)
class SnapshotKey:
    """Key of a loaded snapshot: the index, the state of its file, and the commits that HEAD reaches."""

    location: IndexLocation
    fingerprint: Fingerprint
    reachability: ReachabilityDelta


@dataclass(frozen=True, slots=True)
class IndexMetadata:
    """State recorded in an index, and the languages of the files in its history."""

    recorded_state: RecordedState
    languages: frozenset[str]


@dataclass(slots=True)
class _CacheEntry:
    """Cache entry of a snapshot.

    `lock`: held by the thread that loads the snapshot. `loaded_snapshot`: None until it is loaded. `last_used`: time of
    the last query, by `time.monotonic`.
    """

    lock: Lock = field(default_factory=Lock)
    loaded_snapshot: LoadedSnapshot | None = None
    last_used: float = field(default_factory=time.monotonic)

    @property
    def bytes(self) -> int:
        return self.loaded_snapshot.bytes if self.loaded_snapshot else 0


class IndexCache:
    """Cache of open indexes and loaded snapshots. Thread-safe.

    If the snapshots exceed `max_bytes` in total, the least recently used snapshots are evicted. The most recently used
    snapshot always stays. `reader_pools`: pools of open indexes to share with other code; None for new pools.
    """

    def __init__(self, max_bytes: int = MAX_BYTES, reader_pools: ReaderPools | None = None) -> None:
        self.max_bytes = max_bytes
        self._lock = Lock()
        self._reader_pools = reader_pools or ReaderPools()
        self._entries: OrderedDict[SnapshotKey, _CacheEntry] = OrderedDict()
        self._metadata: dict[IndexLocation, tuple[Fingerprint, IndexMetadata]] = {}

    def open_index(self, location: IndexLocation) -> AbstractContextManager[OpenIndex]:
        """Open the index for one query, or reuse an open one; see `IndexReaderPool.acquire`."""
        return self._reader_pools.acquire(location)

    def load_metadata(self, location: IndexLocation, index: OpenIndex) -> IndexMetadata:
        """Return the metadata of the open index, reading it again only after the index file has changed."""
        with self._lock:
            fingerprint, metadata = self._metadata.get(location, (None, None))
        if metadata is None or fingerprint != index.fingerprint:
            connection = index.connection
            metadata = IndexMetadata(load_recorded_state(connection), hunk_details.list_languages(connection))
            with self._lock:
                # If the index was deleted meanwhile, `evict_index` may have run already; nothing else drops the entry.
                if location.has_database():
                    self._metadata[location] = index.fingerprint, metadata
        return metadata

    def get_snapshot(self, key: SnapshotKey, connection: Connection) -> LoadedSnapshot:
        """Return the snapshot, loading it if necessary. One thread loads it; other threads that need it wait."""
        entry = self._get_entry(key)
        with entry.lock:
            loaded_snapshot = entry.loaded_snapshot
            if loaded_snapshot is None:
                try:
                    loaded_snapshot = load_snapshot_with_vectors(
                        connection, key.reachability, key.location.hnsw
                    )
                except BaseException:
                    self._drop(key)
                    raise
                entry.loaded_snapshot = loaded_snapshot
                self._evict_excess()
                # As in `load_metadata`: nothing else drops the entry of an index that was deleted meanwhile.
                if not key.location.has_database():
                    self._drop(key)
            elif loaded_snapshot.diffs is None:  # this is the second query, so more are likely to follow
                entry.loaded_snapshot = loaded_snapshot = loaded_snapshot.with_all_texts(connection)
                self._evict_excess()
            return loaded_snapshot

    def evict_index(self, location: IndexLocation) -> None:
        """Close the index, and drop its snapshots and metadata."""
        with self._lock:
            self._remove_entries(lambda key: key.location == location)
            self._metadata.pop(location, None)
        self._reader_pools.close(location)

    def close(self) -> None:
        """Close every index and empty the cache. Running queries still finish with their snapshots."""
        with self._lock:
            self._entries.clear()
            self._metadata.clear()
        self._reader_pools.close_all()

    def list_loaded(self) -> tuple[LoadedIndex, ...]:
        """Return each index with a snapshot in memory, the most recently used one last."""
        indexes: dict[IndexLocation, LoadedIndex] = {}
        now = time.monotonic()
        with self._lock:
            for key, entry in self._entries.items():
                if entry.loaded_snapshot:
                    hunks, bytes_ = len(entry.loaded_snapshot.snapshot.hunks), entry.bytes
                    # Work trees of one repository share an index, but have a snapshot for each HEAD.
                    if earlier := indexes.pop(key.location, None):
                        hunks, bytes_ = max(hunks, earlier.hunks), bytes_ + earlier.bytes
                    path = str(key.location.path)
                    indexes[key.location] = LoadedIndex(path, hunks, bytes_, now - entry.last_used)
        return tuple(indexes.values())

    def _get_entry(self, key: SnapshotKey) -> _CacheEntry:
        """Return the entry of a key as the most recently used one; create it if there is none."""
        with self._lock:
            # Drop the snapshots of earlier states of the index file, because these states never come back. A query that
            # still reads an earlier state must not drop a snapshot of a later state.
            modified = _get_modification_time(key.fingerprint)
            self._remove_entries(
                lambda other: (
                    other.location == key.location
                    and other.fingerprint != key.fingerprint
                    and _get_modification_time(other.fingerprint) <= modified
                )
            )
            entry = self._entries.setdefault(key, _CacheEntry())
            entry.last_used = time.monotonic()
            self._entries.move_to_end(key)
            return entry

    def _evict_excess(self) -> None:
        with self._lock:
            # An entry without a snapshot stays, because a thread is loading it and other queries wait for its lock.
            loaded_keys = [key for key, entry in self._entries.items() if entry.loaded_snapshot]
            for key in loaded_keys[:-1]:
                if self._sum_bytes() > self.max_bytes:
                    del self._entries[key]

    def _drop(self, key: SnapshotKey) -> None:
        with self._lock:
            self._entries.pop(key, None)

    def _sum_bytes(self) -> int:
        return sum(entry.bytes for entry in self._entries.values())

    def _remove_entries(self, matches: Callable[[SnapshotKey], bool]) -> None:
        for key in [key for key in self._entries if matches(key)]:
            del self._entries[key]


def _get_modification_time(fingerprint: Fingerprint) -> int:
    """Return the time of the last modification of the index files, in ns; 0 if there are none."""
    return max((stamp.modified_ns for stamp in fingerprint if stamp), default=0)
