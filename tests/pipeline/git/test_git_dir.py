"""Search for the repositories in a directory tree, and for files of a git directory that git would wait for."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pipeline.git.errors import DamagedRepository, UnreadableObject
from pipeline.git.git_dir import (
    MAX_CONDITIONS,
    MAX_CONFIG_BYTES,
    MAX_TEXT_BYTES,
    find_blocking_git_file,
    find_repositories,
    find_unreadable_git_file,
    resolve_common_dir,
)
from pipeline.git.libgit2 import check_alternates, check_objects
from pipeline.git.repository import open_repository
from stores.errors import StorageError
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


@pytest.mark.parametrize("name", ["c", "modules/x", "z"])
def test_a_separate_git_directory_is_found_once(tmp_path: Path, name: str) -> None:
    """A separate git directory is found by its work tree alone, even in a directory that is called `modules`."""
    work_tree = Repo.create(tmp_path / "repo")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    work_tree.git("init", "--quiet", "--separate-git-dir", str(tmp_path / name))
    assert find_names(tmp_path) == ["repo"]


def test_first_of_two_work_trees_of_a_git_directory_is_found(tmp_path: Path) -> None:
    """If two work trees have the same git directory, the first one by its path is found."""
    repo = Repo.create(tmp_path / "a")
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / ".git").symlink_to(repo.path / ".git")
    assert find_names(tmp_path) == ["a"]


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
    allow_files = ("-c", "protocol.file.allow=always")
    repo.git(*allow_files, "submodule", "--quiet", "add", str(library.path), "libs/library")
    repo.commit("Add a submodule")
    linked = tmp_path / "linked"
    repo.git("worktree", "add", "--quiet", str(linked))
    repo.git("-C", str(linked), *allow_files, "submodule", "--quiet", "update", "--init")
    assert all((path / "libs" / "library" / ".git").is_file() for path in (repo.path, linked))
    assert find_names(tmp_path) == ["library", "repo"]


@pytest.mark.parametrize(
    "config",
    [
        "[include]\n\tpath = pipe\n",
        '[INCLUDE] PATH="pipe"\n',
        '[a "]\\""] [includeIf "gitdir:\\/"] path = pipe # note\n',
        "[include]\n; a comment that ends with a backslash \\\npath = pi\\\npe ; note\n",
        '[include]\n\tpath = "p"ip\\\r\n"e"\r\n',
        '[includeIf\r"gitdir:**"]\n\tpath = pipe\n',
        '[alias]\n\tp = "!f() { # [include]\\n }; f"\n[include]\n\tother\n\tpath = ./pipe\n',
    ],
)
def test_included_pipe(tmp_path: Path, config: str) -> None:
    """A pipe that a setting `path` of `include` names is found in all forms that git accepts."""
    repo = Repo.create(tmp_path / "repo", bare=True)
    (repo.path / "config").write_bytes(config.encode())
    (repo.path / "pipe").write_text("[a]\nb = included")
    assert repo.git("config", "a.b") == "included"
    (repo.path / "pipe").unlink()
    os.mkfifo(repo.path / "pipe")
    assert find_blocking_git_file(repo.path) == repo.path / "pipe"


@pytest.mark.parametrize(
    "config",
    [
        '[alias]\n\tp = "! path=pipe"\n',
        '[remote "a"]\n\turl = https://localhost/?path=pipe\n',
        '[difftool "x"]\n\tpath = pipe\n',
        "[include]\n\t# path = pipe\n\tother = \\\npath=pipe\n",
        "[include]\n[other]\n\tpath = pipe\n",
    ],
)
def test_pipe_that_is_not_included(tmp_path: Path, config: str) -> None:
    """`path = pipe` in another part of a configuration file is no include, so git does not open the pipe."""
    repo = Repo.create(tmp_path / "repo", bare=True)
    (repo.path / "config").write_text(config)
    os.mkfifo(repo.path / "pipe")
    assert "pipe" in repo.git("config", "--list")
    assert find_blocking_git_file(repo.path) is None


@pytest.mark.parametrize(
    "config", ['[branch "main"]\n\tmerge = refs/heads/main\n' * 4_000, '[a]x="' * 40_000, "a" * 500_000]
)
def test_time_to_parse_a_configuration_file(tmp_path: Path, config: str) -> None:
    """The time to look for included files is linear in the size of the configuration file."""
    (tmp_path / "config").write_text(config)
    started_at = time.monotonic()
    assert find_blocking_git_file(tmp_path) is None
    assert time.monotonic() - started_at < 10


def test_large_configuration_file(tmp_path: Path) -> None:
    """A configuration file that exceeds MAX_CONFIG_BYTES counts as blocking, because its end is not searched."""
    (tmp_path / "config").write_text("#" * MAX_CONFIG_BYTES)
    assert find_blocking_git_file(tmp_path) is None
    (tmp_path / "config").write_text("#" * MAX_CONFIG_BYTES + "\n")
    assert find_blocking_git_file(tmp_path) == tmp_path / "config"


def test_many_include_conditions(tmp_path: Path) -> None:
    """A configuration file with more than MAX_CONDITIONS conditions counts as blocking, because git matches each."""
    (tmp_path / "config").write_text('[includeIf "gitdir:**/a"]\n' * MAX_CONDITIONS)
    assert find_blocking_git_file(tmp_path) is None
    (tmp_path / "config").write_text('[includeIf "gitdir:**/a"]\n' * (MAX_CONDITIONS + 1))
    assert find_blocking_git_file(tmp_path) == tmp_path / "config"


@pytest.mark.parametrize(
    ("condition", "is_slow"),
    [
        ("gitdir:/*a*a*a*a*a*a*a*a*a*a*b/z/", True),
        ("gitdir/i:**/a/**/a/**/a/**/a/**/b/", True),
        ("onbranch:a*b*c*d*e*/x", True),
        ("onbranch:**/*/**/*/**/*/**/b", True),
        ("onbranch:**/*/*/*/b*", True),
        ("gitdir:~/*/*/*/*/*/*/", False),
        ("gitdir:**/work*/**", False),
        ("hasconfig:remote.*.url:*://*example.org*/**", False),
    ],
)
def test_exponential_include_condition(tmp_path: Path, condition: str, is_slow: bool) -> None:
    """A configuration file with a condition for which git may need exponential time counts as blocking.

    This applies to an included file, too.
    """
    repo = Repo.create(tmp_path / ("a" * 200), bare=True)
    with (repo.path / "config").open("a") as config:
        config.write("[include]\n\tpath = more\n")
    (repo.path / "more").write_text(f'[IncludeIf "{condition}"]\n\tpath = other\n')
    assert find_blocking_git_file(repo.path) == (repo.path / "more" if is_slow else None)
    if is_slow:
        with pytest.raises(DamagedRepository, match="more can take git exponential time"):
            open_repository(repo.path)
    else:
        assert open_repository(repo.path).is_bare


@pytest.mark.parametrize(
    ("name", "is_blocking"), [("info/exclude", True), ("shallow", True), ("index", False)]
)
def test_huge_file(tmp_path: Path, name: str, is_blocking: bool) -> None:
    """A huge text file counts as blocking, because git would read it into memory."""
    repo = Repo.create(tmp_path / "repo", bare=True)
    with (repo.path / name).open("wb") as file:
        file.truncate(MAX_TEXT_BYTES + 1)
    assert find_blocking_git_file(repo.path) == (repo.path / name if is_blocking else None)


def test_files_that_include_themselves(tmp_path: Path) -> None:
    """Each configuration file is read once, even if files include themselves and each other by many paths."""
    (tmp_path / "other").symlink_to("config")
    includes = "".join(f"\tpath = ../{tmp_path.name}/{name}\n" for name in ("config", "other") * 20)
    (tmp_path / "config").write_text(f"[include]\n{includes}")
    started_at = time.monotonic()
    assert find_blocking_git_file(tmp_path) is None
    assert time.monotonic() - started_at < 10


def test_pipe_included_by_the_settings_of_a_work_tree(tmp_path: Path) -> None:
    """Files that `config.worktree` includes are checked too."""
    repo = Repo.create(tmp_path / "repo")
    repo.git("config", "extensions.worktreeConfig", "true")
    repo.git("config", "--worktree", "include.path", "pipe")
    os.mkfifo(repo.path / ".git" / "pipe")
    assert find_blocking_git_file(repo.path / ".git") == repo.path / ".git" / "pipe"


def test_included_pipe_outside_of_the_git_directory(tmp_path: Path) -> None:
    """For a pipe outside of the git directory, the error names the setting that includes it."""
    repo = Repo.create(tmp_path / "repo")
    os.mkfifo(tmp_path / "pipe")
    repo.git("config", "include.path", str(tmp_path / "pipe"))
    with pytest.raises(
        DamagedRepository, match=r"Remove it, or change the setting include\.path, which names it"
    ):
        open_repository(repo.path)


@pytest.mark.parametrize("name", ["HEAD", "config"])
def test_path_that_a_nul_byte_ends(tmp_path: Path, name: str) -> None:
    """As in libgit2, a NUL byte ends a path, and what follows it is ignored."""
    repo = Repo.create(tmp_path / "repo", bare=True)
    content = {"HEAD": b"ref: pipe\0/main\n", "config": b"[include]\n\tpath = pipe\0.config\n"}
    (repo.path / name).write_bytes(content[name])
    assert find_blocking_git_file(repo.path) is None
    os.mkfifo(repo.path / "pipe")
    assert find_blocking_git_file(repo.path) == repo.path / "pipe"


def test_common_directory_that_a_nul_byte_ends(tmp_path: Path) -> None:
    """If a NUL byte follows the path of a common directory, the directory is found as git finds it."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a = 1\n")
    repo.git("worktree", "add", "--quiet", str(tmp_path / "linked"))
    git_dir = repo.path / ".git" / "worktrees" / "linked"
    (git_dir / "commondir").write_bytes(b"../..\0\0\n")
    assert Repo(tmp_path / "linked").head == open_repository(tmp_path / "linked").read_head()
    assert resolve_common_dir(git_dir) == repo.path / ".git"


