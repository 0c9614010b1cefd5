"""Questions about a range of commits, also of a branch that HEAD does not reach."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from serve.api_types import NamedRepository
from serve.commit_types import ChangeSearchRequest
from serve.errors import BadRequest
from serve.find_types import FindRequest
from serve.search.exact_search import search_changes
from serve.search.find_pattern import PatternSearcher
from serve.search.merged_search import find_in_repositories
from stores import exact_search
from stores.snapshot import LANE_DEPTH
from tests.repos import Repo
from tests.serve.sample_index import WordEncoder, build_index
from tests.serve.search.helpers import NOW, find

RANGES = ["main..topic", "topic..main", "main...topic", "v1..topic", "^v1 main", "topic", "v1", "HEAD~2.."]


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """Commits about a timeout on `main` and on `topic`, with the tag `v1` where the branches part."""
    repo = Repo.create(tmp_path_factory.mktemp("ranges") / "repo")
    for number in range(3):
        repo.commit_file(f"base{number}.py", f"timeout = {number}\n", f"Set the timeout to {number}")
    repo.git("tag", "v1")
    repo.branch("topic")
    for number in range(4):
        repo.commit_file(f"topic{number}.py", f"timeout = {number}\n", f"Try a timeout of {number}")
    repo.switch("main")
    for number in range(3):
        repo.commit_file(f"main{number}.py", f"timeout = {number}\n", f"Use a timeout of {number}")
    return repo


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, repo: Repo) -> Path:
    """LINEAGE_HOME with both branches indexed, the HEAD of the index being `main`."""
    home = tmp_path_factory.mktemp("ranges") / "home"
    build_index(repo, home, revision="topic")
    build_index(repo, home)
    return home


def list_commits(repo: Repo, text: str) -> list[str]:
    return repo.git("rev-list", *text.split(), "--").split()


@pytest.mark.parametrize("text", RANGES)
def test_query_finds_the_commits_of_the_range(repo: Repo, home: Path, text: str) -> None:
    """A query about a range has exactly the commits of `git rev-list`, and no hint about missing ones."""
    answer = find(repo, home, "timeout", k=20, rerank=text == "main..topic", commit_range=text)
    assert sorted(hit.commit_sha for hit in answer.hits) == sorted(list_commits(repo, text))
    assert not answer.meta.hint


@pytest.mark.parametrize("text", RANGES)
@pytest.mark.parametrize("max_literals", [0, exact_search.MAX_LITERAL_COMMITS])
def test_exact_search_finds_the_commits_of_the_range(
    repo: Repo, home: Path, text: str, max_literals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exact search about a short or long range equals `git log -S` of the range."""
    monkeypatch.setattr(exact_search, "MAX_LITERAL_COMMITS", max_literals)
    answer = search_changes(ChangeSearchRequest("timeout", commit_range=text), repo.path, home)
    expected = repo.git("log", "-Stimeout", "--format=%H", *text.split(), "--").split()
    assert [hit.commit_sha for hit in answer.hits] == expected
    assert answer.meta.hint is None


def test_without_range_only_head(repo: Repo, home: Path) -> None:
    """A question without a range leaves out what only the branch has, also after one with a range."""
    with_range = find(repo, home, "timeout", k=20, commit_range="topic")
    without_range = find(repo, home, "timeout", k=20)
    assert len(with_range.hits) == 7
    assert {hit.commit_sha for hit in without_range.hits} == set(list_commits(repo, "HEAD"))


def test_scores_do_not_depend_on_the_range(repo: Repo, home: Path) -> None:
    """Within HEAD's history a range is a filter: the hits keep the scores that they have without it."""
    everything = {hit.commit_sha: hit for hit in find(repo, home, "timeout of 2", k=20).hits}
    answer = find(repo, home, "timeout of 2", k=20, commit_range="v1..main")
    assert answer.hits == tuple(everything[hit.commit_sha] for hit in answer.hits)


def test_filter_comes_before_the_depth_of_lanes(tmp_path: Path) -> None:
    """The commits of a range are found though more other commits than a lane has match better."""
    repo = Repo.create(tmp_path / "repo")
    for number in range(3):
        repo.commit_file(f"old{number}.py", f"value = {number}  # timeout somewhere\n", "Old")
    repo.git("tag", "old")
    for number in range(LANE_DEPTH + 1):
        repo.write(f"new{number}.py", f"timeout = {number}\n")
    repo.commit("Timeout timeout timeout")
    build_index(repo, tmp_path / "home")
    hits = find(repo, tmp_path / "home", "timeout", k=20, commit_range="old").hits
    assert {hit.commit_sha for hit in hits} == set(list_commits(repo, "old"))


def test_range_and_other_filters(repo: Repo, home: Path) -> None:
    """A range and a path are joined by AND, in both searches."""
    hits = find(repo, home, "timeout", k=20, commit_range="main..topic", path="topic1.py").hits
    request = ChangeSearchRequest("timeout", commit_range="main..topic", path="topic1.py")
    changes = search_changes(request, repo.path, home).hits
    assert [hit.commit_sha for hit in hits] == [hit.commit_sha for hit in changes]
    assert changes[0].commit_subject == "Try a timeout of 1"


