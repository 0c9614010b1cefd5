"""The cache of `PatternSearcher` changes no answer and stays within its limits."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.git.repository import open_repository
from pipeline.options import EncoderName
from serve.find_types import FindAnswer, FindRequest
from serve.repositories import locate_index
from serve.search import cache
from serve.search.cache import IndexCache, LoadedSnapshot, SnapshotKey, load_snapshot_with_vectors
from serve.search.find_pattern import PatternSearcher, find_pattern
from stores import hunk_details, locks, maintenance
from stores.database import FileStamp
from stores.history import ReachabilityDelta
from stores.hunk_details import Connection
from stores.index_location import IndexLocation
from stores.locks import Deadline
from tests.repos import FIRST_DATE, Repo, create_once
from tests.serve.sample_index import WordEncoder, build_index

NOW = FIRST_DATE + timedelta(days=100)
PATHS = ("src/net/tcp.py", "src/app.rs", "docs/guide.md", "src/pool.py")
WORDS = [
    "timeout",
    "connect",
    "close",
    "socket",
    "retry",
    "pool",
    "`send_3`",
    "docs/",
    "in rust",
    "fix",
    "config",
]
requests = st.builds(
    FindRequest,
    text=st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join),
    k=st.integers(1, 20),
    language=st.sampled_from([None, None, "python", "rust"]),
    since=st.sampled_from([None, None, "2020-01-20"]),
    path=st.sampled_from([None, None, "src/", "!*.py"]),
    author=st.sampled_from([None, None, "ada"]),
)
REQUESTS = [
    FindRequest("how did we add a timeout to connect", k=20),
    FindRequest("close the socket in docs/", k=3),
    FindRequest("`send_3` retry", k=20, path="src/"),
]


@create_once
def create_repo(path: Path) -> Repo:
    repo = Repo.create(path)
    for number in range(12):
        author = f"{('Ada', 'Grace')[number % 2]} <someone@example.org>"
        lines = (f"def send_{n}():\n    {WORDS[n % 6]}({WORDS[(n + number) % 6]})\n" for n in range(number))
        repo.write(PATHS[number % 4], f"# {number}\n" + "".join(lines))
        repo.commit(
            f"Add {WORDS[number % 6]}, {number}", date=FIRST_DATE + timedelta(days=number), author=author
        )
    return repo


@pytest.fixture
def repo(tmp_path: Path, home: Path) -> Repo:
    repo = create_repo(tmp_path / "repo")
    build_index(repo, home)
    return repo


@pytest.fixture
def searcher(home: Path) -> Iterator[PatternSearcher]:
    with closing(PatternSearcher(home, load_encoder=WordEncoder)) as searcher:
        yield searcher


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each load of a snapshot into a cache adds its thread."""
    threads: list[int] = []

    def count_loads(*arguments: Any) -> LoadedSnapshot:
        threads.append(threading.get_ident())
        return load_snapshot_with_vectors(*arguments)

    monkeypatch.setattr(cache, "load_snapshot_with_vectors", count_loads)
    return threads


def find_with_cache(searcher: PatternSearcher, repo: Repo) -> list[FindAnswer]:
    return [searcher.find(request, repo.path, NOW) for request in REQUESTS]


def find_without_cache(repo: Repo, home: Path) -> list[FindAnswer]:
    return [find_pattern(request, repo.path, home, load_encoder=WordEncoder, now=NOW) for request in REQUESTS]


def locate(repo: Repo, home: Path) -> IndexLocation:
    return locate_index(home, open_repository(repo.path))


def add_commit(repo: Repo, home: Path) -> None:
    repo.commit_file("src/new.py", "def send_3():\n    timeout(connect)\n", "Add a timeout to connect")
    build_index(repo, home)


def amend(repo: Repo, home: Path) -> None:  # noqa: ARG001 - same signature as the others
    repo.write(PATHS[3], "def send_3():\n    connect(timeout)\n")
    repo.commit("Add a timeout, better", amend=True)


def switch_branch(repo: Repo, home: Path) -> None:  # noqa: ARG001 - same signature as the others
    repo.branch("topic", "HEAD~5")


def index_again(repo: Repo, home: Path) -> None:
    build_index(repo, home)


def rebuild(repo: Repo, home: Path) -> None:
    maintenance.delete_index(locate(repo, home))
    build_index(repo, home)


def compact(repo: Repo, home: Path) -> None:
    maintenance.compact(locate(repo, home))


def delete(repo: Repo, home: Path) -> None:
    shutil.rmtree(locate(repo, home).folder)


