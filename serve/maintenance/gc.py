"""Whether the repository of an index is still where the index says.

A folder that is not there may be deleted, or on a disk that is not there today. The difference cannot be known, only
guessed by what is around it: so a guess is not enough to delete anything.

One thing that may go.

What may go, as a list.

Everything that may go; nothing is changed.

Survey, show, ask, sweep: nothing is deleted that was not shown before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from pipeline.component_versions import encoding_of, models
from pipeline.git.errors import NotARepository
from pipeline.git.repository import Repository, open_repository
from pipeline.options import Encoding
from pipeline.walk import kept_by_anything
from pipeline.write import recorded_at
from serve.cli.terminal import warn, write
from serve.daemon import process
from serve.daemon.process import Address, NoDaemon
from serve.repositories import existing_place
from serve.text import visible
from stores import database, embedding_cache, history, locks, maintenance, writer
from stores.errors import LineageError
from stores.hunk_details import Connection
from stores.index_location import Place
from stores.locks import Deadline

# Where systems put disks that come and go.
MOUNTS: Final = tuple(map(Path, ("/media", "/mnt", "/run/media", "/Volumes", "/net", "/autofs")))


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of the repository: `reason` is empty where it is still there; `sure` that it will not come back."""

    reason: str = ""
    sure: bool = False
    repository: Repository | None = None


def fate(place: Place) -> Fate:
    """What became of the repository of an index."""
    try:
        if not place.path.exists():
            return _absent(place.path)
        return _found(place, open_repository(place.path))
    except NotARepository:
        return Fate("there is no repository any more", sure=_has_something(place.path))
    except (LineageError, OSError):  # it is there, and why it cannot be read is another command's matter
        return Fate()


def _found(place: Place, repository: Repository) -> Fate:
    if repository.canonical != place.path:
        return Fate("there is no repository any more", sure=_has_something(place.path))
    current = existing_place(place.home, repository)
    if current is None or current.repo_id != place.repo_id:
        return Fate("another repository is there now", sure=True)
    return Fate(repository=repository)


def _absent(path: Path) -> Fate:
    if any(path.is_relative_to(mount) for mount in MOUNTS):
        return Fate(f"{path} is not there; its disk may not be mounted")
    if path.parent == Path(path.anchor) or not path.parent.is_dir() or not _has_something(path.parent):
        return Fate(f"{path.parent} is not there, or empty; its disk may not be mounted")
    return Fate("the repository was deleted or moved", sure=True)


def _has_something(folder: Path) -> bool:
    """An empty folder may be one that a disk is mounted on."""
    return any(folder.iterdir())


class Kind(StrEnum):
    """What it is."""

    INDEX = "index"
    COMMITS = "commits"
    CACHE = "cache"
    LEFTOVER = "leftover"


@dataclass(frozen=True, slots=True)
class Garbage:
    """One thing that may go: what it is, why, about how many bytes it frees, and what lets it go.

    `sure`: nothing that anybody could miss; else only a person can know, such as of an unmounted disk. `sweep` is
    under the locks of writers, and looks again at what it deletes.
    """

    kind: Kind
    what: str
    why: str
    bytes: int
    sweep: Callable[[], None]
    sure: bool = True


NOTHING = "Nothing to collect."


def lines(found: Sequence[Garbage]) -> list[str]:
    """One line for each, and the sum of what is sure to be garbage."""
    if not found:
        return [NOTHING]
    sure = [one for one in found if one.sure]
    more = [f"{len(found) - len(sure)} may be needed again"] if len(sure) < len(found) else []
    total = f"{amount(sum(one.bytes for one in sure))} in {len(sure)}"
    return [*map(line, found), f"{'; '.join([total, *more])}."]


def line(one: Garbage) -> str:
    """What it is, why it may go, and how much that frees."""
    return visible(f"{amount(one.bytes):>9}  {one.what}: {one.why}")


def amount(size: int) -> str:
    """Bytes as a person reads them."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


# Whoever starts a daemon does so within a second or two.
STARTING_SECONDS: Final = 5.0


def survey(home: Path) -> Iterator[Garbage]:
    """What may go, index by index, then what is left of others."""
    for place in maintenance.indexes(home):
        became = fate(place)
        if became.reason:
            yield _index(place, became)
        else:
            yield from _in_index(place, became.repository)
    for place in maintenance.empty_folders(home):
        size = maintenance.size(place.folder)
        yield Garbage(
            Kind.LEFTOVER,
            str(place.folder),
            "its index was deleted",
            size,
            partial(maintenance.delete_folder, place),
        )
    yield from _socket(Address(home))


def _index(place: Place, became: Fate) -> Garbage:
    size = maintenance.size(place.folder)
    sweep = partial(_sweep_index, place)
    return Garbage(Kind.INDEX, f"index of {place.path}", became.reason, size, sweep, sure=became.sure)


def _sweep_index(place: Place) -> None:
    if fate(place).reason:  # it may have come back while somebody thought about it
        maintenance.delete_folder(place)


def _in_index(place: Place, repository: Repository | None) -> Iterator[Garbage]:
    left = maintenance.leftovers(place)
    if left:
        named = ", ".join(path.name for path in left)
        sweep = partial(maintenance.delete_leftovers, place)
        yield Garbage(
            Kind.LEFTOVER, f"{named} in {place.folder}", "a run was killed", maintenance.size(*left), sweep
        )
    yield from _cache(place)
    if repository is not None and not _is_cut(repository):
        yield from _commits(place, repository)


def _cache(place: Place) -> Iterator[Garbage]:
    """Cached vectors of other models; those of a repository that is gone go with its index."""
    try:
        stale, total = embedding_cache.others(place, _model(place))
    except LineageError:  # while another has the index nobody can say what its next pass will look for
        return
    if stale:
        what = f"{stale:,} cached vectors of {place.path}"
        about = maintenance.size(place.embeddings) * stale // total
        sweep = partial(_prune, place)
        yield Garbage(Kind.CACHE, what, "made by another embedding model", about, sweep)


def _prune(place: Place) -> None:
    with locks.sole_run(place):
        embedding_cache.drop_others(place, _model(place))


def _model(place: Place) -> str:
    """What names the vectors that the index's next pass will look for."""
    recorded = recorded_at(place)
    encoding = encoding_of(recorded.embedding_model) if recorded else None
    return models()[encoding or Encoding.MINILM]


