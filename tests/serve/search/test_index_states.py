"""Answers with a missing, stale or incompatible index, or one with unreachable commits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.component_versions import get_component_versions
from serve.errors import NeedsRebuild
from tests.repos import Repo
from tests.serve.sample_index import build_index
from tests.serve.search.helpers import find


def test_without_index(repo: Repo, home: Path) -> None:
    """Without an index there are no hits, no error, and a hint that names the command."""
    answer = find(repo, home)
    assert answer.hits == ()
    assert answer.meta.hint == "This repository is not indexed yet: run `lineage index`."
    assert (answer.meta.index_status.last_indexed_commit, answer.meta.index_status.commits_behind_head) == (
        None,
        5,
    )
    assert not home.exists()


def test_without_index_and_git(repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an index, a query without a range needs no git program."""
    monkeypatch.setenv("PATH", "")
    assert find(repo, home).meta.hint == "This repository is not indexed yet: run `lineage index`."


def test_without_commits(tmp_path: Path, home: Path) -> None:
    """A repository without commits gives no hits and says why."""
    repo = Repo.create(tmp_path / "repo")
    answer = find(repo, home)
    assert answer.hits == ()
    assert answer.meta.hint == f"{repo.path} has no commits yet. Commit something, then run `lineage index`."


def test_stale_index(repo: Repo, home: Path) -> None:
    """An index behind HEAD answers from what it has, and the hint says how far it is behind."""
    build_index(repo, home, revision="HEAD~2")
    answer = find(repo, home)
    assert len(answer.hits) == 3
    assert answer.meta.index_status.commits_behind_head == 2
    assert answer.meta.hint == "The index is 2 commits behind HEAD: run `lineage index --incremental`."


def test_amended_commit(repo: Repo, home: Path) -> None:
    """After an amend the old commit is in no hit, before and after the next index run."""
    build_index(repo, home)
    old = repo.head
    repo.write("tests/test_tcp.py", "def test_connect():\n    timeout(1)\n")
    new = repo.commit("Test the timeout better", amend=True)
    before = {hit.commit_sha for hit in find(repo, home).hits}
    build_index(repo, home)
    after = {hit.commit_sha for hit in find(repo, home).hits}
    assert (old in before, len(before)) == (False, 4)
    assert (old in after, new in after, len(after)) == (False, True, 5)


def test_branch_switch_and_back(repo: Repo, home: Path) -> None:
    """Each branch answers with its own history, without indexing again."""
    build_index(repo, home)
    main_shas = {hit.commit_sha for hit in find(repo, home).hits}
    repo.branch("topic", "HEAD~3")
    topic_sha = repo.commit_file("topic.py", "timeout\n")
    build_index(repo, home)
    topic_shas = {hit.commit_sha for hit in find(repo, home).hits}
    repo.switch("main")
    answer = find(repo, home)
    assert topic_shas == {topic_sha, repo.git("rev-parse", "main~3"), repo.git("rev-parse", "main~4")}
    assert {hit.commit_sha for hit in answer.hits} == main_shas
    assert answer.meta.index_status.commits_behind_head == 0


def test_rebase_with_pruned_history(repo: Repo, home: Path) -> None:
    """If git has pruned indexed commits, the commits that HEAD reaches are found by a walk."""
    repo.branch("topic")
    repo.commit_file("topic.py", "timeout\n")
    build_index(repo, home)
    repo.git("reset", "--quiet", "--hard", "HEAD~2")
    repo.git("branch", "--quiet", "--delete", "--force", "main")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "--quiet", "--prune=now")
    answer = find(repo, home)
    assert {hit.commit_sha for hit in answer.hits} == set(repo.git("rev-list", "HEAD").split())
    assert answer.meta.index_status.commits_behind_head == 0


def test_needs_rebuild(repo: Repo, home: Path) -> None:
    """An index built with another model is an error that names the command to run."""
    build_index(repo, home, embedding_model="another")
    with pytest.raises(NeedsRebuild, match=r"lineage index --rebuild --yes"):
        find(repo, home)


def test_refresh_recommended(repo: Repo, home: Path) -> None:
    """An index with outdated derived rows answers, and the hint contains the verdict as a sentence."""
    build_index(repo, home, parser_python="0")
    answer = find(repo, home)
    assert len(answer.hits) == 5
    assert answer.meta.hint is not None
    assert answer.meta.hint.startswith(
        "The index is query-compatible, refresh recommended (parser_python 0, now "
    )
    assert "`lineage index --force`" in answer.meta.hint


def test_unknown_versions(repo: Repo, home: Path) -> None:
    """An index without recorded versions answers, and the hint says what is missing."""
    build_index(repo, home, versions=replace(get_component_versions(), words_version=None))
    answer = find(repo, home)
    assert len(answer.hits) == 5
    assert (
        answer.meta.hint
        == "The index is unknown (no metadata for words_version): run `lineage index --force`."
    )