@given(st.lists(requests, min_size=1, max_size=4))
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_caching_does_not_change_answers(repo: Repo, home: Path, batch: list[FindRequest]) -> None:
    """After any requests, an answer equals the one of a search without a cache."""
    uncached = [
        find_pattern(request, repo.path, home, load_encoder=WordEncoder, now=NOW) for request in batch
    ]
    with closing(PatternSearcher(home, load_encoder=WordEncoder)) as searcher:
        cached = [searcher.find(request, repo.path, NOW) for request in [*batch, *batch]]
    assert cached == [*uncached, *uncached]


@pytest.mark.parametrize(
    "change",
    [add_commit, amend, switch_branch, index_again, rebuild, compact, delete],
    ids=lambda change: change.__name__,
)
@pytest.mark.parametrize("is_closed", [False, True])
def test_changes_invalidate_the_cache(
    repo: Repo, home: Path, searcher: PatternSearcher, change: Callable[[Repo, Path], None], is_closed: bool
) -> None:
    """After any change of the index or HEAD, answers equal those without a cache, whether the index was open or not."""
    assert (
        find_with_cache(searcher, repo) == find_with_cache(searcher, repo) == find_without_cache(repo, home)
    )
    if is_closed:
        with locks.acquire_index(locate(repo, home).folder, exclusive=True, deadline=Deadline.after(10)):
            pass  # the searcher closes the index when another program waits for it
    change(repo, home)
    assert (
        find_with_cache(searcher, repo) == find_with_cache(searcher, repo) == find_without_cache(repo, home)
    )


def test_work_trees_share_an_index(
    repo: Repo, home: Path, searcher: PatternSearcher, loads: list[int]
) -> None:
    """Two work trees of a repository, each at its own HEAD, share an index and both stay in the cache."""
    other = repo.path.parent / "other"
    repo.git("worktree", "add", "--quiet", str(other), "HEAD~6")
    linked = Repo(other)
    before = [find_with_cache(searcher, repo), find_with_cache(searcher, linked)]
    assert [find_with_cache(searcher, repo), find_with_cache(searcher, linked)] == before
    assert len(loads) == 2
    assert before == [find_without_cache(repo, home), find_without_cache(linked, home)]
    (stats,) = searcher.list_loaded_indexes()
    assert stats.hunks == 12


def test_concurrent_requests_load_once(
    repo: Repo, home: Path, searcher: PatternSearcher, loads: list[int]
) -> None:
    """Concurrent requests for an index that is not cached load it once and give the same answer."""
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: find_with_cache(searcher, repo), range(8)))
    assert len(loads) == 1
    assert answers == [find_without_cache(repo, home)] * 8


