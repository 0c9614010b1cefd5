"""First release of each commit, and the merge that brought each commit into the first-parent history of HEAD.

The first release is the tag with the oldest date among those that contain the commit, as `git name-rev --all` finds it.
`git describe --contains` names the same tag, unless the clock of a committer was wrong by more than a day. Then
`git describe` may miss tags, or name a later one. git computes the tags of all commits in one run: 70 ms for flask's
5,500 commits and 69 tags, about as long as for a few commits.

Releases and merges are cached for each state of the repository.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Final, Generic, TypeVar

from cachetools import LRUCache

from pipeline.git.errors import UnsupportedRepository
from pipeline.git.git_cli import GitOutput, GitProgram, GitTimeout, UnreadableGitConfig
from pipeline.git.objects import EPOCH, parse_seconds
from pipeline.git.repository import Repository

# Maximum number of commits in each cache, which evicts the repositories used least recently. The releases of so many
# commits take 300 MB.
MAX_CACHED_COMMITS: Final = 1_000_000

Value = TypeVar("Value", bound=Sized)

# Time after which releases or merges count as unknown. For 100,000 commits git takes about a second.
TIMEOUT_SECONDS: Final = 10.0
TAG_PREFIX: Final = b"refs/tags/"

# Number of newest commits among which merges are found. git lists so many with their parents in half a second.
MAX_COMMITS: Final = 100_000


class _Entry(Generic[Value]):
    """Result for one repository (`value`), and the repository's `state` at its computation; both None before that."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.state: object = None
        self.value: Value | None = None

    @property
    def size(self) -> int:
        """Number of commits plus 1, so that an entry without commits counts too; at most the size of the cache."""
        return min(1 + len(self.value or ()), MAX_CACHED_COMMITS)


class HistoryCache(Generic[Value]):
    """Cache of one result for each repository used recently, valid until the repository changes. Thread-safe.

    A result has an item per commit, and all results together have at most `MAX_CACHED_COMMITS` items. Concurrent
    requests for one repository share one computation. Requests for other repositories do not wait for it.
    """

    def __init__(self) -> None:
        self._entries: LRUCache[Path, _Entry[Value]] = LRUCache(
            MAX_CACHED_COMMITS, getsizeof=lambda entry: entry.size
        )
        self._lock = Lock()

    def get(self, objects_dir: Path, state: object, compute: Callable[[], Value | None]) -> Value | None:
        """Return the result of `compute` for this state of the repository, from the cache if possible.

        `objects_dir`: identifies the repository. A result of None means that `compute` failed, and is not cached.
        """
        with self._lock:
            entry = self._entries.setdefault(objects_dir, _Entry())
        with entry.lock:
            if entry.value is None or entry.state != state:
                entry.value = None  # free the old result before the new one is computed
                entry.value, entry.state = compute(), state
                with self._lock:
                    self._entries[objects_dir] = entry  # with its new size, which may evict others
            return entry.value


@dataclass(frozen=True, slots=True)
class Tag:
    """Tag. `date`: time of its creation, or of its commit for a lightweight tag; in UTC without a time zone."""

    name: str
    date: datetime


_releases_cache: HistoryCache[Mapping[str, Tag]] = HistoryCache()


def load_releases(repository: Repository, git: GitProgram) -> Mapping[str, Tag] | None:
    """Return the first release of each commit that a tag reaches, by SHA; None if git fails or takes too long."""
    tags = repository.list_tag_targets()
    if not tags:
        return {}
    state = tags, repository.shallow_boundary
    return _releases_cache.get(repository.objects_dir, state, lambda: _compute_releases(repository, git))


