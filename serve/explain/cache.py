"""LRU cache, and the context of a request, from which the cache key of its answer is computed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final, Generic, TypeVar

from cachetools import LRUCache

from pipeline.git import commit_graph
from pipeline.git.errors import build_blocking_file_error
from pipeline.git.git_cli import GitProgram
from pipeline.git.git_dir import blocks_on_open, read_or_empty
from pipeline.git.libgit2 import find_user_attributes_file
from pipeline.git.repository import Repository
from serve.explain.blame import BlameIgnoreRevs
from serve.explain.target import Target
from serve.explain_types import ExplainRequest
from stores.connections import ReaderPools
from stores.index_location import IndexLocation

# Limits of a cache. An answer takes about 10 KB, but up to all lines of a large file, so the bytes are limited too.
MAX_ENTRIES: Final = 128
MAX_BYTES: Final = 32 << 20
# git's index file ends with a SHA-1 digest of its content.
INDEX_DIGEST_BYTES: Final = 20
# Setting that names a file with the names of authors.
MAILMAP_SETTING: Final = "mailmap.file"

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """LRU cache limited by the number of entries and by their total size. Thread-safe.

    Each entry counts as at least `max_bytes / max_entries` bytes, so the limit of bytes also limits the entries.
    """

    def __init__(self, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        min_entry_bytes = max_bytes // max_entries
        self._entries: LRUCache[bytes, tuple[Value, int]] = LRUCache(
            max_bytes, getsizeof=lambda entry: max(entry[1], min_entry_bytes)
        )
        self._lock = Lock()

    def get(self, key: bytes) -> Value | None:
        """Return the cached value, or None."""
        with self._lock:
            entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def put(self, key: bytes, value: Value, size_bytes: int = 0) -> None:
        """Cache a value of this size, unless it is larger than the whole cache."""
        with self._lock, suppress(ValueError):
            self._entries[key] = value, size_bytes


@dataclass(frozen=True, slots=True)
class ExplainContext:
    """A request, and the state of the repository, file and index from which it is answered.

    `head`: sha of HEAD; None without commits. `location`: files of the index; None without an index. `histories`: cache
    of the histories of repositories without an index. `reader_pools`: open indexes.
    """

    request: ExplainRequest
    repository: Repository
    head: str | None
    target: Target
    location: IndexLocation | None
    ignore_revs: BlameIgnoreRevs
    histories: BoundedCache[bytes]
    reader_pools: ReaderPools

    @property
    def answer_key(self) -> bytes:
        """Digest of everything that the answer depends on.

        Small files are read in full, because two writes within one tick of the clock have the same modification time.
        """
        repository, location = self.repository, self.location
        dependencies = (
            self.request,
            repository.git_dir,
            repository.root,
            self.head,
            self.target,
            self.ignore_revs,
            repository.config,
            sorted(repository.shallow_boundary),
            repository.list_tag_targets(),
            *map(read_or_empty, _list_dependency_files(repository, self.target)),
            _read_file_signature(repository.git_dir / "index"),
            _read_index_digest(repository.git_dir / "index"),
            *map(_read_file_signature, (location.database, location.wal) if location else ()),
        )
        return _hash_dependencies(dependencies)

    @property
    def line_range(self) -> tuple[int, int] | None:
        """First and last of the requested lines that the file has; None if it has none of them."""
        first, count = self.request.line_start, len(self.target.lines)
        last = min(self.request.line_end or count, count)
        return (first, last) if first <= last else None

    @property
    def file_history_path(self) -> str | None:
        """Path of the file whose history to read for related commits; None if the request excludes them."""
        return self.target.display_path if self.request.include_related else None

    @property
    def graph_directory(self) -> Path | None:
        """Directory of the index with the commit-graph for git; None without an index."""
        return self.location.git_directory if self.location else None

    @property
    def git(self) -> GitProgram:
        """Git program for this repository, with the commit graph of the index if there is one."""
        return commit_graph.create_git_program(
            self.repository, self.graph_directory, self.ignore_revs.replacement_config
        )


def check_blocking_files(repository: Repository, target: Target, ignore_revs: BlameIgnoreRevs) -> None:
    """Raise DamagedRepository if git would wait forever to blame the target.

    git waits if a file that it reads, such as `.mailmap`, is a pipe.
    """
    if target.content is None:
        return
    files = (*_list_dependency_files(repository, target), *ignore_revs.configured_files)
    blocking_file = next(filter(blocks_on_open, files), None)
    if blocking_file is not None:
        raise build_blocking_file_error(blocking_file)


def compute_history_key(repository: Repository, head: str) -> bytes:
    """Return a digest of everything that the history of `head` depends on."""
    return _hash_dependencies((repository.objects_dir, head, sorted(repository.shallow_boundary)))


def _hash_dependencies(dependencies: object) -> bytes:
    return hashlib.blake2b(repr(dependencies).encode("utf-8", "backslashreplace")).digest()


def _list_dependency_files(repository: Repository, target: Target) -> Iterator[Path]:
    """Yield the small files that affect blame, diffs or the names of authors."""
    yield repository.git_dir / "MERGE_HEAD"
    yield repository.common_dir / "info" / "attributes"
    if user_attributes := find_user_attributes_file(dict(repository.config)):
        yield user_attributes
    mailmaps = [value for name, value in repository.config if name == MAILMAP_SETTING]
    # `Path.expanduser` would raise for an unknown user.
    yield from (repository.root / os.path.expanduser(name) for name in mailmaps)  # noqa: PTH111
    if not repository.is_bare:
        yield repository.root / ".mailmap"
        directories = Path(os.fsdecode(target.path)).parents
        yield from (repository.root / directory / ".gitattributes" for directory in directories)


def _read_file_signature(path: Path) -> tuple[int, int, int] | None:
    """Return inode, modification time in ns and size of a file; None if it cannot be read."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _read_index_digest(path: Path) -> bytes:
    """Return the digest at the end of git's index file; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(-INDEX_DIGEST_BYTES, os.SEEK_END)
            return file.read()
    except OSError:
        return b""
