"""`lineage init` and the hooks that are there already: what it adds, what it refuses, what it takes out again."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from serve.errors import BadRequest
from serve.setup.file_edit import BrokenFence, FileRefused
from serve.setup.git_hooks import (
    BLOCK,
    HOOKS,
    SHEBANG,
    BareRepository,
    HookRefused,
    OutsideRepository,
    interpreter,
)
from serve.setup.init import Wishes, initialize
from tests.repos import Repo
from tests.serve.setup.hook_helpers import git, soon, stand_in

OURS = SHEBANG + BLOCK + b"\n"
INIT, FORCE, REMOVE = Wishes(), Wishes(force=True), Wishes(remove=True)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "x = 1\n", "First")
    return repo


@pytest.fixture
def hooks(repo: Repo) -> Path:
    return repo.path / ".git" / "hooks"


def hook(hooks: Path, content: bytes, name: str = "post-commit", *, mode: int = 0o755) -> Path:
    file = hooks / name
    file.write_bytes(content)
    file.chmod(mode)
    return file


def test_new_hooks(repo: Repo, hooks: Path) -> None:
    """Where there are none, four hooks are made, from any path inside; again does nothing; --remove leaves none."""
    (repo.path / "src").mkdir()
    before = sorted(hooks.iterdir())
    assert [line.split()[:2] for line in initialize(repo.path / "src", INIT)[:4]] == [
        ["created", f".git/hooks/{name}"] for name in HOOKS
    ]
    assert {(hooks / name).read_bytes() for name in HOOKS} == {OURS}
    stats = [(hooks / name).stat() for name in HOOKS]
    assert all(stat.S_IMODE(made.st_mode) & 0o111 for made in stats)
    assert [line.split()[0] for line in initialize(repo.path, INIT)[:4]] == ["unchanged"] * 4
    assert [(hooks / name).stat() for name in HOOKS] == stats
    assert [line.split()[0] for line in initialize(repo.path, REMOVE)] == ["deleted"] * 4
    assert sorted(hooks.iterdir()) == before
    assert initialize(repo.path, REMOVE) == [f"nothing of lineage's was found in {repo.path}"]


@pytest.mark.parametrize(
    "content",
    [
        b"#!/bin/sh\necho mine\nexit 0\n",
        b"#!/usr/bin/env -S LC_ALL=C bash -eu\nexec true",
        b"#!/bin/sh",
        b"echo no interpreter is named\n",
        b"#!/bin/sh -e\necho some\r\necho ends\r\n",
        b"# \xff bytes that are no text\n",
    ],
)
def test_a_hook_that_is_there(repo: Repo, hooks: Path, tmp_path: Path, content: bytes) -> None:
    """Its own lines and its mode stay, the block runs however it ends, and --remove restores every byte."""
    file = hook(hooks, content, mode=0o750)
    said = stand_in(tmp_path / "bin")
    initialize(repo.path, INIT)
    initialize(repo.path, INIT)
    assert file.read_bytes().count(BLOCK) == 1
    git(repo, "commit", "--quiet", "--allow-empty", "--message=Second", path=said.parent)
    assert soon(said.exists)
    initialize(repo.path, REMOVE)
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (content, 0o750)


def test_an_older_block_is_renewed_where_it_is(repo: Repo, hooks: Path) -> None:
    """What another version wrote between the marks is replaced, wherever a person has put it."""
    old = b"# >>> lineage managed (do not edit) >>>\nolder\n# <<< lineage managed <<<\n"
    file = hook(hooks, b"#!/bin/sh\necho before\n" + old + b"echo after\n")
    initialize(repo.path, INIT)
    assert file.read_bytes() == b"#!/bin/sh\necho before\n" + BLOCK + b"\necho after\n"


@pytest.mark.parametrize(
    ("content", "mode", "says"),
    [
        (b"#!/usr/bin/env python3\nprint()\n", 0o755, "is run by /usr/bin/env python3"),
        (b"#!/usr/bin/perl -w\n", 0o755, "is run by /usr/bin/perl"),
        (b"#!/usr/bin/fish\n", 0o755, "is run by /usr/bin/fish"),
        (b"#!\n", 0o755, "reads no shell block"),
        (b"\x7fELF\0\0", 0o755, "is a program"),
        (b"#!/bin/sh\r\necho\r\n", 0o755, "Windows line ends"),
        (b"#!/bin/sh\necho asleep\n", 0o644, "may not be executed"),
        (BLOCK[:60] + b"\n", 0o755, "has no `# <<< lineage managed <<<`"),
    ],
)
def test_hooks_that_cannot_take_it(repo: Repo, hooks: Path, content: bytes, mode: int, says: str) -> None:
    """The error names the reason and --force or a way by hand; nothing at all is written."""
    file = hook(hooks, content, mode=mode)
    with pytest.raises(HookRefused, match=says) as refused:
        initialize(repo.path, INIT)
    assert refused.value.hint
    assert file.read_bytes() == content
    assert not (hooks / "post-merge").exists()


def test_force_keeps_what_it_replaces(repo: Repo, hooks: Path) -> None:
    """--force puts ours alone in its place; the old one waits beside it, and --remove brings it back as it was."""
    content = b"#!/usr/bin/python3\nprint()\n"
    file = hook(hooks, content, mode=0o700)
    said = initialize(repo.path, FORCE)
    assert said[:2] == [
        "replaced     .git/hooks/post-commit",
        "             what was there is now post-commit.before-lineage; --remove brings it back",
    ]
    assert file.read_bytes() == OURS
    assert initialize(repo.path, FORCE)[0].startswith("unchanged")
    assert initialize(repo.path, REMOVE)[0].startswith("brought back")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (content, 0o700)
    assert not hooks.joinpath("post-commit.before-lineage").exists()


def test_force_never_loses_what_it_kept(repo: Repo, hooks: Path) -> None:
    """What an earlier --force set aside is not overwritten by another."""
    hook(hooks, b"first\n")
    initialize(repo.path, FORCE)
    hook(hooks, b"second\n")
    with pytest.raises(HookRefused, match="from an earlier --force"):
        initialize(repo.path, FORCE)
    assert (hooks / "post-commit.before-lineage").read_bytes() == b"first\n"
    assert (hooks / "post-commit").read_bytes() == b"second\n"


def test_force_replaces_a_broken_block(repo: Repo, hooks: Path) -> None:
    """A hook with half a block lacks the marks: --force replaces it."""
    file = hook(hooks, BLOCK[:60] + b"\n")
    initialize(repo.path, FORCE)
    assert file.read_bytes() == OURS


def test_remove_refuses_half_a_block(repo: Repo, hooks: Path) -> None:
    """Nothing is taken out where nobody can say what is ours."""
    hook(hooks, BLOCK[:60] + b"\nmine\n")
    with pytest.raises(BrokenFence):
        initialize(repo.path, REMOVE)


def test_other_hooks_are_passed_over(repo: Repo, hooks: Path) -> None:
    """A second hook that cannot take the block is named and left; the commit's own is there. --force spares it too."""
    file = hook(hooks, b"#!/usr/bin/ruby\n", "post-merge")
    for wishes in (INIT, FORCE):
        said = initialize(repo.path, wishes)
        assert said[1] == "skipped      .git/hooks/post-merge"
        assert "is run by /usr/bin/ruby" in said[2]
    assert file.read_bytes() == b"#!/usr/bin/ruby\n"
    assert (hooks / "post-commit").read_bytes() == OURS


