"""Which recorded commits a HEAD reaches: two short walks, where the index knows the answer for another HEAD."""

from __future__ import annotations

from collections.abc import Collection

from pipeline.git.repository import Repository
from stores.reach import Reach


def reach(repository: Repository, noted: str | None) -> Reach:
    """What HEAD reaches, as a difference to what the index noted for an earlier HEAD."""
    head = repository.head()
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
