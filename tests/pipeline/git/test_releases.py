"""First release of each commit, compared with `git describe --contains`; merges of commits; cache of both results."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import pytest

from pipeline.git import releases
from pipeline.git.git_cli import GitProgram, GitTimeout
from pipeline.git.releases import Tag
from pipeline.git.repository import open_repository
from tests.repos import Repo, create_once

TAGGED_AT = datetime(2020, 1, 1, 17, 30, tzinfo=UTC)


def load(repo: Repo) -> dict[str, Tag]:
    """Return the release of each commit that has one."""
    repository = open_repository(repo.path)
    found = releases.load_releases(repository, GitProgram(repository.git_dir, None, repository.objects_dir))
    assert found is not None
    return dict(found)


def describe(repo: Repo) -> dict[str, str]:
    """Return the tag that `git describe --contains` prints for each commit of a branch; without it, leave it out."""
    names = {
        sha: repo.git("describe", "--contains", sha, check=False)
        for sha in repo.git("rev-list", "--all").split()
    }
    return {sha: name.partition("~")[0].partition("^")[0] for sha, name in names.items() if name}


@create_once
def create_repo(path: Path) -> Repo:
    """Two branches with merges, annotated and lightweight tags, and commits that no tag contains."""
    repo = Repo.create(path)
    repo.commit_file("a.py", "1\n", "One")
    repo.git("tag", "v1.0")
    repo.commit_file("a.py", "2\n", "Two")
    repo.branch("feature")
    repo.commit_file("b.py", "1\n", "Branch")
    repo.commit_file("b.py", "2\n", "Branch again")
    repo.switch("main")
    repo.commit_file("a.py", "3\n", "Three")
    repo.git("tag", "--annotate", "v1.1", "--message", "Release", date=TAGGED_AT)
    repo.merge("feature")
    repo.git("tag", "--annotate", "release/2.0", "--message", "Release")
    repo.branch("maintenance", "v1.1")
    repo.commit_file("a.py", "3\n4\n", "Fix in the old release")
    repo.git("tag", "v1.1.1")
    repo.switch("main")
    repo.commit_file("c.py", "1\n", "Not released")
    return repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_repo(tmp_path / "repo")


def test_equals_git(repo: Repo) -> None:
    """The release of every commit is the tag that `git describe --contains` names; commits after all tags have none."""
    found = {sha: tag.name for sha, tag in load(repo).items()}
    assert found == describe(repo)
    assert set(found.values()) == {"v1.0", "v1.1", "v1.1.1", "release/2.0"}
    assert repo.head not in found


def test_wrong_clock(tmp_path: Path) -> None:
    """A tag whose commit seems to be days older than its ancestors contains them, though `git describe` misses it."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit("One")
    repo.commit("Two", date=repo.clock - timedelta(days=30))
    repo.git("tag", "v1")
    repo.commit("Three", date=repo.clock + timedelta(days=40))
    repo.git("tag", "v2")
    first, second, third = repo.git("rev-list", "--reverse", "HEAD").split()
    assert {sha: tag.name for sha, tag in load(repo).items()} == {first: "v1", second: "v1", third: "v2"}
    assert first not in describe(repo)


def test_date(repo: Repo) -> None:
    """The date of a release is that of the annotated tag, or of the commit of a lightweight one."""
    found = load(repo)
    lightweight = repo.git("rev-parse", "v1.0")
    committed = datetime.fromisoformat(repo.git("show", "-s", "--format=%cI", lightweight))
    assert found[lightweight] == Tag("v1.0", committed.astimezone(UTC).replace(tzinfo=None))
    assert found[repo.git("rev-parse", "v1.1^0")] == Tag("v1.1", TAGGED_AT.replace(tzinfo=None))


def test_new_tag(repo: Repo) -> None:
    """A tag created, moved or deleted later changes the releases."""
    assert repo.head not in load(repo)
    repo.git("tag", "v3")
    assert load(repo)[repo.head].name == "v3"
    repo.git("tag", "--force", "v3", "HEAD~1")
    assert repo.head not in load(repo)
    repo.git("tag", "--delete", "v1.1")
    assert {sha: tag.name for sha, tag in load(repo).items()} == describe(repo)


