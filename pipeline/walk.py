"""Commit walks: commits to index, commits that HEAD no longer reaches, and commits that any ref reaches.

The watermark of an index is a commit whose whole history the index has. Commits are listed parents before children, so
an interrupted run leaves no gap before its watermark.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from pipeline.git import commit_graph
from pipeline.git.errors import UnreadableObject
from pipeline.git.objects import collect_reachable, sort_topologically
from pipeline.git.repository import Repository
from stores.history import ReachabilityDelta

Item = TypeVar("Item")


def compute_reachability_delta(
    repository: Repository, head: str | None, recorded_head: str | None
) -> ReachabilityDelta:
    """Return the difference between the commits that `head` reaches and those that `recorded_head` reached.

    `head`: None reaches no commit. If `recorded_head` is None or no longer exists, `added_commits` are all commits that
    `head` reaches.
    """
    if head is None:
        return ReachabilityDelta(lists_all_commits=True)
    if head == recorded_head:
        return ReachabilityDelta()
    if recorded_head is None or not repository.contains(recorded_head):
        return ReachabilityDelta(added_commits=tuple(repository.walk(head)), lists_all_commits=True)
    return ReachabilityDelta(
        removed_commits=tuple(repository.walk(recorded_head, hide=[head])),
        added_commits=tuple(repository.walk(head, hide=[recorded_head])),
    )


def find_unreachable(
    delta: ReachabilityDelta, unreachable_before: Collection[str], recorded_commits: Collection[str]
) -> list[str]:
    """Return the recorded commits that the new HEAD does not reach, sorted.

    `delta`: result of `compute_reachability_delta` for the earlier HEAD and the new one.
    `unreachable_before`: commits that the earlier HEAD did not reach.
    """
    unreachable = set(recorded_commits).difference(delta.added_commits)
    if not delta.lists_all_commits:
        unreachable &= {*unreachable_before, *delta.removed_commits}
    return sorted(unreachable)


def find_referenced_commits(repository: Repository, extra_tips: Iterable[str | None] = ()) -> set[str]:
    """Return every commit that a branch, a tag, any other ref, the HEAD of a work tree or a reflog reaches.

    `extra_tips`: further commits to start from, if they exist. Raises UnreadableObject if git cannot list the commits;
    then callers must not treat any commit as unreachable.
    """
    tips = [sha for sha in extra_tips if sha and repository.contains(sha)]
    # Include reflogs, because `git reset` can restore their commits until the entries expire.
    result = commit_graph.create_git_program(repository).run("rev-list", "--all", "--reflog", *tips)
    if result.exit_code:
        raise UnreadableObject("the history", (result.stderr or "git rev-list failed").splitlines()[0])
    return set(result.stdout.decode("ascii").split())


def list_candidate_commits(
    repository: Repository, head: str, watermark: str | None, unreadable_commits: Collection[str]
) -> list[str]:
    """Return the commits that `head` reaches and that may have to be indexed, parents before children.

    The walk stops at the watermark, because its ancestors are recorded. If there are unreadable commits, the whole
    history is walked: to find those that `head` still reaches, and because a commit that has become readable may have
    new ancestors, for example after `git fetch --unshallow`.
    """
    hidden_commits = [watermark] if watermark and not unreadable_commits else []
    return repository.walk(head, hide=hidden_commits)


def list_branch_candidates(
    repository: Repository,
    tips: Iterable[str],
    head_candidates: Iterable[str],
    watermark: str | None,
    recorded_tips: Iterable[str] = (),
) -> list[str]:
    """Return the commits that branches reach, but HEAD does not, and that may have to be indexed; parents first.

    `tips`: newest commits of the branches. Their order decides the order of the result.
    `head_candidates`: result of `list_candidate_commits` for `watermark`. Together with the history of the
    watermark, these are all commits that HEAD reaches.
    `recorded_tips`: tips whose histories are in the index. If no tip is new, nothing is read.
    """
    excluded = {*head_candidates, *recorded_tips}
    new_tips = [tip for tip in tips if tip not in excluded and tip != watermark]
    if not new_tips:
        return []
    if watermark is not None:
        excluded.update(repository.walk(watermark))
    candidates: list[str] = []
    for tip in new_tips:
        graph = collect_reachable([tip], repository.read_parents, excluded)
        candidates += sort_topologically(tip, graph)
        excluded.update(graph)
    return candidates


def exclude_recorded(
    candidates: Sequence[str],
    find_recorded: Callable[[Sequence[str]], set[str]],
    unreadable_commits: Collection[str],
) -> list[str]:
    """Return the candidates that have to be indexed or retried, in their order.

    `find_recorded`: returns which of the given commits the index has. `unreadable_commits`: commits that earlier runs
    could not read; they are retried.
    """
    skipped_commits = find_recorded(candidates).difference(unreadable_commits)
    return [sha for sha in candidates if sha not in skipped_commits]


def split_into_chunks(items: Iterable[Item], size: int) -> Iterator[tuple[Item, ...]]:
    """Yield the items in order, in tuples of `size`; the last one may be shorter."""
    iterator = iter(items)
    while chunk := tuple(islice(iterator, min(size, sys.maxsize))):  # `islice` accepts no larger size
        yield chunk