def test_a_repository_without_a_hooks_folder(repo: Repo, hooks: Path) -> None:
    """A template may have made none: it is made."""
    for file in hooks.iterdir():
        file.unlink()
    hooks.rmdir()
    initialize(repo.path, INIT)
    assert (hooks / "post-commit").read_bytes() == OURS


def test_work_trees_share_their_hooks(repo: Repo, hooks: Path, tmp_path: Path) -> None:
    """From a linked work tree the hooks of all are written; a commit in it runs them there."""
    repo.git("worktree", "add", "--quiet", str(tmp_path / "linked"))
    initialize(tmp_path / "linked", INIT)
    assert (hooks / "post-commit").read_bytes() == OURS
    said = stand_in(tmp_path / "bin")
    linked = Repo(tmp_path / "linked", repo.clock)
    git(linked, "commit", "--quiet", "--allow-empty", "--message=Second", path=said.parent)
    assert soon(said.exists)
    call, *_ = said.read_text().splitlines()
    assert call == f"index|--incremental|--embed-provider|cpu|{linked.path}"


def test_a_hooks_path_in_the_work_tree(repo: Repo, tmp_path: Path) -> None:
    """A relative core.hooksPath is one of the work tree's folders: what that means is said, and it works."""
    repo.git("config", "core.hooksPath", ".githooks")
    lines = initialize(repo.path, INIT)
    assert lines[0] == "created      .githooks/post-commit"
    assert lines[4].startswith("These hooks lie in the work tree")
    said = stand_in(tmp_path / "bin")
    git(repo, "commit", "--quiet", "--allow-empty", "--message=Second", path=said.parent)
    assert soon(said.exists)
    initialize(repo.path, REMOVE)
    assert not list((repo.path / ".githooks").iterdir())


