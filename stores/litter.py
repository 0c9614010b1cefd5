"""What lies under a home: the indexes, and what killed programs left beside them."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from stores import pruning, runs, writing
from stores.codes import DRAFT as CODES_DRAFT
from stores.compaction import DRAFT
from stores.engines import SPILL
from stores.places import GRAPH, PLACE, Place

# As `places` names the folder of an index.
_INDEX_FOLDER: Final = re.compile(r"[A-Za-z0-9_-]+-[0-9a-f]{16}")
# Files that only a program at work needs; what they hold is nowhere else, and worth nothing without it.
_LEFT: Final = (
    f"{DRAFT}*",
    f"{pruning.DRAFT}*",
    f"*.codes{CODES_DRAFT}",
    f"{PLACE}.*",
    f"{GRAPH}/info/*.lock",
    f"{GRAPH}/info/tmp_*",
)
LOCKS: Final = ".lock"


def indexes(home: Path) -> Iterator[Place]:
    """Every index folder that says whose it is."""
    for file in sorted(home.glob(f"*/{PLACE}")):
        if file.parent.is_symlink():  # what lies behind it is not under this home
            continue
        with suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads(file.read_text(encoding="ascii"))
            yield Place(home, file.parent.name, Path(said["path"]), said["first_commit"])


def empty_folders(home: Path) -> Iterator[Place]:
    """Folders that an index was deleted from: nothing is left in them but lock files and a commit-graph."""
    for folder in sorted(home.glob("*")):
        if _INDEX_FOLDER.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
            names = {path.name for path in folder.iterdir()}
            if all(name in (GRAPH, SPILL) or name.endswith(LOCKS) for name in names):
                yield Place(home, folder.name, folder, None)


def leftovers(place: Place) -> list[Path]:
    """What a killed run left in an index folder; while a run is at work, what it needs."""
    found = [path for pattern in _LEFT for path in sorted(place.folder.glob(pattern))]
    spill = place.folder / SPILL
    logs = [place.wal] if place.wal.exists() and not place.database.exists() else []
    return [*found, *logs, *([spill] if spill.is_dir() and any(spill.iterdir()) else [])]


def delete_leftovers(place: Place) -> None:
    """Delete them, as the only run of the index: RunAtWork when there is one."""
    with runs.sole_run(place):
        for path in leftovers(place):
            _delete(path)


def delete_folder(place: Place) -> None:
    """Delete an index and its folder, less what is not ours; RunAtWork when a run is at work on it."""
    with runs.sole_run(place):
        writing.delete_index(place)  # looks first whether the folder lies where it should
        # Side files, too: whatever was kept beside the index is of no use without its repository.
        for path in (*leftovers(place), *place.folder.glob("*.duckdb*"), place.graph, place.folder / PLACE):
            _delete(path)
        # Last, and while they are held: whoever waits for one finds it deleted, and the folder gone.
        for path in place.folder.glob(f"*{LOCKS}"):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # something is in it that we did not put there
            place.folder.rmdir()


def size(*paths: Path) -> int:
    """Bytes of these files, and of all files in these folders."""
    return sum(_size(path) for path in paths)


def _size(path: Path) -> int:
    total = 0
    with suppress(OSError):
        total += path.lstat().st_size
    for folder, _, files in os.walk(path):
        for name in files:
            with suppress(OSError):
                total += Path(folder, name).lstat().st_size
    return total


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
