"""Search for the repositories in a directory tree."""

from __future__ import annotations

from pathlib import Path

from pipeline.git.git_dir import find_repositories
from tests.repos import Repo


def find_names(directory: Path) -> list[str]:
    return [path.relative_to(directory).as_posix() for path in find_repositories(directory)]


def test_work_trees_bare_and_nested_repositories(tmp_path: Path) -> None:
    """Work trees, bare repositories, separate git directories and nested repositories are found, in order."""
    Repo.create(tmp_path / "b" / "inner")
    Repo.create(tmp_path / "b")
    Repo.create(tmp_path / "a.git", bare=True)
    Repo.create(tmp_path / "groups" / "deep" / "c")
    separate = Repo.create(tmp_path / "d")
    separate.git("init", "--quiet", "--separate-git-dir", str(tmp_path / ".store"))
    (tmp_path / "plain").mkdir()
    assert find_names(tmp_path) == ["a.git", "b", "b/inner", "d", "groups/deep/c"]
    assert find_names(tmp_path / "b") == [".", "inner"]


def test_links_hidden_directories_and_empty_git_directories_are_left_out(tmp_path: Path) -> None:
    """Symbolic links, hidden directories and a `.git` that git does not recognize are left out."""
    Repo.create(tmp_path / "elsewhere" / "repo")
    root = tmp_path / "root"
    Repo.create(root / ".cache" / "repo")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    (root / "empty" / ".git").mkdir(parents=True)
    (root / "dangling").mkdir()
    (root / "dangling" / ".git").write_text("gitdir: /nowhere\n")
    assert find_names(root) == []


def test_linked_work_trees_and_submodules_are_left_out(tmp_path: Path) -> None:
    """Linked work trees share an index with their repository; submodules mostly belong to another project."""
    library = Repo.create(tmp_path / "library")
    library.commit_file("a.py", "a = 1\n")
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("b.py", "b = 1\n")
    repo.git("worktree", "add", "--quiet", str(tmp_path / "linked"))
    repo.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.path), "libs/library"
    )
    assert (repo.path / "libs" / "library" / ".git").is_file() and (tmp_path / "linked" / ".git").is_file()
    assert find_names(tmp_path) == ["library", "repo"]
