"""Mindmap files: one JSON file per mindmap in a data directory that several processes share.

A process that changes a mindmap holds its lock from reading to renaming the file, so that no change is lost. Readers
need no lock, because a file is replaced atomically. Content is bytes here; the package `mindmap` converts it.
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
# With this length, the name of a quarantined file (id, suffix, time, random part) stays below the usual 255 bytes.
MAX_ID_LENGTH: Final = 128
_ID: Final = re.compile(r"[A-Za-z0-9_-]+")
_QUARANTINE_NAME: Final = re.compile(r"([A-Za-z0-9_-]+)\.json\.damaged-.+")

# A mindmap of 5,000 nodes has 2 MB. A file over this limit would cost every reader too much memory.
MAX_BYTES: Final = 64_000_000
# Timeout for a mindmap's lock. A change takes milliseconds, so a longer holder is probably suspended.
WAIT_SECONDS: Final = 30.0
# Number of existing ids that an error message lists.
MAX_IDS_LISTED: Final = 5

# These flags follow no symlink, and opening a named pipe does not block.
_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class BadMindmapId(LineageError):
    """Error for an invalid id: empty, too long, or with characters that could lead out of the directory."""


class NoSuchMindmap(LineageError):
    """Error for an id that no mindmap has."""


class QuarantinedMindmap(NoSuchMindmap):
    """Error for the id of a mindmap whose file was damaged and therefore renamed."""


class MindmapExists(LineageError):
    """Error for a new mindmap whose id has a file already."""


class NotAPlainFile(LineageError):
    """Error for a symlink, a directory or a pipe where a mindmap's file belongs."""


class MindmapTooLarge(LineageError):
    """Error for a file, or content to write, that is larger than MAX_BYTES."""


class MindmapBusy(LineageError):
    """Error for a lock of a mindmap that another process held until the timeout."""


class FolderUnusable(LineageError):
    """Error for a data directory that the operating system could not read or write."""


def check_id(mindmap_id: str) -> str:
    """Return the id; raise BadMindmapId if it is invalid."""
    if len(mindmap_id) > MAX_ID_LENGTH:
        raise BadMindmapId(
            f"A mindmap id has at most {MAX_ID_LENGTH} characters; this one has {len(mindmap_id):,}.",
            hint="Use the id that was returned when the mindmap was created.",
        )
    if not _ID.fullmatch(mindmap_id):
        raise BadMindmapId(
            f"{mindmap_id!r} is not a mindmap id.",
            hint="An id consists of letters, digits, `_` and `-` only.",
        )
    return mindmap_id


def format_file_name(mindmap_id: str) -> str:
    """Return the name of the mindmap's file; raise BadMindmapId if the id is invalid."""
    return f"{check_id(mindmap_id)}{SUFFIX}"


def parse_file_name(name: str) -> str | None:
    """Return the mindmap id in the file name; None if it is not the name of a mindmap file."""
    mindmap_id = name.removesuffix(SUFFIX)
    is_mindmap = name.endswith(SUFFIX) and len(mindmap_id) <= MAX_ID_LENGTH and _ID.fullmatch(mindmap_id)
    return mindmap_id if is_mindmap else None


def format_temp_name(mindmap_id: str) -> str:
    """Return the name of the mindmap's temporary file. It is always the same, so killed processes leave only one."""
    return f".{mindmap_id}.tmp"


def format_lock_path(mindmap_id: str) -> str:
    """Return the path of the mindmap's lock file in the data directory."""
    return f".locks/{mindmap_id}.lock"


def make_quarantine_name(mindmap_id: str) -> str:
    """Return a unique name to which a damaged file can be moved."""
    timestamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{format_file_name(mindmap_id)}.damaged-{timestamp}-{secrets.token_hex(2)}"


def parse_quarantine_name(name: str) -> str | None:
    """Return the mindmap id in the name of a quarantined file; None for any other name."""
    match = _QUARANTINE_NAME.fullmatch(name)
    return match[1] if match else None


