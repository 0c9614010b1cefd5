"""Newest first: by the committer's date, and among equal dates children before their parents."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from itertools import groupby
from typing import Final

from pipeline.git.ancestry import Parents, parents_first
from pipeline.git.repository import Repository

# Between two commits of one date there may be older ones where a clock was wrong: git too looks a day behind.
CLOCK_SLOP: Final = timedelta(days=1)


def newest_first(dates: Mapping[str, int], repository: Repository) -> list[str]:
    """The commits in the order they are shown."""
    ordered: list[str] = []
    by_date = sorted(dates, key=lambda sha: (-dates[sha], sha))
    for _, tied in groupby(by_date, key=dates.__getitem__):
        ordered += _children_first(list(tied), repository)
    return ordered


def _children_first(tied: list[str], repository: Repository) -> list[str]:
    if len(tied) == 1:
        return tied
    parents = _since(tied, repository)
    wanted = set(tied)
    return [sha for sha in reversed(parents_first("", {**parents, "": tuple(tied)})) if sha in wanted]


def _since(tied: list[str], repository: Repository) -> dict[str, Parents]:
    """The commits that these reach, as far back as their date and the slop."""
    oldest = repository.commit(tied[0]).commit_date - CLOCK_SLOP
    found: dict[str, Parents] = {}
    waiting = list(tied)
    while waiting:
        sha = waiting.pop()
        if sha not in found and repository.contains(sha):
            commit = repository.commit(sha)
            found[sha] = commit.parents if commit.commit_date >= oldest else ()
            waiting.extend(found[sha])
    return found
