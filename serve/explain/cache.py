"""Answers given before, good for as long as everything they depend on is the same."""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final, Generic, TypeVar

from pipeline.git.repository import Repository
from serve.api_types import ExplainRequest
from serve.explain.blame import Ignoring
from serve.explain.target import Target
from stores.index_location import Place

# An answer is some 10 KB. One about a whole large file keeps that file's lines: then fewer are remembered.
REMEMBERED: Final = 128
REMEMBERED_BYTES: Final = 32 << 20
# What a file ends in that git keeps its index in: a digest of the rest.
INDEX_DIGEST_BYTES: Final = 20
# A person's own attributes, and settings that name files which act on an answer.
ATTRIBUTES: Final = "~/.config/git/attributes"
NAMED_FILES: Final = frozenset({"mailmap.file", "core.attributesfile"})

Known = TypeVar("Known")


@dataclass(slots=True)
class Warm(Generic[Known]):
    """What was found out last, by what it depends on; for use by several threads."""

    most: int = REMEMBERED
    heaviest: int = REMEMBERED_BYTES
    _found: OrderedDict[bytes, tuple[Known, int]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def get(self, key: bytes) -> Known | None:
        """What was found under the same key."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
            return self._found[key][0] if key in self._found else None

    def put(self, key: bytes, found: Known, weight: int = 0) -> None:
        """Remember it, and forget what was not asked for longest, until the rest are few and light enough."""
        with self._lock:
            self._found[key] = found, weight
            self._found.move_to_end(key)
            while len(self._found) > self.most or self._weight() > self.heaviest:
                self._found.popitem(last=False)

    def _weight(self) -> int:
        return sum(weight for _, weight in self._found.values())


def key(
    request: ExplainRequest,
    repository: Repository,
    head: str | None,
    target: Target,
    place: Place | None,
    ignored: Ignoring,
) -> bytes:
    """A digest of everything an answer depends on.

    Of small files the content counts and not the time: two writes within a tick of the clock look the same.
    """
    facts = (
        request,
        repository.git_dir,
        repository.root,
        head,
        target,
        ignored,
        repository.configuration,
        sorted(repository.boundary),
        *map(_content, _small_files(repository, target)),
        _stamp(repository.git_dir / "index"),
        _tail(repository.git_dir / "index"),
        _replaced(repository),
        *map(_stamp, (place.database, place.wal) if place else ()),
    )
    return _digest(facts)


def history_key(repository: Repository, head: str) -> bytes:
    """A digest of what a whole history depends on."""
    return _digest((repository.objects, head, sorted(repository.boundary)))


def _digest(facts: object) -> bytes:
    return hashlib.blake2b(repr(facts).encode("utf-8", "backslashreplace")).digest()


def _small_files(repository: Repository, target: Target) -> Iterator[Path]:
    """Files that act on blame, on diffs, or on names of people."""
    common = repository.objects.parent
    yield repository.git_dir / "MERGE_HEAD"
    yield common / "info" / "grafts"
    yield common / "info" / "attributes"
    named = [value for name, value in repository.configuration if name in NAMED_FILES]
    # Unlike `Path.expanduser`, this leaves the home of nobody as it is.
    yield from (Path(os.path.expanduser(name)) for name in (ATTRIBUTES, *named))  # noqa: PTH111 - as said
    if not repository.is_bare:
        yield repository.root / ".mailmap"
        yield repository.root / ".gitattributes"
        folders = Path(os.fsdecode(target.path)).parents
        yield from (repository.root / folder / ".gitattributes" for folder in folders)


def _replaced(repository: Repository) -> list[tuple[str, bytes | None]]:
    """Commits that stand in for others, as far as they have files of their own; packed ones by their file."""
    common = repository.objects.parent
    folder = common / "refs" / "replace"
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    found = [(name, _content(folder / name)) for name in names]
    return [*found, ("packed", repr(_stamp(common / "packed-refs")).encode())]


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _tail(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(-INDEX_DIGEST_BYTES, os.SEEK_END)
            return file.read()
    except OSError:
        return b""
