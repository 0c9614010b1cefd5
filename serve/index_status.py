"""How an index stands to its repository's HEAD: what it knows, what it lacks, what it must leave out.

What both questions share: how many commits, how the index stands, how long an excerpt is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from pipeline.component_versions import components, encoding_of
from pipeline.git.errors import BEYOND_BOUNDARY
from pipeline.git.repository import Repository, open_repository
from pipeline.options import EmbedCache, Encoding
from pipeline.walk import pending, reach
from serve import diff_excerpts
from serve.api_types import Compatibility, IndexState, rfc3339
from serve.repositories import place_of
from stores import compatibility, database, history
from stores.compatibility import GO_ON, NAMES, Recorded, Status, Verdict
from stores.database import NotIndexed
from stores.history import IndexStatus, Use
from stores.hunk_details import Connection
from stores.index_location import Place
from stores.types import Reach


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
    return Noted(history.status(connection), compatibility.recorded(connection))


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
        verdict=compatibility.verdict(said.recorded, components(encoding=encoding)),
        encoding=encoding,
        unreadable=status.unreadable,
    )


def _cache(connection: Connection, place: Place) -> CacheState | None:
    mode = compatibility.recorded(connection).embed_cache
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


FEWEST_HITS: Final = 1
MOST_HITS: Final = 20

# A screenful: enough to judge a precedent by, and five hits still fit an agent's reading.
EXCERPT_LINES: Final = 40
# Longer lines are data or generated code.
EXCERPT_COLUMNS: Final = 240


def index_state(standing: Standing) -> IndexState:
    """The state of the index as an answer tells it."""
    indexed_at = rfc3339(standing.indexed_at) if standing.indexed_at else None
    return IndexState(standing.last_indexed_commit, standing.behind, indexed_at)


def compatibility_fields(verdict: Verdict | None) -> Compatibility:
    """The verdict as an answer tells it; without an index nothing is known."""
    if verdict is None:
        return Compatibility(Status.UNKNOWN.value, missing_components=NAMES)
    if verdict.status is Status.COMPATIBLE:
        return Compatibility(verdict.status.value)
    return Compatibility(verdict.status.value, verdict.reason, verdict.missing)


def index_hints(standing: Standing) -> Iterator[str]:
    """What a person can do about an index that is there."""
    if standing.verdict and standing.verdict.awaits_first_run:
        yield f"The {first_run(standing)}: run `{GO_ON}`."
        return
    if standing.behind:
        yield f"The index is {_commits(standing.behind)} behind HEAD: run `lineage index --incremental`."
    if standing.verdict and (sentence := compatibility_sentence(standing.verdict)):
        yield sentence


def first_run(standing: Standing) -> str:
    """How far the first run came, of which nothing else is to be said before it has ended."""
    verb = "is" if standing.behind == 1 else "are"
    left = f", {_commits(standing.behind)} {verb} left" if standing.behind else ""
    return f"first index run has not ended{left}"


def compatibility_sentence(verdict: Verdict) -> str:
    """The verdict as a sentence that says what to do; empty when there is nothing to do."""
    if verdict.status is Status.COMPATIBLE:
        return ""
    remedy = f": run `{verdict.remedy}`" if verdict.remedy and verdict.remedy not in str(verdict) else ""
    return f"The index is {verdict}{remedy}."


def _commits(count: int) -> str:
    return f"{count:,} commit{'' if count == 1 else 's'}"


def clamped(k: int) -> int:
    """A number of commits, taken into what an answer may have."""
    return max(FEWEST_HITS, min(MOST_HITS, k))


def cut(diff: str, wanted: Collection[str]) -> str:
    """A diff, or as many lines as are shown from where most of the wanted words are; of each line the first columns."""
    lines = diff.split("\n")
    whole = "\n".join(map(narrowed, lines))
    few = len(lines) <= EXCERPT_LINES + (not lines[-1])
    return whole if few else diff_excerpts.about(whole, wanted, EXCERPT_LINES).text


def narrowed(line: str) -> str:
    """A line's first columns."""
    return line if len(line) <= EXCERPT_COLUMNS else f"{line[:EXCERPT_COLUMNS]}…"
