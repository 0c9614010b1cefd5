"""What a map's file looks like from outside: the sign differs whenever the file was written or replaced.

Maps as they are sent: read and encoded once for all who ask, as long as their files stay as they are.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from mindmap.document import encode
from mindmap.map_store import UNREADABLE, Maps
from mindmap.tree import Summary, summary
from serve.viewer.responses import Body, code_of
from stores.errors import LineageError
from stores.mindmap_files import FolderUnusable, NoSuchMindmap, file_of, id_of

# File systems date by the kernel's tick, 10 ms at most: two writes within one can look the same.
TICK_NANOSECONDS: Final = 20_000_000


@dataclass(frozen=True, slots=True)
class Sign:
    """Of one file. Not `settled`: it was written just now, and may be once more without looking different."""

    inode: int
    written: int
    changed: int
    size: int
    settled: bool = field(compare=False)


def sign(folder: Path, mindmap_id: str) -> Sign | None:
    """The sign of one map; None where there is no file."""
    try:
        return _sign((folder / file_of(mindmap_id)).lstat())
    except OSError:
        return None


def signs(folder: Path) -> dict[str, Sign]:
    """Those of all maps in a folder; none where there is no folder, and OSError where it cannot be read."""
    found: dict[str, Sign] = {}
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            mindmap_id = id_of(entry.name)
            if mindmap_id is not None:
                with suppress(OSError):  # deleted since the folder was read
                    found[mindmap_id] = _sign(entry.stat(follow_symlinks=False))
    return found


def _sign(status: os.stat_result) -> Sign:
    # A date in the future is another clock's, and tells as little as one long ago.
    age = time.time_ns() - status.st_mtime_ns
    settled = not 0 <= age < TICK_NANOSECONDS
    return Sign(status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size, settled)


# A dozen of the largest maps there are, or all of a person's.
KEPT_BYTES: Final = 48_000_000
# Threads that read different maps seldom wait for each other.
TURNS: Final = 16


class Problem(msgspec.Struct, frozen=True):
    """A file that cannot be shown, and why."""

    id: str
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class _Seen:
    """What came of reading a map: when that began, and the sign its file had just before."""

    sign: Sign | None
    began: float
    line: Summary | LineageError
    body: Body | None = None

    def serves(self, now: Sign | None, asked: float) -> bool:
        """Whether it is what somebody who asked at that moment is to have; `now` is the sign of the file."""
        # Read after they asked, it is what they want, whatever has become of the file: so of many who ask for a map
        # that is being written, each does not have it read anew.
        return self.began >= asked or (self.sign is not None and self.sign.settled and self.sign == now)


class Documents:
    """The maps of a data directory, for several threads; `asked` is when somebody asked, by the monotonic clock."""

    def __init__(self, folder: Path) -> None:
        self.maps = Maps(folder)
        self._turns = [threading.Lock() for _ in range(TURNS)]
        self._lock = threading.Lock()
        self._lines: dict[str, _Seen] = {}
        self._bodies: OrderedDict[str, _Seen] = OrderedDict()

    def body(self, mindmap_id: str, asked: float) -> Body:
        """A whole map, as JSON."""
        with self._turn(mindmap_id):
            now = sign(self.maps.path, mindmap_id)
            seen = self._bodies.get(mindmap_id)
            if seen is not None and seen.body is not None and seen.serves(now, asked):
                self._used(mindmap_id)
                return seen.body
            began = time.monotonic()
            document = self.maps.read(mindmap_id)
            body = Body.of(encode(document))
            self._keep(mindmap_id, _Seen(now, began, summary(document), body))
            return body

    def listed(self, asked: float) -> tuple[list[Summary], list[Problem]]:
        """Every map in one line, newest first, and what cannot be read."""
        found = self._signs()
        self._forget_others(found.keys())
        lines = {mindmap_id: self._line(mindmap_id, now, asked) for mindmap_id, now in found.items()}
        summaries = [line for line in lines.values() if isinstance(line, Summary)]
        problems = [
            Problem(mindmap_id, code_of(line), line.message, line.hint)
            for mindmap_id, line in sorted(lines.items())
            if isinstance(line, LineageError) and not isinstance(line, NoSuchMindmap)
        ]
        return sorted(summaries, key=lambda one: one.updated_at, reverse=True), problems

    def _line(self, mindmap_id: str, now: Sign, asked: float) -> Summary | LineageError:
        with self._turn(mindmap_id):
            seen = self._lines.get(mindmap_id)
            if seen is None or not seen.serves(now, asked):
                seen = _Seen(now, time.monotonic(), self._summarised(mindmap_id))
                with self._lock:
                    self._lines[mindmap_id] = seen
            return seen.line

    def _summarised(self, mindmap_id: str) -> Summary | LineageError:
        try:
            return summary(self.maps.read(mindmap_id))
        except (*UNREADABLE, FolderUnusable, NoSuchMindmap) as error:
            return error

    def _turn(self, mindmap_id: str) -> threading.Lock:
        return self._turns[hash(mindmap_id) % TURNS]

    def _signs(self) -> dict[str, Sign]:
        try:
            return signs(self.maps.path)
        except OSError as error:
            raise FolderUnusable(
                f"{self.maps.path}: {error.strerror or error}.",
                hint="Make it readable, or name another folder in MINDMAP_DATA_DIR.",
            ) from error

    def _keep(self, mindmap_id: str, seen: _Seen) -> None:
        with self._lock:
            self._bodies[mindmap_id] = seen
            self._lines[mindmap_id] = replace(seen, body=None)
            self._bodies.move_to_end(mindmap_id)
            size = sum(one.body.size for one in self._bodies.values() if one.body)
            while size > KEPT_BYTES and len(self._bodies) > 1:
                _, oldest = self._bodies.popitem(last=False)
                size -= oldest.body.size if oldest.body else 0

    def _used(self, mindmap_id: str) -> None:
        """Let it go after those that nobody asked for since."""
        with self._lock:
            if mindmap_id in self._bodies:
                self._bodies.move_to_end(mindmap_id)

    def _forget_others(self, there: AbstractSet[str]) -> None:
        """Keep nothing of maps that are not there."""
        with self._lock:
            for gone in (self._lines.keys() | self._bodies.keys()) - there:
                self._lines.pop(gone, None)
                self._bodies.pop(gone, None)