def test_failed_load_is_repeated(
    repo: Repo, home: Path, searcher: PatternSearcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed load leaves nothing in the cache."""
    with monkeypatch.context() as broken, pytest.raises(ValueError, match="broken"):
        broken.setattr(
            cache, "load_snapshot_with_vectors", lambda *_: (_ for _ in ()).throw(ValueError("broken"))
        )
        searcher.find(REQUESTS[0], repo.path, NOW)
    assert searcher.list_loaded_indexes() == ()
    assert find_with_cache(searcher, repo) == find_without_cache(repo, home)


def test_cache_stats(repo: Repo, home: Path, searcher: PatternSearcher) -> None:
    """Statistics have path, reachable hunks, bytes and idle time; after closing there are none."""
    assert searcher.list_loaded_indexes() == ()
    find_with_cache(searcher, repo)
    (stats,) = searcher.list_loaded_indexes()
    assert (stats.path, stats.hunks) == (str(locate(repo, home).path), 12)
    assert 0 < stats.bytes < 10_000_000
    assert 0 <= stats.idle_seconds < 60
    searcher.close()
    assert searcher.list_loaded_indexes() == ()
    assert find_with_cache(searcher, repo) == find_without_cache(repo, home)


def test_least_recently_used_index_is_evicted(tmp_path: Path, repo: Repo, home: Path) -> None:
    """Above the limit only the last index stays cached; below it, both do, ordered by last use."""
    other = create_repo(tmp_path / "other")
    other.commit_file("more.py", "timeout\n", "One more")
    build_index(other, home)
    with closing(PatternSearcher(home, load_encoder=WordEncoder, max_bytes=1)) as searcher:
        find_with_cache(searcher, repo)
        find_with_cache(searcher, other)
        assert [index.path for index in searcher.list_loaded_indexes()] == [str(locate(other, home).path)]
        assert find_with_cache(searcher, repo) == find_without_cache(repo, home)
    with closing(PatternSearcher(home, load_encoder=WordEncoder)) as searcher:
        for indexed in (repo, other, repo):
            find_with_cache(searcher, indexed)
        assert [index.path for index in searcher.list_loaded_indexes()] == [
            str(locate(indexed, home).path) for indexed in (other, repo)
        ]


def test_deleted_index_is_evicted(repo: Repo, home: Path, searcher: PatternSearcher) -> None:
    """A request that finds the index deleted removes it from the cache."""
    find_with_cache(searcher, repo)
    delete(repo, home)
    find_with_cache(searcher, repo)
    assert searcher.list_loaded_indexes() == ()


def make_key(repo: Repo, home: Path, modified: int, head: str = "") -> SnapshotKey:
    return SnapshotKey(locate(repo, home), (FileStamp(1, 1, modified), None), ReachabilityDelta((head,)))


def test_earlier_query_does_not_evict_a_newer_snapshot(repo: Repo, home: Path, loads: list[int]) -> None:
    """A query that began before a write keeps the newer snapshot."""
    with closing(IndexCache()) as index_cache, index_cache.open_index(locate(repo, home)) as index:
        for modified in (2, 1, 2, 2):
            index_cache.get_snapshot(make_key(repo, home, modified), index.connection)
    assert len(loads) == 2


def test_query_does_not_restore_a_deleted_index(repo: Repo, home: Path) -> None:
    """A query that began before the eviction of a deleted index leaves nothing in the cache."""
    index_cache, other_cache = IndexCache(), IndexCache()
    with closing(index_cache), closing(other_cache), other_cache.open_index(locate(repo, home)) as index:
        locate(repo, home).database.unlink()
        index_cache.evict_index(locate(repo, home))
        index_cache.get_snapshot(make_key(repo, home, 1), index.connection)
        assert index_cache.list_loaded() == ()
        metadata = index_cache.load_metadata(locate(repo, home), index)
        assert index_cache.load_metadata(locate(repo, home), index) is not metadata


def test_snapshot_that_is_being_loaded_is_not_evicted(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above the limit, a snapshot that is being loaded stays, so that no second query loads it too."""
    key, other_key = make_key(repo, home, 1), make_key(repo, home, 1, "other")
    loads: list[ReachabilityDelta] = []
    queries: list[threading.Thread] = []
    with closing(IndexCache(max_bytes=1)) as index_cache, index_cache.open_index(locate(repo, home)) as index:

        def query() -> None:
            with index_cache.open_index(locate(repo, home)) as other_index:
                index_cache.get_snapshot(key, other_index.connection)

        def load(connection: Connection, reachability: ReachabilityDelta, *arguments: Any) -> LoadedSnapshot:
            loads.append(reachability)
            if loads == [key.reachability]:
                index_cache.get_snapshot(other_key, connection)
                queries.append(threading.Thread(target=query))
                queries[0].start()
            return load_snapshot_with_vectors(connection, reachability, *arguments)

        monkeypatch.setattr(cache, "load_snapshot_with_vectors", load)
        index_cache.get_snapshot(key, index.connection)
        queries[0].join()
    assert loads == [key.reachability, other_key.reachability]


def test_failed_load_leaves_no_entry(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot that cannot be loaded is dropped, and the next query loads it again."""
    key = make_key(repo, home, 1)

    def fail(*_: object) -> None:
        raise MemoryError

    with closing(IndexCache()) as index_cache, index_cache.open_index(locate(repo, home)) as index:
        with monkeypatch.context() as context:
            context.setattr(cache, "load_snapshot_with_vectors", fail)
            with pytest.raises(MemoryError):
                index_cache.get_snapshot(key, index.connection)
        assert not index_cache._entries  # noqa: SLF001 - no statistics of entries without a snapshot
        index_cache.get_snapshot(key, index.connection)
        assert len(index_cache.list_loaded()) == 1


def test_encoder_is_requested_for_every_query(repo: Repo, home: Path) -> None:
    """Every query calls `load_encoder` with the name of the index's encoder."""
    names: list[EncoderName] = []

    def load_encoder(name: EncoderName) -> WordEncoder:
        names.append(name)
        return WordEncoder()

    with closing(PatternSearcher(home, load_encoder=load_encoder)) as searcher:
        find_with_cache(searcher, repo)
    assert names == [EncoderName.MINILM] * len(REQUESTS)


def test_diffs_too_long_for_the_cache(tmp_path: Path, home: Path, searcher: PatternSearcher) -> None:
    """Diffs too long for the cache are read for every answer, which stays the same."""
    repo = Repo.create(tmp_path / "long")
    repo.commit_file("long.py", "timeout = 1\n" + "x" * (hunk_details.MAX_CACHED_DIFF_BYTES + 1), "Long")
    repo.commit_file("short.py", "timeout = 1\n", "Short")
    build_index(repo, home)
    assert (
        find_with_cache(searcher, repo) == find_with_cache(searcher, repo) == find_without_cache(repo, home)
    )
