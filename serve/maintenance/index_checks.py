"""Where indexes are kept: room, and who may read it.

The database's extensions: wheels beside it, which have to be of its own version.

The index: whether it opens, is whole and fits this program; who holds it; what the last run left behind.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Final

from pipeline.git.repository import Repository
from serve import index_status
from serve.index_status import Standing, first_run
from serve.maintenance.findings import Finding, Subject, ok, problem, warning
from serve.text import remedy
from stores import database, duckdb_engine, history, maintenance
from stores.compatibility import GO_ON, Status, Verdict
from stores.connections import LARGEST_HELD_WAL
from stores.errors import LineageError
from stores.hunk_details import Connection
from stores.index_location import DATABASE, PLACE, Place
from stores.locks import DOOR, LOCK, RUN, IndexBusy, holders

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


def check_extensions(_: Subject) -> Iterator[Finding]:
    """Whether those that are installed can be loaded; none is needed for an ordinary index."""
    for name in duckdb_engine.EXTENSIONS:
        extension = duckdb_engine.installed(name)
        if extension.fault:
            yield problem(
                "extension " + name,
                extension.fault,
                f"`pip install --force-reinstall {extension.distribution}`",
            )
        else:
            said = f"version {extension.version}" if extension.version else "not installed; not needed here"
            yield ok("extension " + name, said)


# Long enough for a batch to end, short enough for a person to wait for.
PATIENCE_SECONDS: Final = 5.0
REBUILD: Final = "`lineage index --rebuild --yes` makes it anew."
# Enough to see what is wrong.
NAMED: Final = 3


def check_index(subject: Subject) -> Iterator[Finding]:
    """Whether the index opens and is whole, block by block."""
    place, repository = subject.place, subject.repository
    if place is None or repository is None:
        return
    if not place.database.exists():
        yield ok("index", "none yet", "`lineage index` makes one.")
        return
    if not all((place.folder / name).exists() for name in (DOOR, LOCK)):
        yield warning("index", "not opened: its lock files are missing", "`lineage status` makes them anew.")
        return
    try:
        with database.reading(place, wait=PATIENCE_SECONDS) as connection:
            yield from _content(repository, connection)
    except IndexBusy as busy:
        yield _busy(place, busy)
    except LineageError as error:
        yield problem("index", error.message, error.hint)


def check_locks(subject: Subject) -> Iterator[Finding]:
    """Who is at work on the index."""
    if subject.place is None or not subject.place.folder.exists():
        return
    runs = holders(subject.place.folder / RUN)
    users = [
        holder
        for holder in holders(subject.place.folder / LOCK)
        if holder.pid not in {run.pid for run in runs}
    ]
    said = [f"an index run: {run}" for run in runs] + [f"open in {user}" for user in users]
    yield ok("locks", "; ".join(said) or "nobody is at work on the index")


def check_log(subject: Subject) -> Iterator[Finding]:
    """Whether a write-ahead log waits to be replayed."""
    place = subject.place
    if place is None or not place.wal.exists():
        return
    size = f"{place.wal.stat().st_size / 1e6:.1f} MB"
    if not place.database.exists():
        yield warning("write-ahead log", f"{place.wal} ({size}) has no index beside it", REBUILD)
    elif place.wal.stat().st_size > LARGEST_HELD_WAL and not holders(place.folder / RUN):
        yield warning(
            "write-ahead log", f"{size}, replayed at every opening", "`lineage index` puts it into the index."
        )
    else:
        yield ok("write-ahead log", f"{size}, from the last batches")


def _content(repository: Repository, connection: Connection) -> Iterator[Finding]:
    rows = maintenance.read_all(connection)
    broken = maintenance.broken_promises(connection)
    if broken:
        said = ", ".join(f"{count:,} {what}" for what, count in list(broken.items())[:NAMED])
        yield problem("index", f"opens, but disagrees with itself: {said}", REBUILD)
        return
    status = history.status(connection)
    said = f"{status.commits:,} commits, {status.hunks:,} hunks; " if status else ""
    yield ok("index", f"{said}{rows:,} rows read, all whole")
    yield from _standing(repository, connection)


def _standing(repository: Repository, connection: Connection) -> Iterator[Finding]:
    stands = index_status.standing(repository, connection)
    yield from _currency(stands)
    waiting = history.unreadable(connection)
    if waiting:
        named = ", ".join(entry.commit_sha[:12] for entry in waiting[:NAMED])
        yield warning(
            "unreadable",
            f"{len(waiting):,} not indexed: {named}{', ...' if len(waiting) > NAMED else ''}",
            remedy(waiting, partial=repository.is_partial),
        )


def _currency(stands: Standing) -> Iterator[Finding]:
    """Whether it is of this program, and of HEAD: one thing while the first run has not ended."""
    if stands.verdict is not None and stands.verdict.awaits_first_run:
        yield warning("freshness", f"the {first_run(stands)}", f"`{GO_ON}` goes on from there.")
        return
    if stands.verdict is not None:
        yield _fitting(stands.verdict)
    if stands.behind:
        yield warning(
            "freshness",
            f"{stands.behind:,} commit{'' if stands.behind == 1 else 's'} behind HEAD",
            "`lineage index --incremental` takes them up.",
        )


def _fitting(verdict: Verdict) -> Finding:
    if verdict.status is Status.COMPATIBLE:
        return ok("compatibility", str(verdict))
    say = problem if verdict.status is Status.NEEDS_REBUILD else warning
    return say("compatibility", str(verdict), f"Run `{verdict.remedy}`.")


def _busy(place: Place, busy: IndexBusy) -> Finding:
    who = [str(holder) for holder in (*holders(place.folder / LOCK), *holders(place.folder / DOOR))]
    held = f" Held by {', '.join(dict.fromkeys(who))}." if who else ""
    return problem("index", busy.message + held, "Let it end, or end it; nothing that was committed is lost.")
