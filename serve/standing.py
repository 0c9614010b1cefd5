"""How an index stands to its repository's HEAD: what it knows, what it lacks, what it must leave out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from pipeline.git.refusals import BEYOND_BOUNDARY
from pipeline.git.repository import Repository, open_repository
from pipeline.modes import EmbedCache, Encoding
from pipeline.reach import reach
from pipeline.versions import components, encoding_of
from pipeline.walk import pending
from serve.placing import place_of
from stores import database, history, metadata
from stores.database import NotIndexed
from stores.history import IndexStatus, Use
from stores.metadata import Recorded, Verdict
from stores.places import Place
from stores.reach import Reach
from stores.showing import Connection


@dataclass(frozen=True, slots=True)
class CacheState:
    """An embedding cache in use: its mode, its size on the disk, and what the newest pass had of it."""

    mode: str
    bytes: int
    use: Use


@dataclass(frozen=True, slots=True)
class Standing:
    """An index against HEAD.

    `behind` counts commits of HEAD that an index run would take up; `verdict` is None without an index. `cache`: of the
    embedding cache, where one is in use and somebody asks for it. `encoding`: which encoder made its vectors.
    `unreadable`: how many commits wait because they could not be read.
    """

    last_indexed_commit: str | None = None
    indexed_at: datetime | None = None
    behind: int = 0
    commits: int = 0
    reach: Reach = field(default_factory=Reach)
    verdict: Verdict | None = None
    cache: CacheState | None = None
    encoding: Encoding = Encoding.MINILM
    unreadable: int = 0


def of_path(path: Path, home: Path) -> tuple[Place, Standing]:
    """The place of the repository at `path`, and how its index stands."""
    repository = open_repository(path)
    place = place_of(home, repository)
    try:
        with database.reading(place) as connection:
            stands = standing(repository, connection)
            return place, replace(stands, cache=_cache(connection, place))
    except NotIndexed:
        return place, without_index(repository)


@dataclass(frozen=True, slots=True)
class Noted:
    """What an index says of itself, which only a writer changes."""

    status: IndexStatus | None
    recorded: Recorded


def noted(connection: Connection) -> Noted:
    """What the opened index says of itself."""
    return Noted(history.status(connection), metadata.recorded(connection))


def standing(repository: Repository, connection: Connection, said: Noted | None = None) -> Standing:
    """How the opened index stands; `said` is what it says of itself, where that is known."""
    said = said or noted(connection)
    status = said.status
    if status is None:
        return without_index(repository)
    encoding = encoding_of(said.recorded.embedding_model) or Encoding.MINILM
    return Standing(
        last_indexed_commit=status.last_indexed_commit,
        indexed_at=status.indexed_at,
        behind=_behind(repository, connection, status),
        commits=status.commits,
        reach=reach(repository, repository.head(), status.head_commit),
        verdict=metadata.verdict(said.recorded, components(encoding=encoding)),
        encoding=encoding,
        unreadable=status.unreadable,
    )


def _cache(connection: Connection, place: Place) -> CacheState | None:
    mode = metadata.recorded(connection).embed_cache
    if mode in {None, EmbedCache.OFF}:
        return None
    size = place.embeddings.stat().st_size if place.embeddings.exists() else 0
    return CacheState(str(mode), size, history.cache_use(connection))


def without_index(repository: Repository) -> Standing:
    """How a repository stands that has no index: everything HEAD reaches is still to be indexed."""
    head = repository.head()
    return Standing(behind=len(repository.walk(head)) if head else 0)


def _behind(repository: Repository, connection: Connection, status: IndexStatus) -> int:
    head = repository.head()
    cut = [entry.commit_sha for entry in history.unreadable(connection) if entry.reason == BEYOND_BOUNDARY]
    uncovered = {sha for sha in cut if repository.readable(sha)}  # the clone is shallow no longer
    if head is None or (head == status.last_indexed_commit and not uncovered):
        return 0
    recorded = partial(history.recorded, connection)
    return len(pending(repository, head, status.last_indexed_commit, recorded, uncovered))
