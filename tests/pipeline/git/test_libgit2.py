"""Opening of the repository that contains a path, and errors for paths and repositories that cannot be opened."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from pipeline.git.errors import (
    DamagedRepository,
    NotARepository,
    UnreadableObject,
    UnsupportedRepository,
    build_open_error,
)
from pipeline.git.repository import open_repository
from pipeline.ignore import IgnoreRules
from stores.errors import LineageError, to_lineage_error
from tests.pipeline.histories import run_index
from tests.repos import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "work")
    repo.commit_file("a.py", "a = 1\n", "First")
    repo.commit_file("src/b.py", "b = 1\n", "Second")
    return repo


def test_any_path_inside_opens_the_repository(repo: Repo) -> None:
    """A work tree, a directory or file in it, and its git directory all open the same repository."""
    for path in (repo.path, repo.path / "src", repo.path / "src/b.py", repo.path / ".git"):
        opened = open_repository(path)
        assert (opened.root, opened.read_head()) == (repo.path.resolve(), repo.head)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("empty", "is not in a git repository"),
        ("nowhere", "does not exist"),
        ("file", "is not in a git repository"),
    ],
)
def test_a_path_outside_a_repository_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    """For a path outside a repository the error names the path and the reason."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(NotARepository, match=f"{tmp_path / name} {reason}"):
        open_repository(tmp_path / name)


def test_a_work_tree_whose_repository_has_moved(repo: Repo, tmp_path: Path) -> None:
    """The error names the missing target of the work tree's link, and a command after which the work tree opens."""
    repo.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "side"))
    repo.path.rename(tmp_path / "moved")
    with pytest.raises(NotARepository, match=f"side/.git points to {repo.path}/.git") as error_info:
        open_repository(tmp_path / "side")
    assert "git worktree repair" in str(error_info.value.hint)
    Repo(tmp_path / "moved", repo.clock).git("worktree", "repair", str(tmp_path / "side"))
    assert open_repository(tmp_path / "side").read_head()


def test_a_moved_repository_below_modules(tmp_path: Path) -> None:
    """A linked work tree gets the hint for work trees, also below a directory `modules` and for a submodule."""
    for target in ("modules/repo/.git/worktrees/side", "repo/.git/modules/library/worktrees/side"):
        (tmp_path / ".git").write_text(f"gitdir: {tmp_path}/{target}\n")
        with pytest.raises(NotARepository) as error_info:
            open_repository(tmp_path)
        assert "git worktree repair" in str(error_info.value.hint)


def test_a_submodule_without_its_repository(repo: Repo, tmp_path: Path) -> None:
    """The error names the command that clones the repository of the submodule."""
    library = Repo.create(tmp_path / "library")
    library.commit_file("a.py", "a = 1\n", "Add it")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.path), "library")
    shutil.rmtree(repo.path / ".git" / "modules")
    with pytest.raises(
        NotARepository, match=r"library/\.git points to \.\./\.git/modules/library"
    ) as error_info:
        open_repository(repo.path / "library")
    assert "Move this directory away. Then run `git submodule update --init`" in str(error_info.value.hint)
    (repo.path / "library").rename(tmp_path / "moved")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
    assert open_repository(repo.path / "library").read_head()


@pytest.mark.parametrize("target", [".git/worktrees/side/modules/a", ".git/modules/a/modules/b"])
def test_submodules_of_work_trees_and_submodules(tmp_path: Path, target: str) -> None:
    """A submodule of a linked work tree or of another submodule gets the hint for submodules."""
    (tmp_path / ".git").write_text(f"gitdir: ../{target}\n")
    with pytest.raises(NotARepository) as error_info:
        open_repository(tmp_path)
    assert "git submodule update --init" in str(error_info.value.hint)


def test_a_missing_path_is_refused(repo: Repo) -> None:
    """A path that does not exist is refused, even inside a repository."""
    for name in ("nonexistent", "src/nonexistent.py", "a.py/below"):
        with pytest.raises(NotARepository, match=f"{name} does not exist"):
            open_repository(repo.path / name)


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("info/grafts", "# a comment", "invalid graft OID"),
        ("info/grafts", f"{'1' * 40} # why", "invalid parent OID"),
        ("shallow", "# a comment", "invalid graft OID"),
    ],
)
def test_comments_in_a_file_of_grafts(repo: Repo, name: str, line: str, message: str) -> None:
    """A line that libgit2 cannot read in one of these files is an error that names the file."""
    repo.write(f".git/{name}", f"{line}\n")
    with pytest.raises(DamagedRepository, match=f"cannot be opened: {message} at line 1") as error_info:
        open_repository(repo.path)
    assert name in str(error_info.value.hint)