@dataclass(frozen=True, slots=True)
class MindmapDirectory:
    """Data directory with the mindmap files; it need not exist yet.

    All methods raise FolderUnusable for errors of the operating system, and BadMindmapId for invalid ids.
    """

    path: Path

    def list_ids(self) -> list[str]:
        """Return the ids of all mindmap files, including unreadable files, last modified first."""
        ids_by_time = [
            (_get_modified_ns(entry), mindmap_id)
            for entry in self._scan()
            if (mindmap_id := parse_file_name(entry.name)) is not None
        ]
        return [mindmap_id for _, mindmap_id in sorted(ids_by_time, reverse=True)]

    def list_quarantined(self) -> list[tuple[str, Path]]:
        """Return the id and path of every quarantined file, those of the same id by time of quarantine."""
        names = sorted(entry.name for entry in self._scan())
        return [
            (mindmap_id, self.path / name) for name in names if (mindmap_id := parse_quarantine_name(name))
        ]

    def read(self, mindmap_id: str) -> bytes:
        """Return the content of the mindmap's file.

        Raises NoSuchMindmap, NotAPlainFile or MindmapTooLarge.
        """
        file = self._build_path(mindmap_id)
        try:
            descriptor = os.open(file, _READ_FLAGS)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self._build_missing_error(mindmap_id) from error
        except OSError as error:
            if error.errno == errno.ELOOP:  # a symlink
                raise _build_file_type_error(file) from error
            raise self._build_folder_error(error) from error
        with locks.close_finally(descriptor):
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _build_file_type_error(file)
            _check_size(mindmap_id, status.st_size)
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                return stream.read()

    def create(self, mindmap_id: str, content: bytes) -> None:
        """Write a new mindmap's file, and create the directory if necessary.

        Raises MindmapExists, MindmapTooLarge or MindmapBusy.
        """
        with self._hold_lock(mindmap_id, create_directory=True):
            if os.path.lexists(self._build_path(mindmap_id)):
                raise MindmapExists(
                    f"The mindmap {mindmap_id} exists already.",
                    hint="Create the mindmap again; it gets a new id.",
                )
            LockedMindmap(self.path, mindmap_id, b"").replace(content)

    @contextmanager
    def lock(self, mindmap_id: str) -> Iterator[LockedMindmap]:
        """Yield the mindmap while holding its lock. Raises the errors of `read`, or MindmapBusy."""
        if not os.path.lexists(self._build_path(mindmap_id)):
            raise self._build_missing_error(mindmap_id)
        with self._hold_lock(mindmap_id):
            yield LockedMindmap(self.path, mindmap_id, self.read(mindmap_id))

    def remove(self, mindmap_id: str) -> None:
        """Delete the mindmap without reading its file, which may be too large to read.

        Raises NoSuchMindmap, NotAPlainFile or MindmapBusy.
        """
        file = self._build_path(mindmap_id)
        if not os.path.lexists(file):
            raise self._build_missing_error(mindmap_id)
        with self._hold_lock(mindmap_id):
            try:
                if not stat.S_ISREG(file.lstat().st_mode):
                    raise _build_file_type_error(file)
                LockedMindmap(self.path, mindmap_id, b"").remove()
            except FileNotFoundError as error:  # another process deleted it during the wait
                raise self._build_missing_error(mindmap_id) from error

    def _scan(self) -> list[os.DirEntry[str]]:
        """Return the entries of the directory; none if it does not exist."""
        try:
            with os.scandir(self.path) as entries:
                return list(entries)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._build_folder_error(error) from error

    def _build_path(self, mindmap_id: str) -> Path:
        return self.path / format_file_name(mindmap_id)

    @contextmanager
    def _hold_lock(self, mindmap_id: str, *, create_directory: bool = False) -> Iterator[None]:
        """Hold the mindmap's lock. If the mindmap has no file at the end, delete its temporary file and its lock file.

        A process that waits for a deleted lock file notices the deletion, and locks a new file.
        """
        file, lock_file = self._build_path(mindmap_id), self.path / format_lock_path(mindmap_id)
        deadline = locks.Deadline.after(WAIT_SECONDS, lambda seconds: _build_busy_error(mindmap_id, seconds))
        try:
            if create_directory:
                self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock_file.parent.mkdir(mode=0o700, exist_ok=True)
            with locks.acquire_exclusive_lock(lock_file, deadline):
                try:
                    yield
                finally:
                    if not os.path.lexists(file):
                        for leftover_file in (self.path / format_temp_name(mindmap_id), lock_file):
                            with suppress(OSError):  # a leftover file does no harm
                                leftover_file.unlink()
        except OSError as error:
            raise self._build_folder_error(error) from error

    def _build_missing_error(self, mindmap_id: str) -> NoSuchMindmap:
        """Return the error for an id without a file. It names quarantined files of this id, or existing ids."""
        quarantined_files = [file for damaged_id, file in self.list_quarantined() if damaged_id == mindmap_id]
        if quarantined_files:
            return QuarantinedMindmap(
                f"{mindmap_id} was damaged and moved to {quarantined_files[-1]}.",
                hint=f"Repair that file and rename it to {format_file_name(mindmap_id)}, or create a new mindmap.",
            )
        ids = self.list_ids()
        remainder = f" and {len(ids) - MAX_IDS_LISTED:,} more" if len(ids) > MAX_IDS_LISTED else ""
        hint = (
            f"Existing mindmaps: {', '.join(ids[:MAX_IDS_LISTED])}{remainder}."
            if ids
            else "No mindmap exists there yet."
        )
        return NoSuchMindmap(f"There is no mindmap {mindmap_id} in {self.path}.", hint=hint)

    def _build_folder_error(self, error: OSError) -> FolderUnusable:
        return FolderUnusable(
            f"{error.filename or self.path}: {error.strerror or error}.",
            hint=f"Mindmaps are stored in {self.path}: check its permissions and the free disk space, "
            "or set MINDMAP_DATA_DIR to another directory.",
        )


