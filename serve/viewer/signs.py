"""What a map's file looks like from outside: the sign differs whenever the file was written or replaced."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from stores.mindmaps import ID, LONGEST_ID, SUFFIX, checked

Sign = tuple[int, int, int, int]


def sign(folder: Path, mindmap_id: str) -> Sign | None:
    """The sign of one map; None where there is no file."""
    try:
        return _sign((folder / f"{checked(mindmap_id)}{SUFFIX}").lstat())
    except OSError:
        return None


def signs(folder: Path) -> dict[str, Sign]:
    """Those of all maps in a folder; none where it cannot be read."""
    found: dict[str, Sign] = {}
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            mindmap_id = id_of(entry.name)
            if mindmap_id is not None:
                with suppress(OSError):  # deleted since the folder was read
                    found[mindmap_id] = _sign(entry.stat(follow_symlinks=False))
    return found


def id_of(name: str) -> str | None:
    """The id of the map whose file has this name; None for any other file."""
    mindmap_id = name.removesuffix(SUFFIX)
    is_map = name.endswith(SUFFIX) and len(mindmap_id) <= LONGEST_ID and ID.fullmatch(mindmap_id)
    return mindmap_id if is_map else None


def _sign(status: os.stat_result) -> Sign:
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size
