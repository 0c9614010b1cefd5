"""First-parent history of HEAD: the merge that brought a commit of a branch into it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pipeline.git.git_cli import GitProgram, GitTimeout
from pipeline.git.history_cache import HistoryCache
from pipeline.git.repository import Repository

# Newest commits, whose merges are found. git lists 100,000 commits with their parents in half a second.
MAX_COMMITS: Final = 100_000
TIMEOUT_SECONDS: Final = 10.0

_cache: HistoryCache[Mapping[str, str]] = HistoryCache()


def load_merges(repository: Repository, git: GitProgram, head: str) -> Mapping[str, str] | None:
    """Return the merge that brought each commit of a branch into the first-parent history of `head`.

    Commits of the first-parent history have none. Of longer histories, only the newest `MAX_COMMITS` commits are read.
    None if git fails or takes too long.
    """
    state = head, repository.shallow_boundary
    return _cache.get(repository.objects_dir, state, lambda: _compute_merges(git, head))


def _compute_merges(git: GitProgram, head: str) -> Mapping[str, str] | None:
    # git lists a commit before its parents, so no listed commit has a child that is left out.
    arguments = ("rev-list", "--topo-order", "--parents", f"--max-count={MAX_COMMITS}", head)
    try:
        output = git.run(*arguments, timeout_seconds=TIMEOUT_SECONDS)
    except GitTimeout:
        return None
    if output.exit_code:
        return None
    history = output.stdout.decode("ascii")
    parents = {sha: tuple(others) for sha, *others in map(str.split, history.splitlines())}
    return find_merges(parents, head)


def find_merges(parents: Mapping[str, tuple[str, ...]], head: str) -> dict[str, str]:
    """Return the oldest first-parent merge that reaches each commit outside the first-parent line of `head`."""
    line: dict[str, None] = {}
    sha: str | None = head
    while sha is not None and sha in parents:
        line[sha] = None
        sha = next(iter(parents[sha]), None)
    merges: dict[str, str] = {}
    for merge in reversed(line):
        pending = list(parents[merge][1:])
        while pending:
            commit = pending.pop()
            if commit in parents and commit not in line and commit not in merges:
                merges[commit] = merge
                pending.extend(parents[commit])
    return merges