def test_without_tags(tmp_path: Path) -> None:
    """A repository without tags, or with tags of other objects only, has no releases."""
    repo = Repo.create(tmp_path)
    repo.commit_file("a.py", "1\n")
    assert load(repo) == {}
    repo.git("tag", "tree", "HEAD^{tree}")
    assert load(repo) == {}


def test_odd_names(tmp_path: Path) -> None:
    """Names of tags may be like a branch's, look like a path, or contain letters of any script."""
    repo = Repo.create(tmp_path)
    for number, name in enumerate(("main", "tags/x", "refs/tags/y", "ü-1", "undefined")):
        repo.commit_file("a.py", f"{number}\n")
        repo.git("tag", name)
    shas = repo.git("rev-list", "--reverse", "HEAD").split()
    assert [load(repo)[sha].name for sha in shas] == ["main", "tags/x", "refs/tags/y", "ü-1", "undefined"]


def test_name_that_is_not_utf_8(repo: Repo) -> None:
    """A tag whose name is not UTF-8 does not prevent an answer."""
    (repo.path / ".git/packed-refs").write_bytes(f"{repo.head} refs/tags/v\xe9\n".encode("latin-1"))
    assert "v1.0" in {tag.name for tag in load(repo).values()}


def test_shallow_clone(repo: Repo, tmp_path: Path) -> None:
    """A shallow clone answers from the tags and commits that it has."""
    clone = repo.clone(tmp_path / "clone", "--depth=2", "--no-single-branch")
    assert {sha: tag.name for sha, tag in load(clone).items()} == describe(clone)
    clone.git("fetch", "--quiet", "--unshallow")
    assert {sha: tag.name for sha, tag in load(clone).items()} == describe(clone)


