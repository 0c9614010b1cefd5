"""Repository and watermark -> the commits to index, parents before children, in batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice

from pipeline.git.repository import Repository


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
