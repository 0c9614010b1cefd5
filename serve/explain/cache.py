"""Cache of answers, and the keys that change with everything an answer depends on."""

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

# An answer takes about 10 KB; one about a whole large file holds its lines, so the bytes are limited too.
MAX_ENTRIES: Final = 128
MAX_BYTES: Final = 32 << 20
# git's index file ends with a SHA-1 digest of its content.
INDEX_DIGEST_BYTES: Final = 20
# The user's attributes file, and settings that name files which affect an answer.
USER_ATTRIBUTES: Final = "~/.config/git/attributes"
FILE_SETTINGS: Final = frozenset({"mailmap.file", "core.attributesfile"})

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """LRU cache limited by the number of entries and by their total size. Thread-safe.

    Each entry counts for at least its share of `max_bytes`, so that the size limit bounds the number as well.
    """

    def __init__(self, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        share = max_bytes // max_entries
        self._entries: LRUCache[bytes, tuple[Value, int]] = LRUCache(
            max_bytes, getsizeof=lambda entry: max(entry[1], share)
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


def answer_key(
    request: ExplainRequest,
    repository: Repository,
    head: str | None,
    target: Target,
    location: IndexLocation | None,
    ignore_revs: BlameIgnoreRevs,
) -> bytes:
    """Return a digest of everything that an answer depends on.

    Small files count by their content: two writes within one tick of the clock have the same modification time.
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
        *map(_read_or_none, _dependency_files(repository, target)),
        _file_signature(repository.git_dir / "index"),
        _read_tail(repository.git_dir / "index"),
        _replace_refs(repository),
        *map(_file_signature, (location.database, location.wal) if location else ()),
    )
    return _digest(dependencies)


def history_key(repository: Repository, head: str) -> bytes:
    """Return a digest of everything that the history of `head` depends on."""
    return _digest((repository.objects_dir, head, sorted(repository.shallow_boundary)))


def _digest(dependencies: object) -> bytes:
    return hashlib.blake2b(repr(dependencies).encode("utf-8", "backslashreplace")).digest()


def _dependency_files(repository: Repository, target: Target) -> Iterator[Path]:
    """Yield the small files that affect blame, diffs or the names of authors."""
    common = repository.objects_dir.parent
    yield repository.git_dir / "MERGE_HEAD"
    yield common / "info" / "grafts"
    yield common / "info" / "attributes"
    configured = [value for name, value in repository.config if name in FILE_SETTINGS]
    # `Path.expanduser` would raise for an unknown user.
    yield from (Path(os.path.expanduser(name)) for name in (USER_ATTRIBUTES, *configured))  # noqa: PTH111
    if not repository.is_bare:
        yield repository.root / ".mailmap"
        yield repository.root / ".gitattributes"
        directories = Path(os.fsdecode(target.path)).parents
        yield from (repository.root / directory / ".gitattributes" for directory in directories)


def _replace_refs(repository: Repository) -> list[tuple[str, bytes | None]]:
    """Return the contents of loose replace refs, and the signature of the file with the packed ones."""
    common = repository.objects_dir.parent
    directory = common / "refs" / "replace"
    names = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    loose = [(name, _read_or_none(directory / name)) for name in names]
    return [*loose, ("packed", repr(_file_signature(common / "packed-refs")).encode())]


def _read_or_none(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _file_signature(path: Path) -> tuple[int, int, int] | None:
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
