"""Evidence on the hits of every tool: references, first release and copies of a commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipeline.git import releases
from pipeline.git.errors import UnreadableObject
from pipeline.git.git_cli import GitProgram
from pipeline.git.repository import Repository, open_repository
from serve.api_types import Release
from serve.commit_types import ChangeHit, ChangeSearchRequest, CommitDetails, ShowRequest
from serve.evidence import (
    MAX_CHANGELOG_ADDITIONS,
    MAX_CHANGELOG_CHARS,
    Evidence,
    EvidenceLoader,
    describes_commit,
    parse_remote_names,
    select_changelog_entries,
)
from serve.explain.explain_change import Explainer
from serve.explain.show_commit import show_commit
from serve.explain_types import ExplainAnswer, ExplainHit, ExplainRequest
from serve.find_types import PatternHit
from serve.references import Reference
from serve.search.exact_search import search_changes
from stores import index_copy
from stores.errors import LineageError
from tests.repos import Repo, create_once
from tests.serve.sample_index import build_index
from tests.serve.search.helpers import find

PULL_REQUEST = Reference("pull_request", "#12")


@create_once
def create_repo(path: Path) -> Repo:
    """A change on a branch, merged as a pull request and released; another branch has a copy of it."""
    repo = Repo.create(path)
    repo.git("remote", "add", "origin", "git@github.com:ada/engine.git")
    repo.commit_file("a.py", "one\ntwo\nthree\nfour\nfive\n", "Count")
    repo.branch("feature")
    repo.commit_file("a.py", "one\ntwo\nthree\nfour\ntimeout\n", "Add a timeout\n\nFixes ada/engine#3")
    repo.switch("main")
    repo.commit_file("b.py", "other\n", "Other")
    repo.merge("feature", message="Merge pull request #12 from ada/feature\n\nAdd a timeout\n\nFixes #3")
    repo.git("tag", "1.0")
    return repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_repo(tmp_path / "repo")


def build_copy(repo: Repo) -> tuple[str, str]:
    """Cherry-pick the change to a branch that is then merged; return the original and the copy."""
    original = repo.git("rev-parse", "feature")
    repo.branch("maintenance", "main~1")
    repo.git("cherry-pick", original, author="Grace Hopper <grace@x.example>")
    copy = repo.head
    repo.switch("main")
    repo.merge("maintenance", message="Merge the maintenance branch")
    return original, copy


def collect_evidence(repo: Repo, home: Path, sha: str) -> list[Evidence]:
    """Return the evidence that each tool gives about a commit."""
    explained = Explainer(home).explain(ExplainRequest("a.py", 5, 5), repo.path)
    searched = search_changes(ChangeSearchRequest("timeout"), repo.path, home)
    shown = show_commit(ShowRequest(sha), repo.path, home=home)
    hits: list[PatternHit | ExplainHit | ChangeHit | CommitDetails] = [shown.commit]
    hits += [*find(repo, home, k=20).hits, *explained.hits, *searched.hits]
    return [
        Evidence(hit.references, hit.release, hit.also, hit.reverted_by)
        for hit in hits
        if hit.commit_sha == sha
    ]


def test_every_tool(repo: Repo, tmp_path: Path) -> None:
    """Hits of all tools have the pull request of their merge, the references, release, copies and revert."""
    original, copy = build_copy(repo)
    repo.git("commit", "--quiet", "--allow-empty", "--message", f"Undo it\n\nThis reverts commit {original}.")
    build_index(repo, tmp_path)
    evidence = Evidence(
        (PULL_REQUEST, Reference("closes", "#3")), Release("1.0", "2020-01-01T16:00:00Z"), (copy,), repo.head
    )
    assert collect_evidence(repo, tmp_path, original) == [evidence] * 4


def test_copies_are_one_hit(repo: Repo, tmp_path: Path) -> None:
    """Commits with the same patch are one hit: the oldest, which names the others. Another commit takes their place."""
    original, copy = build_copy(repo)
    build_index(repo, tmp_path)
    hits = find(repo, tmp_path, "timeout", k=2).hits
    assert (hits[0].commit_sha, hits[0].also) == (original, (copy,))
    assert len(hits) == 2 and hits[1].commit_sha != copy


def test_json(repo: Repo) -> None:
    """The JSON has the evidence, and omits what is empty."""
    original = repo.git("rev-parse", "feature")
    commit = show_commit(ShowRequest(original), repo.path).to_json_dict()["commit"]
    assert list(commit["references"]) == [
        {"kind": "pull_request", "text": "#12"},
        {"kind": "closes", "text": "#3"},
    ]
    assert commit["release"] == {"tag": "1.0", "date": "2020-01-01T16:00:00Z"}
    assert "also" not in commit
    repo.git("tag", "--delete", "1.0")
    root = show_commit(ShowRequest("main~2"), repo.path).to_json_dict()["commit"]
    assert not {"references", "release", "also"} & root.keys()


def test_own_number_instead_of_merge(repo: Repo) -> None:
    """A commit that names its own pull request, as a squashed one does, does not get that of a merge."""
    repo.branch("other")
    repo.commit_file("c.py", "1\n", "Squash (#20)")
    repo.switch("main")
    repo.merge("other", message="Merge pull request #21 from ada/other")
    commit = show_commit(ShowRequest("other"), repo.path).commit
    assert commit.references == (Reference("pull_request", "#20"),)


def test_different_patch(repo: Repo, tmp_path: Path) -> None:
    """Commits with one author and date but another patch are no copies, nor are those that HEAD does not reach."""
    original = repo.git("rev-parse", "feature")
    repo.branch("maintenance", "main~1")
    repo.git("cherry-pick", original)
    copy = repo.head
    repo.write("a.py", "one\ntwo\nthree\nfour\nother timeout\n")
    repo.git("add", "--all")
    repo.git("commit", "--quiet", "--amend", "--reuse-message=HEAD")
    assert copy != repo.head
    changed = repo.head
    repo.switch("main")
    repo.merge("maintenance", resolution={"a.py": "one\n"})
    build_index(repo, tmp_path)
    for sha in (original, changed):
        assert show_commit(ShowRequest(sha), repo.path, home=tmp_path).commit.also == ()
    repo.git("reset", "--quiet", "--hard", "main~1")
    assert show_commit(ShowRequest(original), repo.path, home=tmp_path).commit.also == ()


def test_unreached_copy(repo: Repo, tmp_path: Path) -> None:
    """A copy that HEAD no longer reaches is not named."""
    original, copy = build_copy(repo)
    build_index(repo, tmp_path)
    assert show_commit(ShowRequest(original), repo.path, home=tmp_path).commit.also == (copy,)
    repo.git("reset", "--quiet", "--hard", "main~1")
    assert show_commit(ShowRequest(original), repo.path, home=tmp_path).commit.also == ()


def test_without_index(repo: Repo, tmp_path: Path) -> None:
    """Without an index, references and the release come from git, and copies are unknown."""
    original, _ = build_copy(repo)
    answer = Explainer(tmp_path).explain(ExplainRequest("a.py", 5, 5), repo.path)
    [hit] = [hit for hit in answer.hits if hit.commit_sha == original]
    assert hit.references == (PULL_REQUEST, Reference("closes", "#3"))
    assert hit.release == Release("1.0", "2020-01-01T16:00:00Z")
    assert hit.also == ()


def test_new_tag_in_cached_answer(repo: Repo, tmp_path: Path) -> None:
    """A tag that is created, moved or deleted changes an answer that was cached."""
    repo.git("tag", "--delete", "1.0")
    explainer = Explainer(tmp_path)

    def explain() -> ExplainAnswer:
        return explainer.explain(ExplainRequest("a.py", 5, 5), repo.path)

    assert explain().hits[0].release is None
    assert explain() is explain()
    repo.git("tag", "2.0")
    assert explain().hits[0].release == Release("2.0", "2020-01-01T16:00:00Z")
    repo.git("tag", "--force", "2.0", "main~1")
    assert explain().hits[0].release is None


def test_new_tag_in_search(repo: Repo, tmp_path: Path) -> None:
    """A tag created after the index run appears in the next search."""
    build_index(repo, tmp_path)
    repo.git("tag", "0.9", "main~1")
    releases = {
        hit.commit_message.partition("\n")[0]: hit.release for hit in find(repo, tmp_path, "other count").hits
    }
    assert releases["Other"] == Release("0.9", "2020-01-01T15:00:00Z")


def test_shallow_clone(repo: Repo, tmp_path: Path) -> None:
    """A shallow clone has the evidence of the commits that it has."""
    clone = repo.clone(tmp_path / "clone", "--depth=1")
    commit = show_commit(ShowRequest("HEAD"), clone.path).commit
    assert commit.release == Release("1.0", "2020-01-01T16:00:00Z")
    assert commit.references[0] == PULL_REQUEST


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/Ada/Engine.git",
        "https://token@github.com/ada/engine/",
        "git@github.com:ada/engine.git",
        "ssh://git@github.com:22/ada/engine",
    ],
)
def test_remote_name(url: str) -> None:
    """The name of a repository is the path of its remote's URL."""
    settings = [("remote.origin.url", url), ("remote.x.fetch", "a/b"), ("remote.local.url", "repo")]
    assert parse_remote_names(settings) == {"ada/engine"}


