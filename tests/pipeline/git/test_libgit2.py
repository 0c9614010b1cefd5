"""Which repository a path leads to, wherever its git directory and its work tree lie; and which are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.git.errors import DamagedRepository, NotARepository, UnsupportedRepository, refusal
from pipeline.git.repository import open_repository
from pipeline.ignore import IgnoreRules
from stores.errors import LineageError
from tests.pipeline.histories import index
from tests.repos import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo.create(tmp_path / "work")
    made.commit_file("a.py", "a = 1\n", "First")
    made.commit_file("src/b.py", "b = 1\n", "Second")
    return made


def test_any_folder_or_file_inside_opens_the_repository(repo: Repo) -> None:
    """A work tree, a folder or a file in it, and its git directory all open the same repository."""
    for place in (repo.path, repo.path / "src", repo.path / "src/b.py", repo.path / ".git"):
        opened = open_repository(place)
        assert (opened.root, opened.head()) == (repo.path.resolve(), repo.head)


@pytest.mark.parametrize(
    ("name", "lacking"),
    [
        ("empty", "is not in a git repository"),
        ("nowhere", "does not exist"),
        ("file", "is not in a git repository"),
    ],
)
def test_a_folder_without_a_repository_is_refused(tmp_path: Path, name: str, lacking: str) -> None:
    """Outside a repository the error names the path and what to do."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(NotARepository, match=f"{tmp_path / name} {lacking}"):
        open_repository(tmp_path / name)


def test_a_work_tree_whose_repository_has_moved(repo: Repo, tmp_path: Path) -> None:
    """The error says where it is looked for, and what mends the link."""
    repo.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "side"))
    repo.path.rename(tmp_path / "moved")
    with pytest.raises(
        NotARepository, match=f"side/.git says that the repository is at {repo.path}/.git"
    ) as refused:
        open_repository(tmp_path / "side")
    assert "git worktree repair" in str(refused.value.hint)
    Repo(tmp_path / "moved", repo.clock).git("worktree", "repair", str(tmp_path / "side"))
    assert open_repository(tmp_path / "side").head()


def test_a_path_that_is_not_there_is_refused(repo: Repo) -> None:
    """A mistyped path inside a repository does not stand for the repository around it."""
    for name in ("nonexistent", "src/nonexistent.py", "a.py/below"):
        with pytest.raises(NotARepository, match=f"{name} does not exist"):
            open_repository(repo.path / name)


def test_a_sha256_repository_is_refused_in_words(tmp_path: Path) -> None:
    """A repository with SHA-256 objects is refused by name, not with a library's message."""
    made = Repo.create(tmp_path / "long", object_format="sha256")
    made.commit_file("a", "a\n")
    with pytest.raises(UnsupportedRepository, match="SHA-256 repository"):
        open_repository(made.path)


def test_an_unknown_extension_is_refused(repo: Repo) -> None:
    """A repository format from the future is refused, naming its extension."""
    repo.git("config", "core.repositoryformatversion", "1")
    repo.git("config", "extensions.tomorrow", "true")
    with pytest.raises(UnsupportedRepository, match=r"extensions\.tomorrow"):
        open_repository(repo.path)


