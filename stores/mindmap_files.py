"""What the files of mindmaps are called: ids, which become part of paths, and the names beside theirs.

Mindmap documents as files, one for each: locked read-modify-write, atomic replace, ids, what is damaged set aside.

Several processes write one folder. A change holds the document's lock file from reading to renaming, so none is
lost; readers need no lock, because a file is replaced whole. What is in a file is `mindmap`'s business: here it is
bytes.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from stores import locks
from stores.errors import LineageError

SUFFIX: Final = ".json"
# Beside its name a file has a suffix and a moment, and most file systems allow 255 bytes for it all.
LONGEST_ID: Final = 128
_ID: Final = re.compile(r"[A-Za-z0-9_-]+")
# A damaged map's file that was moved out of the way: its name, this, a moment.
_ASIDE: Final = re.compile(r"([A-Za-z0-9_-]+)\.json\.damaged-.+")


class BadMindmapId(LineageError):
    """Not an id: it could name a file outside the folder, or none at all."""


def checked(mindmap_id: str) -> str:
    """The id, if it is one: it becomes part of a path."""
    if len(mindmap_id) > LONGEST_ID:
        raise BadMindmapId(
            f"A mindmap id has at most {LONGEST_ID} characters; this one has {len(mindmap_id):,}.",
            hint="Use an id as it was given when the map was made.",
        )
    if not _ID.fullmatch(mindmap_id):
        raise BadMindmapId(
            f"{mindmap_id!r} is not a mindmap id.",
            hint="An id consists of letters, digits, `_` and `-` only.",
        )
    return mindmap_id


def file_of(mindmap_id: str) -> str:
    """The name of the map's file."""
    return f"{checked(mindmap_id)}{SUFFIX}"


def id_of(name: str) -> str | None:
    """The id of the map whose file has this name; None for any other file."""
    mindmap_id = name.removesuffix(SUFFIX)
    is_map = name.endswith(SUFFIX) and len(mindmap_id) <= LONGEST_ID and _ID.fullmatch(mindmap_id)
    return mindmap_id if is_map else None


def draft_of(mindmap_id: str) -> str:
    """What is written before it takes the file's place: one name for each map, so that kills leave one at most."""
    return f".{mindmap_id}.tmp"


def lock_of(mindmap_id: str) -> str:
    """The file that is locked while the map is changed."""
    return f".locks/{mindmap_id}.lock"


def aside_of(mindmap_id: str) -> str:
    """A name to move a damaged file to, which no other has."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{file_of(mindmap_id)}.damaged-{moment}-{secrets.token_hex(2)}"


def id_of_aside(name: str) -> str | None:
    """The id of the map that was moved out of the way to this name; None for any other file."""
    found = _ASIDE.fullmatch(name)
    return found[1] if found else None


# A map of 5,000 nodes has 2 MB. More than this is no map that anybody reads, and costs every reader its memory.
LARGEST_BYTES: Final = 64_000_000
# A change takes milliseconds; whoever waits this long waits for a process that was stopped.
WAIT_SECONDS: Final = 30.0
# Enough to recognise the one that was meant.
IDS_SHOWN: Final = 5

# No link is followed, and a pipe in the folder keeps nobody waiting.
_READING: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DRAFTING: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class NoSuchMindmap(LineageError):
    """No file for an id."""


class MindmapTaken(LineageError):
    """A file for the id of a new map is there already."""


class NotAPlainFile(LineageError):
    """A link, a folder or a pipe stands where a map's file should be."""


class MindmapTooLarge(LineageError):
    """A file, or what is to become one, is over the limit."""


class MindmapBusy(LineageError):
    """Another process kept the map for as long as this one was ready to wait."""


