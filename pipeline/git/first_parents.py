"""First-parent history of HEAD: the merge that brought a commit of a branch into it."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Final

from cachetools import LRUCache

from pipeline.git.git_cli import GitProgram, GitTimeout
from pipeline.git.repository import Repository

MAX_CACHED_HISTORIES: Final = 4
# Newer commits whose merges are found. git lists 100,000 commits with their parents in half a second.
MAX_COMMITS: Final = 100_000
TIMEOUT_SECONDS: Final = 10.0

_cache: LRUCache[object, Mapping[str, str]] = LRUCache(MAX_CACHED_HISTORIES)
_lock = Lock()


def load_merges(repository: Repository, git: GitProgram, head: str) -> Mapping[str, str]:
    """Return the merge that brought each commit into the first-parent history of `head`; not for commits of it.

    Of longer histories, only the newest `MAX_COMMITS` commits are read. Empty if git takes too long.
    """
    key = repository.objects_dir, head, repository.shallow_boundary
    # Concurrent requests wait for one run of git instead of starting several.
    with _lock:
        merges = _cache.get(key)
        if merges is None:
            merges = _cache[key] = _compute_merges(git, head)
    return merges


def _compute_merges(git: GitProgram, head: str) -> Mapping[str, str]:
    # A commit is listed before its parents, so the commits left out are ancestors of listed ones.
    arguments = ("rev-list", "--topo-order", "--parents", f"--max-count={MAX_COMMITS}", head)
    try:
        history = git.run(*arguments, timeout_seconds=TIMEOUT_SECONDS).stdout.decode("ascii")
    except GitTimeout:
        return {}
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