def test_timeout(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """If git takes too long, no release is known, and the next request tries again."""

    def time_out(*_arguments: object, **_options: object) -> None:
        raise GitTimeout(1)

    repository = open_repository(repo.path)
    git = GitProgram(repository.git_dir, None, repository.objects_dir)
    with monkeypatch.context() as context:
        context.setattr(GitProgram, "run", time_out)
        assert releases.load_releases(repository, git) is None
    assert {sha: tag.name for sha, tag in load(repo).items()} == describe(repo)


def test_missing_object(repo: Repo) -> None:
    """A tag of a missing object does not hide the other tags."""
    (repo.path / ".git/refs/tags/broken").write_text(f"{'1' * 40}\n", "ascii")
    assert {tag.name for tag in load(repo).values()} == {"v1.0", "v1.1", "v1.1.1", "release/2.0"}


def test_missing_objects_of_all_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the objects of all tags are missing, there are no releases, and git is not asked again."""
    repo = Repo.create(tmp_path)
    repo.commit_file("a.py", "1\n")
    (repo.path / ".git/refs/tags/broken").write_text(f"{'1' * 40}\n", "ascii")
    assert load(repo) == {}
    with monkeypatch.context() as context:
        context.delattr(GitProgram, "run")
        assert load(repo) == {}
    repo.git("tag", "v1")
    assert load(repo)[repo.head].name == "v1"


def load_merges(repo: Repo) -> dict[str, str]:
    """Return the merge of each commit that a merge brought into the history of HEAD."""
    repository = open_repository(repo.path)
    git = GitProgram(repository.git_dir, None, repository.objects_dir)
    return dict(releases.load_merges(repository, git, repo.head) or {})


def test_merges(tmp_path: Path) -> None:
    """The merge of a commit is the first one into the history of HEAD, even if an inner branch was merged before."""
    repo = Repo.create(tmp_path)
    repo.commit_file("a.py", "1\n")
    repo.branch("outer")
    first = repo.commit_file("b.py", "1\n")
    repo.branch("inner")
    inner = repo.commit_file("c.py", "1\n")
    repo.switch("outer")
    inner_merge = repo.merge("inner")
    repo.switch("main")
    merge = repo.merge("outer")
    expected = {first: merge, inner: merge, inner_merge: merge}
    assert load_merges(repo) == expected
    repo.switch("outer")
    second = repo.commit_file("b.py", "2\n")
    repo.switch("main")
    repo.commit_file("a.py", "2\n")
    later = repo.merge("outer")
    assert load_merges(repo) == expected | {second: later}


def test_incomplete_history() -> None:
    """Commits that were not read, as in a shallow clone or a long history, are left out."""
    parents = {"head": ("line", "branch"), "line": ("missing",), "branch": ("root", "gone")}
    assert releases.find_merges(parents, "head") == {"branch": "head"}
    assert releases.find_merges({}, "head") == {}


def test_failure_of_git(tmp_path: Path) -> None:
    """Merges are unknown if git fails, and the failure is not cached."""
    repo = Repo.create(tmp_path)
    repo.commit_file("a.py", "1\n")
    repository = open_repository(repo.path)
    broken_git = GitProgram(tmp_path / "missing", None, repository.objects_dir)
    (tmp_path / "missing").mkdir()
    assert releases.load_merges(repository, broken_git, repo.head) is None
    git = GitProgram(repository.git_dir, None, repository.objects_dir)
    assert releases.load_merges(repository, git, repo.head) == {}


def test_setting_that_git_rejects(tmp_path: Path) -> None:
    """If git rejects a setting, releases and merges are unknown, so that queries are still answered."""
    repo = Repo.create(tmp_path)
    repo.commit_file("a.py", "1\n")
    repo.git("tag", "v1.0")
    repo.git("config", "core.abbrev", "many")
    repository = open_repository(repo.path)
    git = GitProgram(repository.git_dir, repo.path, repository.objects_dir)
    assert releases.load_releases(repository, git) is None
    assert releases.load_merges(repository, git, repo.head) is None


def test_cached_states() -> None:
    """A cached result is used only for the same state of the same repository. After a failure, it is computed again."""
    cache: releases.HistoryCache[str] = releases.HistoryCache()
    results = iter([None, "1", "2", "3"])
    requests = [("a", 1), ("a", 1), ("a", 1), ("a", 2), ("b", 2), ("a", 2)]
    found = [cache.get(Path(name), state, lambda: next(results)) for name, state in requests]
    assert found == [None, "1", "1", "2", "3", "2"]


def test_cached_commits_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache holds many small repositories; with too many commits, it drops those used least recently."""
    monkeypatch.setattr(releases, "MAX_CACHED_COMMITS", 100)
    cache: releases.HistoryCache[range] = releases.HistoryCache()
    computed = []

    def compute(name: str, commits: int) -> range:
        computed.append(name)
        return range(commits)

    def get(name: str, commits: int) -> None:
        assert cache.get(Path(name), None, lambda: compute(name, commits)) == range(commits)

    small = [str(number) for number in range(20)]
    for name in (*small, *small):
        get(name, 3)
    assert computed == small
    get("0", 3)
    get("large", 75)
    for name in ("0", "19", "1"):  # only the last one was dropped
        get(name, 3)
    assert computed == [*small, "large", "1"]
    for name in ("huge", "huge", "0"):
        get(name, 3 if name == "0" else 1_000)
    assert computed == [*small, "large", "1", "huge", "0"]


def test_cache_of_other_repositories_does_not_wait() -> None:
    """A computation for one repository does not block one for another."""
    cache: releases.HistoryCache[str] = releases.HistoryCache()
    is_running, may_end = Event(), Event()

    def compute() -> str:
        is_running.set()
        return str(may_end.wait(timeout=30))

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(cache.get, Path("a"), 1, compute)
        assert is_running.wait(timeout=30)
        assert cache.get(Path("b"), 1, lambda: "2") == "2"
        assert not slow.done()
        may_end.set()
        assert slow.result(timeout=30) == "True"