def test_a_sha256_repository_is_refused(tmp_path: Path) -> None:
    """A SHA-256 repository is refused, with an error that names the format."""
    repo = Repo.create(tmp_path / "sha256", object_format="sha256")
    repo.commit_file("a", "a\n")
    with pytest.raises(UnsupportedRepository, match="SHA-256 repository"):
        open_repository(repo.path)


def test_an_unknown_extension_is_refused(repo: Repo) -> None:
    """An unknown repository format is refused with the name of its extension."""
    repo.git("config", "core.repositoryformatversion", "1")
    repo.git("config", "extensions.tomorrow", "true")
    with pytest.raises(UnsupportedRepository, match=r"extensions\.tomorrow\n.*made with `git clone`"):
        open_repository(repo.path)
    repo.git("config", "--file", ".git/config", "--rename-section", "extensions", "other")
    repo.git("config", "extensions.refStorage", "reftable")
    with pytest.raises(UnsupportedRepository, match=r"git 2\.45 or newer and `git clone --ref-format=files`"):
        open_repository(repo.path)


@pytest.mark.parametrize("content", ["[core\n", "[core]\n\tbare = bogus\n"])
def test_a_broken_config_is_refused(repo: Repo, content: str) -> None:
    """A git directory that cannot be opened is reported as damaged, with a command that names the setting."""
    (repo.path / ".git/config").write_text(content)
    with pytest.raises(DamagedRepository, match=r"cannot be opened: .*\n.*`git config --list`"):
        open_repository(repo.path)


def test_a_config_that_includes_itself(repo: Repo) -> None:
    """The error gives the reason, and a command whose output names the file."""
    (repo.path / ".git/config").write_text("[include]\n\tpath = config\n")
    with pytest.raises(DamagedRepository) as error:
        open_repository(repo.path)
    assert error.value.message == f"{repo.path} cannot be opened: maximum config include depth reached"
    assert error.value.hint == "Run `git config --list` to see what is damaged."


