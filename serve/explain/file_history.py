"""What the index adds to blame: whether it knows the commits, and their neighbours in the file's history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from pipeline.git.git_cli import Git
from pipeline.git.repository import Repository
from serve.explain.cache import Warm, history_key
from serve.index_status import Standing, standing
from stores import database, errors, history
from stores.database import DamagedIndex, NotIndexed
from stores.errors import LineageError, Refused
from stores.history import FileCommit
from stores.hunk_details import Connection
from stores.index_location import Place
from stores.locks import IndexBusy
from stores.migrations import NewerSchema

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

    `connection` is None where there is none, or none that can be read; `trouble` then says why. `line` is the file's
    history, oldest first, each commit with its hunk; None where nobody asked for it.
    """

    standing: Standing
    place: Place | None = None
    connection: Connection | None = None
    trouble: str = ""
    line: tuple[tuple[str, int], ...] | None = None

    def about(self, shas: Sequence[str], anchors: Sequence[str]) -> Added:
        """Which of the commits it knows, and the anchors' neighbours in the file's history."""
        if self.connection is None or self.place is None:
            return Added(trouble=self.trouble)
        try:
            with database.sound(self.place):
                line = dict(self.line or ())
                known = line.keys() & set(shas)
                known |= history.recorded(self.connection, set(shas) - known)
                if self.line is None:
                    return Added(frozenset(known))
                hunks = [line[sha] for sha in near(list(line), anchors)]
                found = history.file_commits(self.connection, hunks)
                return Added(frozenset(known), found, bool(line))
        except (DamagedIndex, Refused) as error:
            return Added(trouble=_said(error))


@contextmanager
def opened(
    repository: Repository, place: Place | None, git: Git, counted: Warm[int], path: str | None = None
) -> Iterator[Index]:
    """The index at this place; one that is missing, busy or damaged takes nothing from blame.

    Without one `counted` keeps how many commits a history has: git may need longer for that than for a blame.
    With a path, that file's history is read at once, while git is at work. The index stays open until the blame is
    read: opening it again would cost more than a writer's batch has to wait.
    """
    with ExitStack() as stack:
        yield _index(stack, repository, place, path, partial(_unindexed, repository, git, counted))


def near(line: Sequence[str], anchors: Iterable[str]) -> set[str]:
    """The commits at most so many places from an anchor."""
    places = {sha: place for place, sha in enumerate(line)}
    blamed = set(anchors)
    found = [places[sha] for sha in blamed if sha in places]
    return {
        sha for place in found for sha in line[max(0, place - NEIGHBOURS) : place + NEIGHBOURS + 1]
    } - blamed


def _index(
    stack: ExitStack,
    repository: Repository,
    place: Place | None,
    path: str | None,
    unindexed: Callable[[], Standing],
) -> Index:
    if place is None:
        return Index(unindexed())
    try:
        connection = stack.enter_context(database.reading(place, wait=PATIENCE_SECONDS))
        with database.sound(place):
            here = standing(repository, connection)
            line = None if path is None else history.file_history(connection, path, here.reach)
            return Index(here, place, connection, line=line)
    except NotIndexed:
        return Index(unindexed())
    except (DamagedIndex, IndexBusy, NewerSchema, Refused) as error:
        return Index(unindexed(), trouble=_said(error))
    except OSError as error:
        return Index(unindexed(), trouble=_said(errors.of(error) or error))


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


def _said(error: LineageError | OSError) -> str:
    """An error and its hint on one line."""
    return " ".join(str(error).split())
