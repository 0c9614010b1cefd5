"""Cache of answers. A key contains everything that an answer depends on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final, Generic, TypeVar

from cachetools import LRUCache

from pipeline.git.repository import Repository
from serve.api_types import ExplainRequest
from serve.explain.blame import BlameIgnoreRevs
from serve.explain.target import Target
from stores.index_location import IndexLocation

# An answer takes about 10 KB, but one about a large file contains all its lines, so the bytes are limited as well.
MAX_ENTRIES: Final = 128
MAX_BYTES: Final = 32 << 20
# git's index file ends with a SHA-1 digest of its content.
INDEX_DIGEST_BYTES: Final = 20
# git's default file for the user's attributes.
USER_ATTRIBUTES: Final = "~/.config/git/attributes"
# Settings whose values name files that affect an answer.
FILE_SETTINGS: Final = frozenset({"mailmap.file", "core.attributesfile"})

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """LRU cache limited by the number of entries and by their total size. Thread-safe.

    Each entry counts for at least `max_bytes / max_entries` bytes, so the limit of bytes also limits the entries.
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
        """Cache a value, unless it is larger than the whole cache."""
        with self._lock, suppress(ValueError):
            self._entries[key] = value, size_bytes


def compute_answer_key(
    request: ExplainRequest,
    repository: Repository,
    head: str | None,
    target: Target,
    location: IndexLocation | None,
    ignore_revs: BlameIgnoreRevs,
) -> bytes:
    """Return a digest of everything that an answer depends on.

    It contains small files in full, because two writes within one tick of the clock have the same modification time.
    """
    dependencies = (
        request,
        repository.git_dir,
        repository.root,
        head,
        target,
        ignore_revs,
        repository.config,
        sorted(repository.shallow_boundary),
        *map(_read_or_none, _list_dependency_files(repository, target)),
        _read_file_signature(repository.git_dir / "index"),
        _read_tail(repository.git_dir / "index"),
        _read_replace_refs(repository),
        *map(_read_file_signature, (location.database, location.wal) if location else ()),
    )
    return _hash_dependencies(dependencies)


def compute_history_key(repository: Repository, head: str) -> bytes:
    """Return a digest of everything that the history of `head` depends on."""
    return _hash_dependencies((repository.objects_dir, head, sorted(repository.shallow_boundary)))


def _hash_dependencies(dependencies: object) -> bytes:
    return hashlib.blake2b(repr(dependencies).encode("utf-8", "backslashreplace")).digest()


def _list_dependency_files(repository: Repository, target: Target) -> Iterator[Path]:
    """Yield the small files that affect blame, diffs or the names of authors."""
    common = repository.objects_dir.parent
    yield repository.git_dir / "MERGE_HEAD"
    yield common / "info" / "grafts"
    yield common / "info" / "attributes"
    configured_files = [value for name, value in repository.config if name in FILE_SETTINGS]
    # `Path.expanduser` would raise for an unknown user.
    yield from (Path(os.path.expanduser(name)) for name in (USER_ATTRIBUTES, *configured_files))  # noqa: PTH111
    if not repository.is_bare:
        yield repository.root / ".mailmap"
        yield repository.root / ".gitattributes"
        directories = Path(os.fsdecode(target.path)).parents
        yield from (repository.root / directory / ".gitattributes" for directory in directories)


def _read_replace_refs(repository: Repository) -> list[tuple[str, bytes | None]]:
    """Return the contents of loose replace refs, and the signature of the file with the packed refs."""
    common = repository.objects_dir.parent
    directory = common / "refs" / "replace"
    names = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    loose_refs = [(name, _read_or_none(directory / name)) for name in names]
    return [*loose_refs, ("packed", repr(_read_file_signature(common / "packed-refs")).encode())]


def _read_or_none(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _read_file_signature(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _read_tail(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(-INDEX_DIGEST_BYTES, os.SEEK_END)
            return file.read()
    except OSError:
        return b""