def test_an_absolute_hooks_path_inside(repo: Repo, hooks: Path) -> None:
    """An absolute path into the repository is as good as a relative one."""
    repo.git("config", "core.hooksPath", str(hooks))
    initialize(repo.path, INIT)
    assert (hooks / "post-commit").read_bytes() == OURS


@pytest.mark.parametrize("said", ["{outside}", "~/nowhere", "/dev/null", "", "../outside"])
def test_a_hooks_path_outside(repo: Repo, tmp_path: Path, said: str) -> None:
    """Hooks of many repositories are not touched; the error says why and what to do."""
    outside = tmp_path / "outside"
    outside.mkdir()
    repo.git("config", "core.hooksPath", said.format(outside=outside))
    with pytest.raises(OutsideRepository, match=r"core\.hooksPath is") as refused:
        initialize(repo.path, INIT)
    assert "git config --local core.hooksPath .git/hooks" in refused.value.hint
    assert not list(outside.iterdir())


def test_remove_finds_hooks_under_an_earlier_path(repo: Repo, hooks: Path, tmp_path: Path) -> None:
    """Where core.hooksPath was set after `init`, --remove still finds what git's own folder has."""
    initialize(repo.path, INIT)
    repo.git("config", "core.hooksPath", str(tmp_path))
    initialize(repo.path, REMOVE)
    assert not (hooks / "post-commit").exists()


def test_a_link_to_a_hook_in_the_repository(repo: Repo, hooks: Path) -> None:
    """A hook that is a link into the work tree is written through, stays a link, and is restored."""
    script = repo.write("tools/hook", "#!/bin/sh\necho\n", executable=True)
    (hooks / "post-commit").symlink_to("../../tools/hook")
    said = initialize(repo.path, INIT)
    assert any(line.startswith("These hooks lie in the work tree") for line in said)
    assert (hooks / "post-commit").is_symlink() and BLOCK in script.read_bytes()
    initialize(repo.path, REMOVE)
    assert script.read_text() == "#!/bin/sh\necho\n"


def test_a_link_out_of_the_repository(repo: Repo, hooks: Path, tmp_path: Path) -> None:
    """A link out of the repository is not followed; --force sets the link aside, not what it leads to."""
    shared = tmp_path / "shared"
    shared.write_text("#!/bin/sh\n")
    shared.chmod(0o755)
    (hooks / "post-commit").symlink_to(shared)
    with pytest.raises(HookRefused, match="outside this repository"):
        initialize(repo.path, INIT)
    initialize(repo.path, FORCE)
    assert not (hooks / "post-commit").is_symlink()
    initialize(repo.path, REMOVE)
    assert (hooks / "post-commit").readlink() == shared
    assert shared.read_text() == "#!/bin/sh\n"


def test_a_link_to_nothing(repo: Repo, hooks: Path) -> None:
    """A link to nothing inside is named."""
    (hooks / "post-commit").symlink_to("gone")
    with pytest.raises(HookRefused, match="a link to none"):
        initialize(repo.path, INIT)


def test_a_bare_repository(tmp_path: Path) -> None:
    """Nobody commits in a bare repository: the error says what to do instead; there is nothing to remove."""
    bare = Repo.create(tmp_path / "bare.git", bare=True)
    with pytest.raises(BareRepository, match="bare repository") as refused:
        initialize(bare.path, INIT)
    assert "lineage index --incremental" in refused.value.hint
    assert initialize(bare.path, REMOVE) == [f"nothing of lineage's was found in {bare.path}"]


def test_what_the_system_refuses(repo: Repo, hooks: Path) -> None:
    """The system's refusal is told with the file it concerns."""
    hooks.rename(hooks.with_name("old"))
    hooks.write_text("no folder")
    with pytest.raises(FileRefused, match="post-commit stays as it is: file exists"):
        initialize(repo.path, INIT)


def test_remove_stands_alone(repo: Repo) -> None:
    """--remove beside a flag that puts something in is a contradiction."""
    with pytest.raises(BadRequest, match="takes everything out"):
        initialize(repo.path, Wishes(remove=True, force=True))


@pytest.mark.parametrize(
    ("first", "program"),
    [
        (b"#!/bin/sh", "sh"),
        (b"#! /usr/bin/env  bash", "bash"),
        (b"#!/usr/bin/env -S A=b bash -x", "bash"),
        (b"#!/usr/bin/env", ""),
        (b"#!", ""),
        (b"#!/nix/store/1-bash/bin/bash", "bash"),
    ],
)
def test_interpreters(first: bytes, program: str) -> None:
    """What runs a script stands in its first line."""
    assert interpreter(first) == program
