"""What happened to the files of a workspace since it was looked at last, whatever the system told of it on the way.

How a file began is known from the first thing that happened to it, and how it ended is seen on disk. So an editor
that saves by renaming has modified a file, and what came and went between two looks was never there.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final


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
    """The events of one workspace that wait for the next batch."""

    _files: dict[bytes, tuple[Kind, str]] = field(default_factory=dict)

    def add(self, path: bytes, kind: Kind, at: str) -> None:
        """Something happened to a file of the workspace, whose path is relative to it."""
        first, _ = self._files.get(path, (kind, at))
        self._files[path] = first, at

    def take(self) -> Pending:
        """All of them; none are left."""
        taken, self._files = Pending(self._files), {}
        return taken

    def settled(self, root: bytes) -> list[Event]:
        """One event for each file, by what is on disk now."""
        return [
            Event(path, _WAS_THERE[first], _is_file(root + b"/" + path), at)
            for path, (first, at) in self._files.items()
        ]

    def __bool__(self) -> bool:
        return bool(self._files)


def _is_file(path: bytes) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)