@pytest.mark.parametrize(
    ("remotes", "name"),
    [
        ("fork origin upstream", "upstream/engine"),
        ("fork origin", "origin/engine"),
        ("fork", "fork/engine"),
        ("fork other", None),
    ],
)
def test_several_remotes(remotes: str, name: str | None) -> None:
    """Numbers belong to the repository of `upstream`, else of `origin`, else of the only remote."""
    settings = [(f"remote.{remote}.url", f"git@x.org:{remote}/engine.git") for remote in remotes.split()]
    assert parse_remote_names(settings) == ({name} if name else set())


def test_unknown_releases_are_not_cached(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An explanation that was made while git could not tell the releases is computed again."""
    explainer = Explainer(tmp_path)
    with monkeypatch.context() as context:
        context.setattr(releases, "load_releases", lambda *_: None)
        assert explainer.explain(ExplainRequest("a.py", 5, 5), repo.path).hits[0].release is None
    assert explainer.explain(ExplainRequest("a.py", 5, 5), repo.path).hits[0].release is not None


def test_unreadable_head(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """If HEAD cannot be read, the merges are unknown."""

    def fail(_repository: Repository) -> None:
        raise UnreadableObject("HEAD", "it is damaged")

    monkeypatch.setattr(Repository, "read_head", fail)
    loader = EvidenceLoader(open_repository(repo.path))
    assert (loader.merges, loader.is_complete) == ({}, False)


def test_error_of_evidence(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in loading evidence is reported, and not taken for one of the index."""
    build_index(repo, tmp_path)
    calls = []

    def fail(*_arguments: object) -> None:
        calls.append(1)
        raise LineageError("It failed.")

    monkeypatch.setattr(EvidenceLoader, "add_to", fail)
    with pytest.raises(LineageError, match="It failed"):
        show_commit(ShowRequest("HEAD"), repo.path, home=tmp_path)
    assert len(calls) == 1


@pytest.mark.parametrize("tool", ["grep", "show"])
def test_index_is_closed_while_git_runs(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """The index is not open while git computes releases, so that an index run need not wait."""
    build_index(repo, tmp_path)
    open_indexes: list[int] = []
    checks: list[int] = []
    load, open_index = releases.load_releases, index_copy.open_index_or_copy

    @contextmanager
    def track(*arguments: Any, **options: Any) -> Iterator[Any]:
        with open_index(*arguments, **options) as index:
            open_indexes.append(1)
            yield index
        open_indexes.pop()

    def check(repository: Repository, git: GitProgram) -> Mapping[str, releases.Tag] | None:
        checks.append(len(open_indexes))
        return load(repository, git)

    monkeypatch.setattr(releases, "load_releases", check)
    monkeypatch.setattr(index_copy, "open_index_or_copy", track)
    if tool == "grep":
        assert search_changes(ChangeSearchRequest("timeout"), repo.path, tmp_path).hits
    else:
        assert show_commit(ShowRequest("HEAD"), repo.path, home=tmp_path).commit
    assert checks == [0]


def test_changelog_entries() -> None:
    """An entry has its continuation lines and is cut; headings, links and the ends of older entries are no entries."""
    diff = """@@ -1,3 +1,9 @@
 Changes
+Bug fixes in this release
+-------------------------
+- Close the port
+  #12 of a lost server. {long}
 - Old entry
+  that goes on and on
+[#1]: https://example.org/some/page
+## Other things and more
+1. Count the ports
+* two words
+Keep the port open
"""
    entries = select_changelog_entries([diff.format(long="y" * 200)], "Count all ports: the first")
    start = "- Close the port #12 of a lost server. "
    assert entries == (
        f"{start}{'y' * (MAX_CHANGELOG_CHARS - len(start))}…",
        "* two words Keep the port open",
    )
    assert not describes_commit("CHANGES.md", MAX_CHANGELOG_ADDITIONS + 1)
