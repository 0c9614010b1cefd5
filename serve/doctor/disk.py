"""Where indexes are kept: room, and who may read it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Final

from serve.doctor.finding import Finding, Subject, ok, problem, warning
from stores.places import DATABASE, PLACE

# An index run makes a compact copy beside the index, and a batch its log: with less than this there is no index.
LEAST_ROOM: Final = 200_000_000
# A first index of a few thousand commits takes some hundred megabytes, its copy included.
COMFORTABLE_ROOM: Final = 1_000_000_000


def check_home(subject: Subject) -> Iterator[Finding]:
    """Whether the home is there, ours, writable, and closed to others."""
    home = subject.settings.home
    try:
        yield from _faults(home)
    except OSError as error:
        yield problem(
            "home", f"{home}: {(error.strerror or str(error)).lower()}", "Name another: LINEAGE_HOME."
        )


def check_room(subject: Subject) -> Iterator[Finding]:
    """Whether a run finds the room it needs: a copy of the index, and its log."""
    size = subject.place.database.stat().st_size if subject.place and subject.place.database.exists() else 0
    free = shutil.disk_usage(_there(subject.settings.home)).free
    found = f"{free / 1e9:.1f} GB free for {subject.settings.home}"
    if free < size + LEAST_ROOM:
        needed = f"an index run needs {(size + LEAST_ROOM) / 1e9:.1f} GB for a moment"
        yield problem("room", f"{found}; {needed}", "Make room: `lineage gc` shows what is not needed.")
    elif free < 2 * size + COMFORTABLE_ROOM:
        yield warning("room", found, "Make room before it runs out: `lineage gc` shows what is not needed.")
    else:
        yield ok("room", found)


def _faults(home: Path) -> Iterator[Finding]:
    if not os.path.lexists(home):
        if os.access(_there(home), os.W_OK | os.X_OK):
            yield ok("home", f"{home}, not made yet: the first `lineage index` does it")
        else:
            yield problem(
                "home",
                f"{home} cannot be made: {_there(home)} is read-only for you",
                "Name another: LINEAGE_HOME.",
            )
        return
    if not home.is_dir():
        yield problem("home", f"{home} is no folder", "Move it away, or name another: LINEAGE_HOME.")
    elif not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield problem("home", f"{home} may not be written to", f"`chmod u+rwx {quote(str(home))}`")
    elif open_to_others := sorted(_open_to_others(home)):
        named = ", ".join(path.name for path in open_to_others[:3])
        more = f" and {len(open_to_others) - 3} more" if len(open_to_others) > 3 else ""
        yield warning(
            "home",
            f"others may read indexes in {home}: {named}{more}",
            f"`chmod -R go-rwx {quote(str(home))}`: diffs hold secrets.",
        )
    else:
        yield ok("home", f"{home}, closed to others")


def _open_to_others(home: Path) -> Iterator[Path]:
    """Index folders whose content other users may read: theirs is a closed folder in an open home."""
    if not home.stat().st_mode & 0o077:
        return
    for folder in {file.parent for name in (PLACE, DATABASE) for file in home.glob(f"*/{name}")}:
        if folder.stat().st_mode & 0o077:
            yield folder


def _there(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    return next(folder for folder in (path, *path.parents) if folder.exists())
