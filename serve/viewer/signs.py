"""What a map's file looks like from outside: the sign differs whenever the file was written or replaced."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stores.naming import file_of, id_of

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
