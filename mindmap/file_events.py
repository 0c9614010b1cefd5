"""What happened to the files of a workspace since it was looked at last, whatever the system told of it on the way.

How a file began is known from the first thing that happened to it, and how it ended is seen on disk. So an editor
that saves by renaming has modified a file, and what came and went between two looks was never there.

One workspace that is watched: which folder it is, whose it is, what happened in it; and what may be one.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from pathlib import Path
from typing import Final

from watchdog.observers.api import ObservedWatch

from mindmap.document import timestamp
from mindmap.ignore import Ignoring
from mindmap.paths import shown

RULES: Final = b".gitignore"
# Files are dated by the kernel's tick, 10 ms at most, and so a little before they were written.
TICK: Final = timedelta(milliseconds=10)
# How late the system tells of a write, on a machine with much to do. A date before that is another clock's.
MOST_LATE: Final = timedelta(seconds=2)


class Kind(Enum):
    """One thing the system tells of a file; ARRIVED is a rename onto its name, whether one was there or not."""

    CREATED = auto()
    MODIFIED = auto()
    DELETED = auto()
    ARRIVED = auto()


# Whether the file was there before; None where that cannot be known from it.
_WAS_THERE: Final = {Kind.CREATED: False, Kind.MODIFIED: True, Kind.DELETED: True, Kind.ARRIVED: None}


@dataclass(frozen=True, slots=True)
class Event:
    """What became of one file; `was_there` as far as it is known, `at` when the last thing happened to it."""

    path: bytes
    was_there: bool | None
    is_there: bool
    at: str

    def action(self, *, was_known: bool) -> str | None:
        """The action of a touch; None for a file that came and went. `was_known` decides where nothing else does."""
        was_there = was_known if self.was_there is None else self.was_there
        if self.is_there:
            return "modify" if was_there else "create"
        return "delete" if was_there else None


@dataclass(slots=True)
class Pending:
    """What happened in one workspace and waits for the next batch; all paths are relative to it.

    `made` are folders that appeared; `_gone` are those that went, whose files nobody told of where they were moved.
    """

    made: set[bytes] = field(default_factory=set)
    _files: dict[bytes, tuple[Kind, Kind, str]] = field(default_factory=dict)
    _gone: dict[bytes, str] = field(default_factory=dict)

    def add(self, path: bytes, kind: Kind, at: str) -> None:
        """Something happened to a file."""
        first = self._files[path][0] if path in self._files else kind
        self._files[path] = first, kind, at

    def lose(self, folder: bytes, at: str) -> None:
        """A folder went."""
        self._gone[folder] = at

    def take(self) -> Pending:
        """All of it; nothing is left."""
        taken = Pending(self.made, self._files, self._gone)
        self.made, self._files, self._gone = set(), {}, {}
        return taken

    def settled(self, root: bytes) -> list[Event]:
        """One event for each file, by what is on disk now.

        A file that is not there though nobody told of its end was in a folder that went: that is told of the folder.
        """
        events = []
        for path, (first, last, at) in self._files.items():
            status = _file(root + b"/" + path)
            if status is not None or last is Kind.DELETED:
                when = _written(status, at) if status is not None and last is Kind.MODIFIED else at
                events.append(Event(path, _WAS_THERE[first], status is not None, when))
        return events

    def gone(self, root: bytes) -> dict[bytes, str]:
        """The folders that went and are not there again, and when they went."""
        return {
            folder: at for folder, at in self._gone.items() if not os.access(root + b"/" + folder, os.F_OK)
        }

    def changes_rules(self) -> bool:
        """Whether what git ignores may be something else now."""
        return any(path.rpartition(b"/")[2] == RULES for path in self._files)

    def __bool__(self) -> bool:
        return bool(self._files or self._gone or self.made)


def went_with(path: bytes, gone: Mapping[bytes, str]) -> str | None:
    """When a file went with one of the folders that it was in, if it did."""
    while path:
        path = path.rpartition(b"/")[0]
        if path in gone:
            return gone[path]
    return None


def _file(path: bytes) -> os.stat_result | None:
    """The file or the link that is there, if one is."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode) else None


def _written(status: os.stat_result, told: str) -> str:
    """When a file was written that the system told of at that moment: what was said of it in between is not older."""
    written = datetime.fromtimestamp(status.st_ctime_ns / 1e9, UTC) + TICK
    late = datetime.fromisoformat(told) - written
    return timestamp(written) if timedelta(0) < late <= MOST_LATE else told


@dataclass(frozen=True, slots=True)
class Watching:
    """Whether a workspace is watched; `remark` says why not, or what of it is not."""

    is_on: bool
    remark: str = ""


@dataclass(slots=True, eq=False)
class Watched:
    """A workspace; `identity` tells whether a folder of its name is still the one that `watch` is of.

    `is_gone` is what the observer told, `is_doubted` what is seen before it does; `declined` are the folders that git
    ignores, relative to the workspace; `lock` is for `pending`.
    """

    root: bytes
    ignoring: Ignoring
    identity: tuple[int, int] | None = None
    watch: ObservedWatch | None = None
    is_gone: bool = False
    is_doubted: bool = False
    maps: set[str] = field(default_factory=set)
    declined: frozenset[bytes] = frozenset()
    pending: Pending = field(default_factory=Pending)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def stands(self) -> bool:
        """Whether the folder is watched, and the one of its name."""
        return self.watch is not None and not self.is_gone and self.is_same()

    def is_same(self) -> bool:
        """Whether the folder of this name is the one that was watched last."""
        try:
            return self.identity == identity(self.root)
        except OSError:
            return False

    def relative(self, path: bytes) -> bytes | None:
        """A path in the workspace as one relative to it."""
        return path[len(self.root) + 1 :] if path.startswith(self.root + b"/") else None

    def declines(self, path: bytes) -> bool:
        """Whether nothing in a folder is anybody's work; called for every folder, while folders are made too."""
        relative = self.relative(path)
        return relative is not None and (
            relative in self.declined or self.ignoring.leaves_out_folder(relative)
        )


def identity(root: bytes) -> tuple[int, int]:
    """What tells a folder from another that has its name."""
    status = Path(os.fsdecode(root)).stat()
    return status.st_dev, status.st_ino


def unwatchable(root: bytes) -> str:
    """Why a folder, which is without links, is not watched whatever is in it; empty if it may be."""
    try:
        home = os.fsencode(os.path.realpath(Path.home()))
    except RuntimeError:  # nobody's
        home = b"/"
    if root != b"/" and not (home + b"/").startswith(root + b"/"):
        return ""
    what = "your home folder" if root == home != b"/" else "more than your home folder"
    return (
        f"{shown(root)} is not watched: it is {what}, with everybody's files in it. "
        "Name the folder of one project as workspacePath."
    )
