"""What the index adds to blame: whether it knows the commits, and their neighbours in the file's history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from pipeline.git.program import Git
from pipeline.git.repository import Repository
from serve.explain.warm import Warm, history_key
from serve.standing import Standing, standing
from stores import database, history
from stores.database import DamagedIndex, NotIndexed
from stores.errors import LineageError
from stores.filters import Reach
from stores.history import FileCommit
from stores.locking import IndexBusy
from stores.migrations import NewerSchema
from stores.places import Place
from stores.showing import Connection

# The specification's: at most this many before and as many after each anchor.
NEIGHBOURS: Final = 2
# Blame needs no index: a writer's batch (60 ms) is waited for, the making of a whole new file is not.
PATIENCE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Added:
    """What the index adds to an answer.

    `known` are those of the commits it knows; `neighbours` come newest first; `recorded` says whether it has any
    change of the file, as far as that was asked; `trouble` why it could not be read.
    """

    known: frozenset[str] = frozenset()
    neighbours: tuple[FileCommit, ...] = ()
    recorded: bool = True
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Index:
    """The index while a question is answered.

    `connection` is None where there is none, or none that can be read; `trouble` then says why.
    """

    standing: Standing
    place: Place | None = None
    connection: Connection | None = None
    trouble: str = ""

    def about(self, path: str, shas: Sequence[str], anchors: Sequence[str] = ()) -> Added:
        """Which of the commits it knows, and the anchors' neighbours in the file's history."""
        if self.connection is None or self.place is None:
            return Added(trouble=self.trouble)
        try:
            with database.sound(self.place):
                known = frozenset(history.recorded(self.connection, shas))
                return _neighbours(self.connection, self.standing.reach, path, anchors, known)
        except DamagedIndex as error:
            return Added(trouble=_said(error))


@contextmanager
def opened(repository: Repository, place: Place | None, git: Git, counted: Warm[int]) -> Iterator[Index]:
    """The index at this place; one that is missing, busy or damaged takes nothing from blame.

    Without one `counted` keeps how many commits a history has: git may need longer for that than for a blame.
    It stays open until the blame is read: opening it again would cost more than a writer's batch has to wait.
    """
    with ExitStack() as stack:
        yield _index(stack, repository, place, partial(_unindexed, repository, git, counted))


def near(line: Sequence[str], anchors: Iterable[str]) -> set[str]:
    """The commits at most so many places from an anchor."""
    places = {sha: place for place, sha in enumerate(line)}
    blamed = set(anchors)
    found = [places[sha] for sha in blamed if sha in places]
    return {
        sha for place in found for sha in line[max(0, place - NEIGHBOURS) : place + NEIGHBOURS + 1]
    } - blamed


def _neighbours(
    connection: Connection, reach: Reach, path: str, anchors: Sequence[str], known: frozenset[str]
) -> Added:
    if not anchors:
        return Added(known)
    line = history.file_history(connection, path, reach)
    wanted = near([sha for sha, _ in line], anchors)
    found = history.file_commits(connection, [hunk for sha, hunk in line if sha in wanted]) if wanted else ()
    return Added(known, found, bool(line))


def _index(
    stack: ExitStack, repository: Repository, place: Place | None, unindexed: Callable[[], Standing]
) -> Index:
    if place is None:
        return Index(unindexed())
    try:
        connection = stack.enter_context(database.reading(place, wait=PATIENCE_SECONDS))
        with database.sound(place):
            return Index(standing(repository, connection), place, connection)
    except NotIndexed:
        return Index(unindexed())
    except (DamagedIndex, IndexBusy, NewerSchema) as error:
        return Index(unindexed(), trouble=_said(error))


def _unindexed(repository: Repository, git: Git, counted: Warm[int]) -> Standing:
    """How many commits wait to be indexed, counted beside the running blame, and sooner than by walking here."""
    head = repository.head()
    if head is None:
        return Standing()
    key = history_key(repository, head)
    behind = counted.get(key)
    if behind is None:
        # An index takes commits as they are, whatever stands in for them.
        said = git.output("--no-replace-objects", "rev-list", "--count", head)
        behind = int(said.out) if said.code == 0 else len(repository.walk(head))
        counted.put(key, behind)
    return Standing(behind=behind)


def _said(error: LineageError) -> str:
    """An error and its hint on one line."""
    return " ".join(str(error).split())