@pytest.mark.parametrize("name", [".gitconfig", "git/config", "git/attributes", "git/ignore"])
def test_pipe_in_place_of_a_user_file(repo: Repo, tmp_path: Path, name: str) -> None:
    """A pipe in place of a file of the user that git reads without a setting is named, and nothing waits for it."""
    (tmp_path / "git").mkdir()
    os.mkfifo(tmp_path / name)
    program = (
        "import sys, pathlib\nfrom tests.mindmap.workspaces import open_git\n"
        "open_git(pathlib.Path(sys.argv[1])).run('blame', 'a.py')"
    )
    process = subprocess.run(
        [sys.executable, "-c", program, str(repo.path)],
        env=os.environ | {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=30,
    )
    assert f"DamagedRepository: {tmp_path / name} is no regular file" in process.stderr


@pytest.mark.parametrize("is_damaged", [False, True])
def test_repacked_objects(tmp_path: Path, is_damaged: bool) -> None:
    """Objects are read after `git gc` deleted packs of a multi-pack-index. Those of a damaged pack are unreadable."""
    repo = Repo.create(tmp_path / "repo")
    shas = []
    for number in range(2):
        shas.append(repo.commit_file("a.py", f"a = {number}\n"))
        repo.git("repack", "-d", "-q")
    # libgit2 shares packs between repositories. This search opens their indexes, but not the packs.
    first = open_repository(repo.path)
    assert not first.contains("1" * 40)
    repo.git("multi-pack-index", "write")
    second = open_repository(repo.path)
    if is_damaged:
        for pack in repo.path.glob(".git/objects/pack/*.pack"):
            pack.chmod(0o600)
            pack.write_bytes(b"damaged")
        with pytest.raises(UnreadableObject, match="invalid packfile"):
            second.read_commit(shas[0])
    else:
        repo.git("gc", "--quiet", "--prune=now")
        assert [second.read_commit(sha).sha for sha in shas] == shas


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to another user")
def test_another_users_repository_needs_safe_directory(repo: Repo, tmp_path: Path) -> None:
    """Another user's repository is refused. After the command in the hint it opens, even with GIT_CONFIG_GLOBAL set."""
    for path in (repo.path, *repo.path.rglob("*")):
        os.lchown(path, 12345, 12345)
    program = (
        "import sys, pathlib; from pipeline.git.repository import open_repository\n"
        "try: print(open_repository(pathlib.Path(sys.argv[1])).read_head())\n"
        "except Exception as error: print(type(error).__name__, error, error.hint, sep='\\n')\n"
    )
    other_config = {"GIT_CONFIG_GLOBAL": str(tmp_path / "other")}
    environment = os.environ | other_config | {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}

    def run(*command: str) -> str:
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    error_type, *_, hint = run(sys.executable, "-c", program, str(repo.path)).splitlines()
    assert error_type == "UnsafeRepository"
    run("sh", "-c", hint.removeprefix("If you trust it: "))
    assert len(run(sys.executable, "-c", program, str(repo.path)).strip()) == 40


def test_the_hint_for_an_unsafe_repository_is_quoted() -> None:
    """The hint ends with a shell command in which the path is quoted."""
    error = build_open_error(Path("/r"), "/r: repository path '/my r/' is not owned by current user")
    assert isinstance(error, LineageError)
    assert error.hint.endswith("git config --file ~/.gitconfig --add safe.directory '/my r'")


def test_a_bare_repository_without_configuration(repo: Repo, tmp_path: Path) -> None:
    """As in git, a repository without a configuration file is bare unless its directory is called `.git`."""
    bare = repo.clone(tmp_path / "mirror" / "repo", "--bare")
    (bare.path / "config").unlink()
    opened = open_repository(bare.path)
    assert (opened.root, opened.canonical_path, opened.is_bare) == (bare.path, bare.path, True)


@pytest.mark.parametrize("is_inside_work_tree", [False, True])
def test_a_separate_git_directory(repo: Repo, tmp_path: Path, home: Path, is_inside_work_tree: bool) -> None:
    """The work tree of a separate git directory is the one that links to it. Opened directly, the directory is bare."""
    parent = repo.path if is_inside_work_tree else tmp_path
    work_tree = tmp_path / "work_tree"
    repo.git(
        "clone",
        "--quiet",
        f"--separate-git-dir={parent / 'separate.git'}",
        repo.path.as_uri(),
        str(work_tree),
    )
    work = Repo(work_tree, repo.clock)
    work.commit_file(".lineageignore", "b.py\n")
    (work_tree / "deep").mkdir()
    for start in (work_tree, work_tree / "deep"):
        opened = open_repository(start)
        assert (opened.root, opened.is_bare, opened.read_head()) == (work_tree, False, work.head)
        assert opened.git_dir == parent / "separate.git"
        opened.release_memory()
        assert (opened.read_head(), IgnoreRules.from_repository(opened).is_ignored("b.py")) == (
            work.head,
            True,
        )
    assert run_index(work, home).unreadable_commits == ()
    bare = open_repository(parent / "separate.git")
    assert (bare.root, bare.is_bare, bare.read_head()) == (parent / "separate.git", True, work.head)
    assert IgnoreRules.from_repository(bare).is_ignored("b.py")


@pytest.mark.parametrize("is_work_tree_shared", [False, True])
def test_a_work_tree_named_by_core_worktree(
    repo: Repo, tmp_path: Path, home: Path, is_work_tree_shared: bool
) -> None:
    """The work tree is the one that `core.worktree` names, even if it belongs to another repository too."""
    work = Repo.create(tmp_path / "named").path if is_work_tree_shared else tmp_path / "named"
    work.mkdir(exist_ok=True)
    (work / ".lineageignore").write_text("b.py\n")
    bare = repo.clone(tmp_path / "dots.git", "--bare")
    bare.git("config", "core.bare", "false")
    bare.git("config", "core.worktree", str(work))
    opened = open_repository(bare.path)
    assert (opened.root, opened.is_bare, opened.read_head()) == (work, False, repo.head)
    assert IgnoreRules.from_repository(opened).is_ignored("b.py")
    opened.release_memory()
    assert opened.read_head() == repo.head
    summary = run_index(bare, home)
    assert (summary.commits, summary.unreadable_commits) == (1, ())  # the other commit changed only b.py


@pytest.mark.parametrize("value", ["/dev/null", "../a.py", "../missing", "{repo}/a.py", "{repo}/missing"])
def test_core_worktree_names_no_directory(repo: Repo, value: str) -> None:
    """The error names the setting and its value, and the command of the hint removes it in the git directory."""
    value = value.format(repo=repo.path)
    (repo.path / ".git/config").write_text(f"[core]\n\tbare = false\n\tworktree = {value}\n")
    with pytest.raises(DamagedRepository, match=re.escape(f" names '{value}', which is")) as error_info:
        open_repository(repo.path)
    command = str(error_info.value.hint).split("`")[1]
    subprocess.run(command, shell=True, check=True, cwd=repo.path / ".git")  # noqa: S602 - it is for a shell
    assert open_repository(repo.path).root == repo.path


def test_core_worktree_becomes_unusable(repo: Repo) -> None:
    """A repository that was open when `core.worktree` became unusable reports this when it is opened again."""
    opened = open_repository(repo.path)
    repo.git("config", "core.worktree", "../a.py")
    with pytest.raises(DamagedRepository, match=r"core\.worktree"):
        opened.release_memory()


def test_worktrees_share_one_canonical_path(repo: Repo, tmp_path: Path) -> None:
    """A linked work tree has its own root and HEAD, and the canonical path of the main repository."""
    repo.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    side = Repo(tmp_path / "side", repo.clock)
    side_head = side.commit_file("c.py", "c\n")
    opened = open_repository(side.path)
    assert (opened.root, opened.canonical_path) == (side.path.resolve(), repo.path.resolve())
    assert (opened.read_head(), open_repository(repo.path).read_head()) == (side_head, repo.head)


def test_a_bare_repository_and_its_worktree_share_one_canonical_path(repo: Repo, tmp_path: Path) -> None:
    """If the main repository is bare, the canonical path is the repository itself."""
    bare = repo.clone(tmp_path / "bare.git", "--bare")
    bare.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "side"))
    assert open_repository(tmp_path / "side").canonical_path == bare.path.resolve()


