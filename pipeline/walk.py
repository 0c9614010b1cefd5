"""Commit walks (commits to index, unreachable commits, commits of all refs), and the order of commits, newest first.

The watermark of an index is a commit whose whole history the index has. Commits to index are listed parents before
children, so an interrupted run leaves no gap before its watermark.

`sort_newest_first` lists no commit before its descendant. Mostly the corrected dates of the commit-graph prove that the
order by committer date is right, without a walk of the history.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import islice, pairwise
from typing import Final, TypeVar

from pipeline.git import commit_graph
from pipeline.git.errors import UnreadableObject
from pipeline.git.git_cli import GitProgram
from pipeline.git.objects import collect_reachable, sort_topologically
from pipeline.git.repository import Repository
from stores.history import ReachabilityDelta

Item = TypeVar("Item")

# Arguments for git to print each commit with its parents, children before parents. Append the commits to start from.
HISTORY_ARGUMENTS: Final = ("rev-list", "--date-order", "--parents")


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


def sort_newest_first(
    dates: Mapping[str, int], repository: Repository, git: GitProgram, walked_history: bytes = b""
) -> list[str]:
    """Sort commits by committer date, newest first, but descendants always before their ancestors.

    This holds even if a committer's clock was wrong, as in `git log --date-order`. The history is walked only if the
    commit-graph does not prove the dates right. If git cannot read the history, only the dates decide.
    `dates`: committer date of each commit, in seconds, by SHA. `walked_history`: output of git for `HISTORY_ARGUMENTS`
    and HEAD; empty if not available.
    """
    shas = sorted(dates, key=lambda sha: (-dates[sha], sha))
    if len(shas) < 2 or _is_order_proven(shas, dates, repository, git):
        return shas
    descendants = _find_descendants(shas, BytesIO(walked_history))
    if len(descendants) < len(shas):
        descendants = _load_descendants(shas, git)
    return _sort_descendants_first(shas, descendants)


def _is_order_proven(
    shas: Sequence[str], dates: Mapping[str, int], repository: Repository, git: GitProgram
) -> bool:
    """Return whether the commit-graph proves that no commit in `shas` comes before one of its descendants."""
    if git.commit_graph_dir is None:
        return False
    corrected_dates = commit_graph.compute_corrected_dates(repository, git.commit_graph_dir, dates)
    # A descendant always has a later corrected date than its ancestors.
    return corrected_dates is not None and all(
        corrected_dates[newer] >= corrected_dates[older] for newer, older in pairwise(shas)
    )


def _load_descendants(shas: Sequence[str], git: GitProgram) -> dict[str, int]:
    """Walk the history with git until all commits are found. Return the result of `_find_descendants`."""
    with git.start(*HISTORY_ARGUMENTS, "--stdin", stdin="\n".join(shas).encode()) as walk:
        return _find_descendants(shas, walk.process.stdout or ())


def _find_descendants(shas: Sequence[str], history: Iterable[bytes]) -> dict[str, int]:
    """Return the descendants that each of `shas` has among them, as a number: bit n is set if `shas[n]` is one.

    `history`: lines with the SHA of a commit and of its parents, children first, read until all `shas` are found. A
    commit that is not found is missing in the result.
    """
    bits = {sha.encode(): 1 << position for position, sha in enumerate(shas)}
    descendants: dict[str, int] = {}
    # For each parent that is not read yet: the bits of the commits among `shas` that reach it.
    pending_bits: dict[bytes, int] = {}
    for line in history:
        sha, *parents = line.split()
        reaching_bits = pending_bits.pop(sha, 0)
        if sha in bits:
            descendants[sha.decode()] = reaching_bits
            reaching_bits |= bits[sha]
            if len(descendants) == len(shas):
                break
        if reaching_bits:
            pending_bits.update((parent, pending_bits.get(parent, 0) | reaching_bits) for parent in parents)
    return descendants


def _sort_descendants_first(shas: Sequence[str], descendants: Mapping[str, int]) -> list[str]:
    """Return `shas` with each commit after its descendants, and otherwise in the given order.

    `descendants`: result of `_find_descendants`.
    """
    bit_by_remaining_sha = {sha: 1 << position for position, sha in enumerate(shas)}
    listed_bits = 0
    order: list[str] = []
    while bit_by_remaining_sha:
        # The first commit whose descendants are all listed.
        sha = next(sha for sha in bit_by_remaining_sha if not descendants.get(sha, 0) & ~listed_bits)
        listed_bits |= bit_by_remaining_sha.pop(sha)
        order.append(sha)
    return order


def split_into_chunks(items: Iterable[Item], size: int) -> Iterator[tuple[Item, ...]]:
    """Yield the items in order, in tuples of `size`; the last one may be shorter."""
    iterator = iter(items)
    while chunk := tuple(islice(iterator, min(size, sys.maxsize))):  # `islice` accepts no larger size
        yield chunk
