"""Which processes hold a lock file, asked without taking part: nobody waits because somebody looked."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Linux lists every lock there is; elsewhere nobody can say who holds one.
LOCKS: Final = Path("/proc/locks")
# `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`; those that wait are marked with an arrow, and hold nothing.
_HELD: Final = re.compile(
    r"^\d+: FLOCK +\w+ +(READ|WRITE) +(\d+) ([0-9a-f]+):([0-9a-f]+):(\d+) ", re.MULTILINE
)
# Enough of a command to know it by.
LONGEST_COMMAND: Final = 60


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds a lock, alone or shared with others; `command` is empty where it is not ours to know."""

    pid: int
    alone: bool
    command: str = ""

    def __str__(self) -> str:
        return f"process {self.pid}" + (f" ({self.command})" if self.command else "")


def holders(file: Path) -> tuple[Holder, ...]:
    """The processes that hold this lock file; none where the system does not say."""
    try:
        status, listed = file.stat(), LOCKS.read_text(encoding="ascii")
    except OSError:
        return ()
    place = (os.major(status.st_dev), os.minor(status.st_dev), status.st_ino)
    found = [
        (int(pid), kind == "WRITE")
        for kind, pid, major, minor, inode in _HELD.findall(listed)
        if (int(major, 16), int(minor, 16), int(inode)) == place
    ]
    return tuple(Holder(pid, alone, _command(pid)) for pid, alone in dict(found).items())


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return " ".join(word.decode("utf-8", "replace") for word in words).strip()[:LONGEST_COMMAND]