@dataclass(frozen=True, slots=True)
class LockedMindmap:
    """Mindmap whose lock this process holds.

    `content`: content of its file when the lock was acquired; empty if it was not read.
    """

    folder: Path
    mindmap_id: str
    content: bytes

    @property
    def file(self) -> Path:
        """File of the mindmap."""
        return self.folder / format_file_name(self.mindmap_id)

    def replace(self, content: bytes) -> None:
        """Replace the file atomically, and flush it to disk. Raises MindmapTooLarge if the content is too large."""
        _check_size(self.mindmap_id, len(content))
        # A killed process may have left a temporary file. Only the holder of the lock uses this file.
        temp_file = self.folder / format_temp_name(self.mindmap_id)
        temp_file.unlink(missing_ok=True)
        try:
            with os.fdopen(os.open(temp_file, _CREATE_FLAGS, 0o600), "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temp_file.replace(self.file)
        except BaseException:
            temp_file.unlink(missing_ok=True)
            raise
        _fsync_directory(self.folder)

    def remove(self) -> None:
        """Delete the file."""
        self.file.unlink()
        _fsync_directory(self.folder)

    def quarantine(self) -> Path:
        """Rename the damaged file without changing it; return its new path."""
        target = self.folder / make_quarantine_name(self.mindmap_id)
        self.file.rename(target)
        _fsync_directory(self.folder)
        return target


def _fsync_directory(folder: Path) -> None:
    """Flush the directory to disk. Without this, a crash may undo a rename in it."""
    with locks.close_finally(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)


def _get_modified_ns(entry: os.DirEntry[str]) -> int:
    """Return the modification time in nanoseconds, or 0 if it cannot be read."""
    with suppress(OSError):  # the file was deleted since the scan, or permission is missing
        return entry.stat(follow_symlinks=False).st_mtime_ns
    return 0


def _check_size(mindmap_id: str, size: int) -> None:
    if size > MAX_BYTES:
        raise MindmapTooLarge(
            f"{mindmap_id} has {size:,} bytes; a mindmap has at most {MAX_BYTES:,}.",
            hint="Remove nodes or attached files that are no longer needed, or start another mindmap. "
            "A mindmap that is too large to read can be deleted.",
        )


def _build_file_type_error(file: Path) -> NotAPlainFile:
    return NotAPlainFile(
        f"{file} is not a plain file.",
        hint="Replace it with the mindmap's file itself; links are not followed.",
    )


def _build_busy_error(mindmap_id: str, seconds: float) -> MindmapBusy:
    return MindmapBusy(
        f"Another process is changing {mindmap_id} and did not finish within {seconds:g} s.",
        hint="Try again. If that does not help, end the other process.",
    )
