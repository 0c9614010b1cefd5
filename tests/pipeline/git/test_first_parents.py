"""Merges that brought commits of branches into the first-parent history."""

from __future__ import annotations

from pathlib import Path

from pipeline.git import releases
from pipeline.git.git_cli import GitProgram
from pipeline.git.releases import find_merges
from pipeline.git.repository import open_repository
from tests.repos import Repo


def load_merges(repo: Repo) -> dict[str, str]:
    """Return the merge of each commit that a merge brought into the history of HEAD."""
    repository = open_repository(repo.path)
    git = GitProgram(repository.git_dir, None, repository.objects_dir)
    return dict(releases.load_merges(repository, git, repo.head) or {})


def test_merges(tmp_path: Path) -> None:
    """Commits of a branch have its first merge, also those of a branch that was merged into the branch."""
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
    assert find_merges(parents, "head") == {"branch": "head"}
    assert find_merges({}, "head") == {}


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
