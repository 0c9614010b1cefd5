"""Repository and watermark -> the commits to index, parents before children, in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from pipeline.git.repository import Repository


def pending(
    repository: Repository,
    head: str,
    watermark: str | None,
    recorded: Callable[[Sequence[str]], set[str]],
    unreadable: Iterable[str] = (),
) -> list[str]:
    """Commits that `head` reaches and that are not recorded, parents before children.

    What the watermark reaches is recorded, so the walk stops there. Two things void that promise: the
    watermark's own commit is gone (history rewritten, then pruned), or a commit once unreadable can be
    read now, and behind it lies history that no walk has seen (a clone that is shallow no longer). Then
    everything is walked. Remembered unreadable commits are part of the answer, to be tried again.
    """
    waiting = set(unreadable)
    hidden = [watermark] if watermark and not any(map(repository.readable, waiting)) else []
    walked = repository.walk(head, hide=hidden)
    reached = set(walked)
    again = sorted(sha for sha in waiting if sha not in reached)
    known = recorded(walked) - waiting
    return [*again, *(sha for sha in walked if sha not in known)]


def batches(shas: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    """The commits in their order, `size` at a time."""
    rest = iter(shas)
    while batch := tuple(islice(rest, size)):
        yield batch