class FolderUnusable(LineageError):
    """The system refuses what has to be done in the data directory."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The data directory: the only thing that processes share."""

    path: Path

    def ids(self) -> list[str]:
        """Every id that has a file or something in its place, the latest written first."""
        found = [
            (_moment(entry), mindmap_id)
            for entry in self._entries()
            if (mindmap_id := id_of(entry.name)) is not None
        ]
        return [mindmap_id for _, mindmap_id in sorted(found, reverse=True)]

    def aside(self) -> list[tuple[str, Path]]:
        """The ids of maps that were damaged, and the files that were moved out of the way for it."""
        names = sorted(entry.name for entry in self._entries())
        return [(found, self.path / name) for name in names if (found := id_of_aside(name))]

    def read(self, mindmap_id: str) -> bytes:
        """What the map's file holds."""
        file = self._file(mindmap_id)
        try:
            descriptor = os.open(file, _READING)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self._absent(mindmap_id) from error
        except OSError as error:
            raise (_not_plain(file) if error.errno == errno.ELOOP else self._unusable(error)) from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise _not_plain(file)
        with os.fdopen(descriptor, "rb") as opened:
            _check_size(mindmap_id, status.st_size)
            return opened.read()

    def create(self, mindmap_id: str, content: bytes) -> None:
        """A new map's file."""
        with self._alone(mindmap_id, make=True):
            if os.path.lexists(self._file(mindmap_id)):
                raise MindmapTaken(
                    f"There is a mindmap {mindmap_id} already.", hint="Leave the id to be chosen."
                )
            Held(self.path, mindmap_id, b"").replace(content)

    @contextmanager
    def changing(self, mindmap_id: str) -> Iterator[Held]:
        """The map, with nobody else changing it while the body runs."""
        if not os.path.lexists(self._file(mindmap_id)):
            raise self._absent(mindmap_id)
        with self._alone(mindmap_id):
            yield Held(self.path, mindmap_id, self.read(mindmap_id))

    def remove(self, mindmap_id: str) -> None:
        """Delete the map without a look at what is in its file, which may be more than is ever read."""
        file = self._file(mindmap_id)
        if not os.path.lexists(file):
            raise self._absent(mindmap_id)
        with self._alone(mindmap_id):
            try:
                if not stat.S_ISREG(file.lstat().st_mode):
                    raise _not_plain(file)
                Held(self.path, mindmap_id, b"").remove()
            except FileNotFoundError as error:  # by somebody else, while this one waited
                raise self._absent(mindmap_id) from error

    def _entries(self) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self.path) as entries:
                return list(entries)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self._unusable(error) from error

    def _file(self, mindmap_id: str) -> Path:
        return self.path / file_of(mindmap_id)

    @contextmanager
    def _alone(self, mindmap_id: str, *, make: bool = False) -> Iterator[None]:
        file, lock = self._file(mindmap_id), self.path / lock_of(mindmap_id)
        deadline = locks.Deadline.after(WAIT_SECONDS, lambda seconds: _busy(mindmap_id, seconds))
        try:
            if make:
                self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock.parent.mkdir(mode=0o700, exist_ok=True)
            with locks.held(lock, deadline):
                try:
                    yield
                finally:
                    if not os.path.lexists(file):
                        _clear(self.path, mindmap_id)
        except OSError as error:
            raise self._unusable(error) from error

    def _absent(self, mindmap_id: str) -> NoSuchMindmap:
        kept = [str(file) for damaged, file in self.aside() if damaged == mindmap_id]
        if kept:
            return NoSuchMindmap(
                f"{mindmap_id} was damaged and is kept in {kept[-1]}.",
                hint=f"Repair it and name it {file_of(mindmap_id)}, or make a new map.",
            )
        ids = self.ids()
        more = f" and {len(ids) - IDS_SHOWN:,} more" if len(ids) > IDS_SHOWN else ""
        there = f"There are {', '.join(ids[:IDS_SHOWN])}{more}." if ids else "There is none at all yet."
        return NoSuchMindmap(f"There is no mindmap {mindmap_id} in {self.path}.", hint=there)

    def _unusable(self, error: OSError) -> FolderUnusable:
        return FolderUnusable(
            f"{error.filename or self.path}: {error.strerror or error}.",
            hint=f"Maps are kept in {self.path}: make room and leave to write there, "
            "or name another folder in MINDMAP_DATA_DIR.",
        )


@dataclass(frozen=True, slots=True)
class Held:
    """A map that this process alone may change for the moment; `content` is what its file holds."""

    folder: Path
    mindmap_id: str
    content: bytes

    @property
    def file(self) -> Path:
        """The map's file."""
        return self.folder / file_of(self.mindmap_id)

    def replace(self, content: bytes) -> None:
        """Put the content in place of the map's file: whole, or not at all, and there to stay."""
        _check_size(self.mindmap_id, len(content))
        # A killed process may have left it; whoever has the lock owns it.
        draft = self.folder / draft_of(self.mindmap_id)
        draft.unlink(missing_ok=True)
        try:
            with os.fdopen(os.open(draft, _DRAFTING, 0o600), "wb") as opened:
                opened.write(content)
                opened.flush()
                os.fsync(opened.fileno())
            draft.replace(self.file)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        _settle(self.folder)

    def remove(self) -> None:
        """Delete the map."""
        self.file.unlink()
        _settle(self.folder)

    def set_aside(self) -> Path:
        """Move the file out of the way, unchanged; where it is now."""
        aside = self.folder / aside_of(self.mindmap_id)
        self.file.rename(aside)
        _settle(self.folder)
        return aside


def _clear(folder: Path, mindmap_id: str) -> None:
    """Leave nothing of a map that is gone. A peer that waits for its lock sees that, takes the next, and is told."""
    for name in (draft_of(mindmap_id), lock_of(mindmap_id)):
        with suppress(OSError):  # it is litter, and in nobody's way
            (folder / name).unlink()


def _settle(folder: Path) -> None:
    """Have the folder itself on disk: a rename lasts only as the folder that knows of it does."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _moment(entry: os.DirEntry[str]) -> int:
    with suppress(OSError):  # deleted since the folder was read, or not ours to look at
        return entry.stat(follow_symlinks=False).st_mtime_ns
    return 0


def _check_size(mindmap_id: str, size: int) -> None:
    if size > LARGEST_BYTES:
        raise MindmapTooLarge(
            f"{mindmap_id} has {size:,} bytes; a map has at most {LARGEST_BYTES:,}.",
            hint="Remove nodes or attached files that are no longer needed, or begin another map; "
            "one that is too large to be read can be deleted.",
        )


def _not_plain(file: Path) -> NotAPlainFile:
    return NotAPlainFile(
        f"{file} is not a plain file.", hint="Maps are not read through links: put the file itself there."
    )


def _busy(mindmap_id: str, seconds: float) -> MindmapBusy:
    return MindmapBusy(
        f"{mindmap_id} is being changed by another process; waited {seconds:g} s.",
        hint="Try again; should that not help, end the other process.",
    )