def _is_cut(repository: Repository) -> bool:
    """Whether commits look unreached because history was cut before them: it may be made whole again."""
    return repository.is_shallow or (repository.common_dir / "info" / "grafts").exists()


def _commits(place: Place, repository: Repository) -> Iterator[Garbage]:
    try:
        with database.reading(place) as connection:
            shas = unneeded(repository, connection)
            share = history.share_of(connection, shas)
    except LineageError:  # what cannot be read is left alone; `doctor` says why
        return
    if shas:
        what = f"{len(shas):,} commit{'s' if len(shas) > 1 else ''} in the index of {place.path}"
        about = int(share * place.database.stat().st_size)
        yield Garbage(
            Kind.COMMITS, what, "no branch, tag or reflog reaches them", about, partial(_forget, place)
        )


def unneeded(repository: Repository, connection: Connection) -> list[str]:
    """Recorded commits that nothing reaches.

    The watermark promises that all it reaches is recorded, so it counts like a branch until the next run moves it.
    """
    status = history.status(connection)
    if status is None:
        return []
    kept = kept_by_anything(repository, also=(status.last_indexed_commit, status.head_commit))
    waiting = [entry.commit_sha for entry in history.unreadable(connection)]
    return sorted({*history.all_recorded(connection), *waiting} - kept)


def _forget(place: Place) -> None:
    with locks.sole_run(place):
        # Anew: a branch may have been put on one of them since.
        repository = open_repository(place.path)
        with database.writing(place) as connection:
            writer.forget(connection, unneeded(repository, connection))
        maintenance.compact(place)


def _socket(address: Address) -> Iterator[Garbage]:
    if _is_dead(address):
        sweep = partial(_remove_socket, address)
        yield Garbage(Kind.LEFTOVER, str(address.socket), "its daemon was killed", 0, sweep)


def _remove_socket(address: Address) -> None:
    deadline = Deadline.after(STARTING_SECONDS, lambda _: NoDaemon("A daemon is being started."))
    with locks.held(address.starting, deadline), locks.held(address.lock, deadline):
        if _is_dead(address):
            address.socket.unlink(missing_ok=True)


def _is_dead(address: Address) -> bool:
    return address.socket.is_socket() and not process.is_met(address)


Ask = Callable[[str], bool]


class Kept(LineageError):
    """Something was to go, and is still there."""


def collect(home: Path, *, yes: bool, absent: bool, ask: Ask | None) -> None:
    """Show what may go, and let it go: with `yes`, or where `ask` is answered so.

    What may be needed again goes only with `absent`, or where it is asked for by name. Kept when something that
    should go could not.
    """
    found = list(survey(home))
    write("\n".join(lines(found)))
    chosen = _chosen(found, yes=yes, absent=absent, ask=ask)
    failed = [one for one in chosen if not _swept(one)]
    if chosen:
        freed = sum(one.bytes for one in chosen if one not in failed)
        write(f"Collected {len(chosen) - len(failed)}, about {amount(freed)}.")
    elif found:
        write(_how(found))
    if failed:
        raise Kept(
            f"{len(failed)} of {len(chosen)} stay.", hint="Run `lineage gc` again when nobody uses them."
        )


def _chosen(found: Sequence[Garbage], *, yes: bool, absent: bool, ask: Ask | None) -> list[Garbage]:
    sure, unsure = [one for one in found if one.sure], [one for one in found if not one.sure]
    chosen = sure if yes or (sure and ask and ask(f"Delete {len(sure)}?")) else []
    # A person is asked for each: that one disk is gone for good says nothing of another.
    asked = [one for one in unsure if ask and not yes and ask(visible(f"Delete the {one.what}, too?"))]
    return [*chosen, *(unsure if yes and absent else asked)]


def _swept(one: Garbage) -> bool:
    try:
        one.sweep()
    except (LineageError, OSError) as error:
        warn(f"{one.what} stays: {error}")
        return False
    return True


def _how(found: Sequence[Garbage]) -> str:
    more = "" if all(one.sure for one in found) else ", with --absent what may be needed again too"
    return f"Nothing was deleted; `lineage gc --yes` does it{more}."


def on_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()