@pytest.mark.parametrize(
    "name", ["HEAD", "packed-refs", "refs", "refs/heads", "refs/heads/main", "objects", "objects/pack"]
)
def test_unreadable_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A file or directory that may not be read is named, and does not count as missing or damaged."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a = 1\n")
    repo.git("pack-refs", "--all")
    repo.commit_file("a.py", "a = 2\n")
    file, access = repo.path / ".git" / name, os.access
    assert find_unreadable_git_file(repo.path / ".git") is None
    monkeypatch.setattr(os, "access", lambda path, mode: path != file and access(path, mode))
    assert find_unreadable_git_file(repo.path / ".git") == file
    with pytest.raises(StorageError, match=f"Permission denied: {file}"):
        open_repository(repo.path)


def test_branch_that_is_packed_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch file that `git gc` deletes during the check does not count as unreadable."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a = 1\n")
    access = os.access

    def pack_first(path: Path, mode: int) -> bool:
        if path.name == "main":
            repo.git("pack-refs", "--all")
        return access(path, mode)

    monkeypatch.setattr(os, "access", pack_first)
    assert find_unreadable_git_file(repo.path / ".git") is None


def test_unreadable_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects that may not be read do not count as missing."""
    repo = Repo.create(tmp_path / "repo")
    sha = repo.commit_file("a.py", "a = 1\n")
    directory, access = repo.path / ".git" / "objects" / sha[:2], os.access
    (directory / sha[2:]).unlink()
    with pytest.raises(UnreadableObject, match="is missing"):
        open_repository(repo.path).read_head()
    monkeypatch.setattr(os, "access", lambda path, mode: path != directory and access(path, mode))
    with pytest.raises(StorageError, match=f"Permission denied: {directory}"):
        open_repository(repo.path).read_head()


def test_missing_alternate(tmp_path: Path) -> None:
    """The error names a missing alternate object directory, even one that only another alternate names."""
    source = Repo.create(tmp_path / "source")
    source.commit_file("a.py", "a = 1\n")
    middle, clone = tmp_path / "middle", tmp_path / "clone"
    source.git("clone", "--quiet", "--shared", str(source.path), str(middle))
    source.git("clone", "--quiet", "--shared", str(middle), str(clone))
    alternates = clone / ".git" / "objects" / "info" / "alternates"
    alternates.write_text(f"# comment\n\n{middle}/.git/objects\n../objects\n")
    check_alternates(alternates.parent.parent)
    source.path.rename(tmp_path / "moved")
    message = f"directory {source.path}/.git/objects, which .* does not exist"
    with pytest.raises(DamagedRepository, match=message):
        open_repository(clone).read_head()


def test_unreadable_pack_index_and_loose_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the index of a pack or a loose object may not be read, the error names this file."""
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "a = 1\n")
    repo.git("repack", "-q")
    objects_dir, access = repo.path / ".git" / "objects", os.access
    (index,) = objects_dir.glob("pack/*.idx")
    loose = next(path for path in objects_dir.glob("??/*"))
    message = f"loose object {loose.name} (stored in {loose}) is corrupt"
    check_objects(objects_dir, message)
    for file in (index, loose):
        monkeypatch.setattr(
            os, "access", lambda path, mode, file=file: str(path) != str(file) and access(path, mode)
        )
        with pytest.raises(StorageError, match=f"Permission denied: {file}"):
            check_objects(objects_dir, message)


@pytest.mark.parametrize("kind", ["pipe", "device", "large file"])
def test_git_entry_that_is_no_link(tmp_path: Path, kind: str) -> None:
    """A `.git` that is a pipe, a device or a large file does not keep other repositories from being found."""
    Repo.create(tmp_path / "good")
    (tmp_path / "bad").mkdir()
    entry = tmp_path / "bad" / ".git"
    if kind == "pipe":
        os.mkfifo(entry)
    elif kind == "device":
        entry.symlink_to("/dev/zero")
    else:
        entry.touch()
        os.truncate(entry, 1 << 40)
    assert find_names(tmp_path) == ["good"]
