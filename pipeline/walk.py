"""Which commits a HEAD reaches, and which anything does.

The first takes two short walks, where the index knows the answer for another HEAD; the second is git's own
question when it decides what to throw away.

Repository and watermark -> the commits to index, parents before children, in batches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice

from pipeline.git import commit_graph
from pipeline.git.errors import UnreadableObject
from pipeline.git.repository import Repository
from stores.types import Reach


def reach(repository: Repository, head: str | None, noted: str | None) -> Reach:
    """What a HEAD reaches, as a difference to what the index noted for an earlier one."""
    if head == noted and head is not None:
        return Reach()
    if head is None or noted is None or not repository.contains(noted):
        return Reach(back=tuple(repository.walk(head)) if head else (), complete=True)
    return Reach(
        gone=tuple(repository.walk(noted, hide=[head])), back=tuple(repository.walk(head, hide=[noted]))
    )


def unreached(reach: Reach, noted: Collection[str], recorded: Collection[str]) -> list[str]:
    """The recorded commits that are not reached; `noted` are those the earlier HEAD did not reach."""
    back = set(reach.back)
    if reach.complete:
        return sorted(set(recorded) - back)
    return sorted((set(noted) | set(reach.gone)) & set(recorded) - back)


def kept_by_anything(repository: Repository, also: Iterable[str | None] = ()) -> set[str]:
    """Every commit that a branch, a tag, any other ref, the HEAD of any work tree or a reflog reaches.

    `also`: further commits that count like refs, where they are there. UnreadableObject when git cannot say: then
    nothing may be taken for unreached.
    """
    tips = [sha for sha in also if sha and repository.contains(sha)]
    # What only a reflog names can be brought back by `git reset`: git keeps it until the entry expires. A commit
    # that others stand in for is there all the same, and recorded.
    done = commit_graph.program(repository).output(
        "--no-replace-objects", "rev-list", "--all", "--reflog", *tips
    )
    if done.code:
        raise UnreadableObject("the history", (done.complaint or "git rev-list failed").splitlines()[0])
    return set(done.out.decode("ascii").split())


def pending(
    repository: Repository,
    head: str,
    watermark: str | None,
    recorded: Callable[[Sequence[str]], set[str]],
    unreadable: Collection[str] = (),
) -> list[str]:
    """Commits that `head` reaches and that are not recorded, parents before children; of the unreadable the same."""
    return left(walked(repository, head, watermark, unreadable), recorded, unreadable)


def walked(
    repository: Repository, head: str, watermark: str | None, unreadable: Collection[str]
) -> list[str]:
    """Commits of `head` that may be left to index, parents before children.

    What the watermark reaches is recorded, so the walk stops there. Where commits could not be read it is the whole
    history: nothing else says which of them HEAD still reaches, and behind one that can be read now may lie history
    that no walk has seen (a clone that is shallow no longer).
    """
    hidden = [watermark] if watermark and not unreadable else []
    return repository.walk(head, hide=hidden)


def left(
    walked: Sequence[str], recorded: Callable[[Sequence[str]], set[str]], unreadable: Collection[str]
) -> list[str]:
    """Those of the walked commits that are not recorded, and those to be tried again."""
    known = recorded(walked).difference(unreadable)
    return [sha for sha in walked if sha not in known]


def batches(shas: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    """The commits in their order, `size` at a time."""
    rest = iter(shas)
    while batch := tuple(islice(rest, min(size, len(shas)))):
        yield batch
