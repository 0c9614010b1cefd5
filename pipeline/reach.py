"""Which commits a HEAD reaches, and which anything does.

The first takes two short walks, where the index knows the answer for another HEAD; the second is git's own
question when it decides what to throw away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pipeline.git import graph
from pipeline.git.refusals import UnreadableObject
from pipeline.git.repository import Repository
from stores.reach import Reach


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
    done = graph.program(repository).output("--no-replace-objects", "rev-list", "--all", "--reflog", *tips)
    if done.code:
        raise UnreadableObject("the history", (done.complaint or "git rev-list failed").splitlines()[0])
    return set(done.out.decode("ascii").split())