def test_a_broken_config_is_refused(repo: Repo) -> None:
    """A git directory that cannot be read at all is called damaged."""
    (repo.path / ".git/config").write_text("[core\n")
    with pytest.raises(DamagedRepository, match="cannot be opened"):
        open_repository(repo.path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to another user")
def test_somebody_elses_repository_needs_safe_directory(repo: Repo, tmp_path: Path) -> None:
    """A foreign repository is refused with a command for trusting it, after which it opens, whatever git reads."""
    for place in (repo.path, *repo.path.rglob("*")):
        os.lchown(place, 12345, 12345)
    program = (
        "import sys, pathlib; from pipeline.git.repository import open_repository\n"
        "try: print(open_repository(pathlib.Path(sys.argv[1])).head())\n"
        "except Exception as error: print(type(error).__name__, error, error.hint, sep='\\n')\n"
    )
    elsewhere = {"GIT_CONFIG_GLOBAL": str(tmp_path / "elsewhere")}
    environment = os.environ | elsewhere | {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}

    def said(*command: str) -> str:
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    kind, *_, hint = said(sys.executable, "-c", program, str(repo.path)).splitlines()
    assert kind == "UnsafeRepository"
    said("sh", "-c", hint.removeprefix("if you do: "))
    assert len(said(sys.executable, "-c", program, str(repo.path)).strip()) == 40


def test_refusals_say_what_to_do() -> None:
    """libgit2's words for another owner become a command for a shell."""
    error = refusal(Path("/r"), "/r: repository path '/my r/' is not owned by current user")
    assert isinstance(error, LineageError)
    assert error.hint.endswith("git config --file ~/.gitconfig --add safe.directory '/my r'")


def test_a_bare_repository_may_leave_it_unsaid(repo: Repo, tmp_path: Path) -> None:
    """Without a configuration git goes by the folder's name, and so do we."""
    bare = repo.clone(tmp_path / "mirror" / "repo", "--bare")
    (bare.path / "config").unlink()
    opened = open_repository(bare.path)
    assert (opened.root, opened.canonical, opened.is_bare) == (bare.path, bare.path, True)


@pytest.mark.parametrize("inside", [False, True])
def test_a_git_directory_that_lies_elsewhere(repo: Repo, tmp_path: Path, home: Path, inside: bool) -> None:
    """Its work tree is the one that leads to it, not what lies around it; by itself it is as a bare one."""
    around = repo.path if inside else tmp_path
    made = tmp_path / "apart"
    repo.git("clone", "--quiet", f"--separate-git-dir={around / 'apart.git'}", repo.path.as_uri(), str(made))
    work = Repo(made, repo.clock)
    work.commit_file(".lineageignore", "b.py\n")
    (made / "deep").mkdir()
    for start in (made, made / "deep"):
        opened = open_repository(start)
        assert (opened.root, opened.is_bare, opened.head()) == (made, False, work.head)
        assert opened.git_dir == around / "apart.git"
        opened.let_go()
        assert (opened.head(), IgnoreRules.of(opened).ignored("b.py")) == (work.head, True)
    assert index(work, home).unreadable == ()
    alone = open_repository(around / "apart.git")
    assert (alone.root, alone.is_bare, alone.head()) == (around / "apart.git", True, work.head)
    assert IgnoreRules.of(alone).ignored("b.py")


@pytest.mark.parametrize("nested", [False, True])
def test_a_work_tree_that_is_named(repo: Repo, tmp_path: Path, home: Path, nested: bool) -> None:
    """As `core.worktree` names it: nothing there need know, and it may be another repository's too."""
    work = Repo.create(tmp_path / "named").path if nested else tmp_path / "named"
    work.mkdir(exist_ok=True)
    (work / ".lineageignore").write_text("b.py\n")
    bare = repo.clone(tmp_path / "dots.git", "--bare")
    bare.git("config", "core.bare", "false")
    bare.git("config", "core.worktree", str(work))
    opened = open_repository(bare.path)
    assert (opened.root, opened.is_bare, opened.head()) == (work, False, repo.head)
    assert IgnoreRules.of(opened).ignored("b.py")
    opened.let_go()
    assert opened.head() == repo.head
    done = index(bare, home)
    assert (done.commits, done.unreadable) == (1, ())  # the other one changed nothing but b.py


def test_worktrees_share_one_canonical_path(repo: Repo, tmp_path: Path) -> None:
    """A linked work tree has its own root and HEAD; the canonical path is the main repository's."""
    repo.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    side = Repo(tmp_path / "side", repo.clock)
    there = side.commit_file("c.py", "c\n")
    opened = open_repository(side.path)
    assert (opened.root, opened.canonical) == (side.path.resolve(), repo.path.resolve())
    assert (opened.head(), open_repository(repo.path).head()) == (there, repo.head)


def test_a_bare_repository_and_its_worktree_share_one_canonical_path(repo: Repo, tmp_path: Path) -> None:
    """Where the main repository is bare, it is the canonical path itself."""
    bare = repo.clone(tmp_path / "bare.git", "--bare")
    bare.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "side"))
    assert open_repository(tmp_path / "side").canonical == bare.path.resolve()