@contextmanager
def use_all_descriptors() -> Iterator[None]:
    """Open files up to a low limit, so that the process can open no other one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        with suppress(OSError):
            while True:
                stack.callback(os.close, os.dup(0))
        yield


def test_head_without_a_commit(tmp_path: Path) -> None:
    """The error names the missing branch, and a command that leads to an existing one."""
    source = Repo.create(tmp_path / "source")
    assert "has no commits yet" in open_repository(source.path).build_head_error().message
    source.commit_file("a.py", "a = 1\n")
    server = Repo.create(tmp_path / "server.git", bare=True)
    server.git("symbolic-ref", "HEAD", "refs/heads/trunk")
    source.git("push", str(server.path), "main")
    source.git("clone", str(server.path), str(tmp_path / "clone"))
    error = open_repository(server.path).build_head_error()
    assert error.message == f"HEAD of {server.path} names the branch 'trunk', which does not exist."
    assert error.hint == "Run `git symbolic-ref HEAD refs/heads/main`, then `lineage index`."
    error = open_repository(tmp_path / "clone").build_head_error()
    assert error.hint == "Run `git switch main`, or commit something, then `lineage index`."
    source.git("push", str(server.path), "main:topic")
    hint = open_repository(server.path).build_head_error().hint
    assert "`git symbolic-ref HEAD refs/heads/NAME` with the name of a branch" in hint


def test_too_many_open_files(tmp_path: Path) -> None:
    """Without a free file descriptor, errors name the limit of open files, and not damage of the repository."""
    repo = Repo.create(tmp_path / "repo")
    sha = repo.commit_file("a.py", "a = 1\n")
    repository = open_repository(repo.path)
    found = []
    for read in (
        lambda: open_repository(repo.path),
        repository.read_head,
        partial(repository.read_commit, sha),
    ):
        with use_all_descriptors():
            try:
                read()
            except Exception as error:
                found.append(str(to_lineage_error(error)))
    found.append(str(UnreadableObject("the history", "fatal: could not open pack: Too many open files")))
    assert len(found) == 4
    for message in found:
        assert "Too many open files" in message and "`ulimit -n`" in message and "fsck" not in message
