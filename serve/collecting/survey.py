"""Everything that may go; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from pipeline.git.repository import Repository, open_repository
from pipeline.modes import Encoding
from pipeline.reach import kept_by_anything
from pipeline.versions import encoding_of, models
from pipeline.write import recorded_at
from serve.collecting.fate import Fate, fate
from serve.collecting.garbage import Garbage, Kind
from serve.daemon import starting
from serve.daemon.address import Address, NoDaemon
from stores import compaction, database, history, litter, locking, pruning, runs, writing
from stores.errors import LineageError
from stores.locking import Deadline
from stores.places import Place
from stores.showing import Connection

# Whoever starts a daemon does so within a second or two.
STARTING_SECONDS: Final = 5.0


def survey(home: Path) -> Iterator[Garbage]:
    """What may go, index by index, then what is left of others."""
    for place in litter.indexes(home):
        became = fate(place)
        if became.reason:
            yield _index(place, became)
        else:
            yield from _in_index(place, became.repository)
    for place in litter.empty_folders(home):
        size = litter.size(place.folder)
        yield Garbage(
            Kind.LEFTOVER,
            str(place.folder),
            "its index was deleted",
            size,
            partial(litter.delete_folder, place),
        )
    yield from _socket(Address(home))


def _index(place: Place, became: Fate) -> Garbage:
    size = litter.size(place.folder)
    sweep = partial(_sweep_index, place)
    return Garbage(Kind.INDEX, f"index of {place.path}", became.reason, size, sweep, sure=became.sure)


def _sweep_index(place: Place) -> None:
    if fate(place).reason:  # it may have come back while somebody thought about it
        litter.delete_folder(place)


def _in_index(place: Place, repository: Repository | None) -> Iterator[Garbage]:
    left = litter.leftovers(place)
    if left:
        named = ", ".join(path.name for path in left)
        sweep = partial(litter.delete_leftovers, place)
        yield Garbage(
            Kind.LEFTOVER, f"{named} in {place.folder}", "a run was killed", litter.size(*left), sweep
        )
    yield from _cache(place)
    if repository is not None and not _is_cut(repository):
        yield from _commits(place, repository)


def _cache(place: Place) -> Iterator[Garbage]:
    """Cached vectors of other models; those of a repository that is gone go with its index."""
    try:
        stale, total = pruning.others(place, _model(place))
    except LineageError:  # while another has the index nobody can say what its next pass will look for
        return
    if stale:
        what = f"{stale:,} cached vectors of {place.path}"
        about = litter.size(place.embeddings) * stale // total
        sweep = partial(_prune, place)
        yield Garbage(Kind.CACHE, what, "made by another embedding model", about, sweep)


def _prune(place: Place) -> None:
    with runs.sole_run(place):
        pruning.drop_others(place, _model(place))


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
    with runs.sole_run(place):
        # Anew: a branch may have been put on one of them since.
        repository = open_repository(place.path)
        with database.writing(place) as connection:
            writing.forget(connection, unneeded(repository, connection))
        compaction.compact(place)


def _socket(address: Address) -> Iterator[Garbage]:
    if _is_dead(address):
        sweep = partial(_remove_socket, address)
        yield Garbage(Kind.LEFTOVER, str(address.socket), "its daemon was killed", 0, sweep)


def _remove_socket(address: Address) -> None:
    deadline = Deadline.after(STARTING_SECONDS, lambda _: NoDaemon("A daemon is being started."))
    with locking.held(address.starting, deadline), locking.held(address.lock, deadline):
        if _is_dead(address):
            address.socket.unlink(missing_ok=True)


def _is_dead(address: Address) -> bool:
    return address.socket.is_socket() and not starting.is_met(address)