def _compute_releases(repository: Repository, git: GitProgram) -> Mapping[str, Tag] | None:
    try:
        names_output = git.run("name-rev", "--tags", "--all", timeout_seconds=TIMEOUT_SECONDS)
        dates_output = _read_dates(git, "refs/tags")
        if dates_output.exit_code:
            # git fails if the object of a tag is missing. So try again without such tags.
            readable_tags = repository.list_tags()
            if not readable_tags:
                return {}
            dates_output = _read_dates(git, *(f"refs/tags/{name}" for name, _ in readable_tags))
    except (GitTimeout, UnreadableGitConfig, UnsupportedRepository):
        return None
    if names_output.exit_code or dates_output.exit_code:
        return None
    tag_by_name = dict(map(_parse_tag, dates_output.stdout.splitlines()))
    # A line is `SHA tags/v1.2~3^2`, or `SHA undefined`. Names of tags contain neither `~` nor `^`.
    lines = (line.split(b" ", 1) for line in names_output.stdout.splitlines())
    name_by_commit = {sha: name.partition(b"~")[0].partition(b"^")[0] for sha, name in lines}
    return {
        sha.decode("ascii"): tag_by_name[name] for sha, name in name_by_commit.items() if name in tag_by_name
    }


def _read_dates(git: GitProgram, *patterns: str) -> GitOutput:
    """Let git print the name and the dates of the tags that match the patterns, as `_parse_tag` reads them."""
    date_format = "--format=%(refname)%00%(creatordate:unix)%00%(*committerdate:unix)"
    return git.run("for-each-ref", date_format, *patterns, timeout_seconds=TIMEOUT_SECONDS)


def _parse_tag(line: bytes) -> tuple[bytes, Tag]:
    """Return the name of a tag as `git name-rev` prints it, and the tag. `line`: from the output of `_read_dates`."""
    name, tag_seconds, commit_seconds = line.split(b"\0")
    # Some old tags have no date of their own.
    seconds = parse_seconds(tag_seconds or commit_seconds)
    short_name = name.removeprefix(TAG_PREFIX)
    tag = Tag(short_name.decode("utf-8", "replace"), EPOCH + timedelta(seconds=seconds))
    return b"tags/" + short_name, tag


_merges_cache: HistoryCache[Mapping[str, str]] = HistoryCache()


def load_merges(repository: Repository, git: GitProgram, head: str) -> Mapping[str, str] | None:
    """Return the merge that brought each commit into the first-parent history of `head`: commit -> merge.

    Commits of the first-parent history are not in the result. Only the newest `MAX_COMMITS` commits are read. None if
    git fails or takes too long.
    """
    state = head, repository.shallow_boundary
    return _merges_cache.get(repository.objects_dir, state, lambda: _compute_merges(git, head))


def _compute_merges(git: GitProgram, head: str) -> Mapping[str, str] | None:
    # In this order, a commit comes before its parents. So no listed commit has a child that is not listed.
    arguments = ("rev-list", "--topo-order", "--parents", f"--max-count={MAX_COMMITS}", head)
    try:
        output = git.run(*arguments, timeout_seconds=TIMEOUT_SECONDS)
    except (GitTimeout, UnreadableGitConfig, UnsupportedRepository):
        return None
    if output.exit_code:
        return None
    lines = map(str.split, output.stdout.decode("ascii").splitlines())
    return find_merges({sha: tuple(parents) for sha, *parents in lines}, head)


def find_merges(parents: Mapping[str, tuple[str, ...]], head: str) -> dict[str, str]:
    """Map each commit outside the first-parent history of `head` to the oldest merge of that history that reaches it.

    `parents`: parents of each commit.
    """
    first_parent_history: dict[str, None] = {}
    sha: str | None = head
    while sha is not None and sha in parents:
        first_parent_history[sha] = None
        sha = next(iter(parents[sha]), None)
    merges: dict[str, str] = {}
    for merge in reversed(first_parent_history):
        pending = list(parents[merge][1:])
        while pending:
            commit = pending.pop()
            if commit in parents and commit not in first_parent_history and commit not in merges:
                merges[commit] = merge
                pending.extend(parents[commit])
    return merges