def test_empty_range(repo: Repo, home: Path) -> None:
    """An empty range says so, and nothing else."""
    answer = find(repo, home, "timeout", commit_range="topic..v1")
    changes = search_changes(ChangeSearchRequest("timeout", commit_range="topic..v1"), repo.path, home)
    assert not answer.hits and not changes.hits
    assert answer.meta.hint == changes.meta.hint == "The range topic..v1 has no commits."


@pytest.mark.parametrize("is_indexed", [True, False])
def test_unknown_revision(repo: Repo, home: Path, tmp_path: Path, is_indexed: bool) -> None:
    """An unknown branch is an error with a similar name, also without an index."""
    with pytest.raises(BadRequest, match="no commit 'topik'") as error:
        find(repo, home if is_indexed else tmp_path, "timeout", commit_range="main..topik")
    assert "Did you mean topic?" in error.value.hint


def test_commits_that_are_not_indexed(repo: Repo, tmp_path: Path) -> None:
    """An answer says how many commits of the range the index lacks."""
    build_index(repo, tmp_path, revision="v1")
    answer = find(repo, tmp_path, "timeout", k=20, commit_range="main...topic")
    changes = search_changes(ChangeSearchRequest("timeout", commit_range="main"), repo.path, tmp_path)
    assert not answer.hits
    assert answer.meta.hint
    assert (
        "Of the 7 commits in main...topic, 7 are not indexed: run `lineage index --branch topic`."
        in answer.meta.hint
    )
    repo.git("branch", "x`;touch-pwned;`y", "topic")
    hint = find(repo, tmp_path, "timeout", commit_range="main..x`;touch-pwned;`y").meta.hint
    assert hint and "`lineage index --branch PATTERN` adds branches." in hint and "--branch 'x" not in hint
    repo.git("branch", "-D", "x`;touch-pwned;`y")
    old = repo.git("rev-parse", "topic~1")
    repo.git("tag", "--force", "tree", "HEAD^{tree}")
    mixed = find(repo, tmp_path, "timeout", commit_range=f"{old} v1.. ^v1 tree").meta.hint
    assert mixed
    assert (
        "6 are not indexed: neither HEAD nor an indexed branch reaches 3 of them. `lineage index --branch"
        in mixed
    )
    assert len(changes.hits) == 3
    assert changes.meta.hint
    assert (
        "Of the 6 commits in main, 3 are not indexed: run `lineage index --incremental`." in changes.meta.hint
    )


def test_ignored_files_count_as_indexed(tmp_path: Path) -> None:
    """A commit that changes only ignored files has no row in the index, and is no gap."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "timeout = 1\n")
    repo.commit_file("package-lock.json", "{}\n")
    build_index(repo, tmp_path / "home")
    assert not find(repo, tmp_path / "home", "timeout", commit_range="HEAD").meta.hint


def test_commits_that_no_branch_reaches(tmp_path: Path) -> None:
    """Without a branch or tag to index, the hint says why the commits are missing."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a = 1\n")
    old = repo.commit_file("b.py", "timeout = 1\n")
    repo.commit("Amended", amend=True)
    build_index(repo, tmp_path / "home")
    hint = find(repo, tmp_path / "home", "timeout", commit_range=f"main..{old}").meta.hint
    assert hint
    assert f"The commit in main..{old} is not indexed: neither HEAD nor an indexed branch reaches it." in hint


def test_range_of_rewritten_history(tmp_path: Path) -> None:
    """Commits that were amended away are found by their sha while the index has them, and only then."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a = 1\n")
    old = repo.commit_file("b.py", "timeout = 1\n", "Add a timeout")
    build_index(repo, tmp_path / "home")
    repo.commit("Add a better timeout", amend=True)
    build_index(repo, tmp_path / "home")
    found = find(repo, tmp_path / "home", "timeout", commit_range=f"HEAD~1..{old}").hits
    assert [hit.commit_sha for hit in found] == [old]
    assert old not in {hit.commit_sha for hit in find(repo, tmp_path / "home", "timeout").hits}


def test_one_range_after_the_other(repo: Repo, home: Path) -> None:
    """A searcher that caches snapshots answers questions about different ranges."""
    with closing(PatternSearcher(home, load_encoder=WordEncoder)) as searcher:
        for text in ("main..topic", "v1", "main..topic"):
            request = FindRequest("timeout", 20, rerank=False, commit_range=text)
            answer = searcher.find(request, repo.path, NOW)
            assert {hit.commit_sha for hit in answer.hits} == set(list_commits(repo, text))


def test_several_repositories(repo: Repo, home: Path, tmp_path: Path) -> None:
    """Of several repositories, one that lacks the branch is named, and the others answer."""
    other = Repo.create(tmp_path / "other")
    other.commit_file("a.py", "timeout = 1\n")
    build_index(other, home)
    repositories = [NamedRepository(path.name, str(path)) for path in (other.path, repo.path)]
    request = FindRequest("timeout", 20, commit_range="v1..topic")
    with closing(PatternSearcher(home, load_encoder=WordEncoder)) as searcher:
        answer = find_in_repositories(searcher, request, repositories, NOW)
    assert {hit.commit_sha for hit in answer.hits} == set(list_commits(repo, "v1..topic"))
    assert answer.meta.hint
    assert "no commit 'v1'" in answer.meta.hint
