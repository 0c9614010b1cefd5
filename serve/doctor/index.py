"""The index: whether it opens, is whole and fits this program; who holds it; what the last run left behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pipeline.git.repository import Repository
from serve import standing
from serve.doctor.finding import Finding, Subject, ok, problem, warning
from serve.envelope import first_run
from serve.standing import Standing
from serve.unread import remedy
from stores import database, history, integrity
from stores.errors import LineageError
from stores.holders import holders
from stores.holding import LARGEST_HELD_WAL
from stores.locking import DOOR, LOCK, IndexBusy
from stores.metadata import GO_ON, Status, Verdict
from stores.places import Place
from stores.runs import RUN
from stores.showing import Connection

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
    rows = integrity.read_all(connection)
    broken = integrity.broken_promises(connection)
    if broken:
        said = ", ".join(f"{count:,} {what}" for what, count in list(broken.items())[:NAMED])
        yield problem("index", f"opens, but disagrees with itself: {said}", REBUILD)
        return
    status = history.status(connection)
    said = f"{status.commits:,} commits, {status.hunks:,} hunks; " if status else ""
    yield ok("index", f"{said}{rows:,} rows read, all whole")
    yield from _standing(repository, connection)


def _standing(repository: Repository, connection: Connection) -> Iterator[Finding]:
    stands = standing.standing(repository, connection)
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
