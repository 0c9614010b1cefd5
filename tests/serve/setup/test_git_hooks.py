"""`lineage init` with existing hooks: insertion, errors, backups, removal."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from serve.errors import BadRequest
from serve.setup.file_edit import FileAccessError
from serve.setup.git_hooks import (
    HOOK_NAMES,
    HOOK_SNIPPET,
    SHEBANG,
    BareRepository,
    OutsideRepository,
    UnsupportedHook,
    parse_interpreter,
)
from serve.setup.init import InitOptions, initialize
from tests.repos import Repo
from tests.serve.setup.hook_helpers import install_fake_lineage, run_git, wait_until

LINEAGE_HOOK = SHEBANG + HOOK_SNIPPET + b"\n"
INIT, FORCE, REMOVE = InitOptions(), InitOptions(force=True), InitOptions(remove=True)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("a.py", "x = 1\n", "First")
    return repo


@pytest.fixture
def hooks(repo: Repo) -> Path:
    return repo.path / ".git" / "hooks"


def write_hook(hooks: Path, content: bytes, name: str = "post-commit", *, mode: int = 0o755) -> Path:
    file = hooks / name
    file.write_bytes(content)
    file.chmod(mode)
    return file


def test_hooks_are_created_and_deleted(repo: Repo, hooks: Path) -> None:
    """`init` creates four hooks, from any directory of the repository, and only once. --remove deletes them."""
    (repo.path / "src").mkdir()
    before = sorted(hooks.iterdir())
    assert [line.split()[:2] for line in initialize(repo.path / "src", INIT)[:4]] == [
        ["created", f".git/hooks/{name}"] for name in HOOK_NAMES
    ]
    assert {(hooks / name).read_bytes() for name in HOOK_NAMES} == {LINEAGE_HOOK}
    stats = [(hooks / name).stat() for name in HOOK_NAMES]
    assert all(stat.S_IMODE(status.st_mode) & 0o111 for status in stats)
    assert [line.split()[0] for line in initialize(repo.path, INIT)[:4]] == ["unchanged"] * 4
    assert [(hooks / name).stat() for name in HOOK_NAMES] == stats
    assert [line.split()[0] for line in initialize(repo.path, REMOVE)] == ["deleted"] * 4
    assert sorted(hooks.iterdir()) == before
    assert initialize(repo.path, REMOVE) == [f"nothing to remove in {repo.path}"]


@pytest.mark.parametrize(
    "content",
    [
        b"#!/bin/sh\necho mine\nexit 0\n",
        b"#!/usr/bin/env -S LC_ALL=C bash -eu\nexec true",
        b"echo no interpreter is named\n",
        b"#!/bin/sh -e\necho some\r\necho ends\r\n",
        b"# \xff bytes that are no text\n",
    ],
)
def test_existing_hook_keeps_its_content(repo: Repo, hooks: Path, tmp_path: Path, content: bytes) -> None:
    """A hook keeps its lines and mode. The snippet runs even if the hook exits early. --remove restores the hook."""
    file = write_hook(hooks, content, mode=0o750)
    call_file = install_fake_lineage(tmp_path / "bin")
    initialize(repo.path, INIT)
    initialize(repo.path, INIT)
    assert file.read_bytes().count(HOOK_SNIPPET) == 1
    run_git(repo, "commit", "--quiet", "--allow-empty", "--message=Second", path=call_file.parent)
    assert wait_until(call_file.exists)
    initialize(repo.path, REMOVE)
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (content, 0o750)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"#!/bin/sh\n", b"#!/bin/bash", b"#!/bin/sh\n\n", b"#!/bin/sh", b"# a"]
)
def test_hook_without_commands_is_restored(repo: Repo, hooks: Path, content: bytes) -> None:
    """--remove restores a hook that had no commands, even if it was only `#!/bin/sh`, instead of deleting it."""
    file = write_hook(hooks, content)
    assert initialize(repo.path, INIT)[0].startswith("added")
    assert initialize(repo.path, INIT)[0].startswith("unchanged")
    assert HOOK_SNIPPET in file.read_bytes()
    assert initialize(repo.path, REMOVE)[0].startswith("removed")
    assert file.read_bytes() == content


def test_older_snippet_is_updated_in_place(repo: Repo, hooks: Path) -> None:
    """The snippet of another version is replaced, wherever it is in the hook."""
    old = b"# >>> lineage managed (do not edit) >>>\nolder\n# <<< lineage managed <<<\n"
    file = write_hook(hooks, b"#!/bin/sh\necho before\n" + old + b"echo after\n")
    initialize(repo.path, INIT)
    assert file.read_bytes() == b"#!/bin/sh\necho before\n" + HOOK_SNIPPET + b"\necho after\n"


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        (b"#!/usr/bin/env python3\nprint()\n", 0o755, "is run by /usr/bin/env python3"),
        (b"#!/usr/bin/perl -w\n", 0o755, "is run by /usr/bin/perl"),
        (b"#!/usr/bin/fish\n", 0o755, "is run by /usr/bin/fish"),
        (b"#!\n", 0o755, "not by a POSIX shell"),
        (b"\x7fELF\0\0", 0o755, "is a binary program"),
        (b"#!/bin/sh\r\necho\r\n", 0o755, "Windows line endings"),
        (b"#!/bin/sh\necho asleep\n", 0o644, "is not executable"),
        (HOOK_SNIPPET[:60] + b"\n", 0o755, "is not followed by `# <<< lineage managed <<<`"),
    ],
)
def test_unsupported_hook_is_an_error(
    repo: Repo, hooks: Path, content: bytes, mode: int, message: str
) -> None:
    """A hook into which the snippet cannot be inserted is an error with the reason and a hint. Nothing is written."""
    file = write_hook(hooks, content, mode=mode)
    with pytest.raises(UnsupportedHook, match=message) as error:
        initialize(repo.path, INIT)
    assert error.value.hint
    assert file.read_bytes() == content
    assert not (hooks / "post-merge").exists()


def test_force_backs_up_the_replaced_hook(repo: Repo, hooks: Path) -> None:
    """--force replaces the hook and keeps a backup, which --remove restores."""
    content = b"#!/usr/bin/python3\nprint()\n"
    file = write_hook(hooks, content, mode=0o700)
    lines = initialize(repo.path, FORCE)
    assert lines[:2] == [
        "replaced     .git/hooks/post-commit",
        "             the old hook is now post-commit.before-lineage; --remove restores it",
    ]
    assert file.read_bytes() == LINEAGE_HOOK
    assert initialize(repo.path, FORCE)[0].startswith("unchanged")
    assert initialize(repo.path, REMOVE)[0].startswith("restored")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (content, 0o700)
    assert not hooks.joinpath("post-commit.before-lineage").exists()


def test_force_does_not_overwrite_a_backup(repo: Repo, hooks: Path) -> None:
    """The backup of an earlier --force is not overwritten."""
    write_hook(hooks, b"first\n")
    initialize(repo.path, FORCE)
    write_hook(hooks, b"second\n")
    with pytest.raises(UnsupportedHook, match="from an earlier --force"):
        initialize(repo.path, FORCE)
    assert (hooks / "post-commit.before-lineage").read_bytes() == b"first\n"
    assert (hooks / "post-commit").read_bytes() == b"second\n"


def test_force_does_not_replace_a_directory(repo: Repo, hooks: Path) -> None:
    """A directory in place of a hook is an error with --force, too."""
    (hooks / "post-commit").mkdir()
    with pytest.raises(UnsupportedHook, match="is not a regular file"):
        initialize(repo.path, FORCE)
    assert (hooks / "post-commit").is_dir()


def test_force_replaces_a_broken_snippet(repo: Repo, hooks: Path) -> None:
    """--force replaces a hook whose snippet has no end marker."""
    file = write_hook(hooks, HOOK_SNIPPET[:60] + b"\n")
    initialize(repo.path, FORCE)
    assert file.read_bytes() == LINEAGE_HOOK


def test_remove_fails_without_end_marker(repo: Repo, hooks: Path) -> None:
    """--remove changes nothing if the end marker is missing, and names the hook."""
    initialize(repo.path, INIT)
    file = write_hook(hooks, HOOK_SNIPPET[:60] + b"\nmine\n", "post-merge")
    with pytest.raises(UnsupportedHook, match=rf"^{file}: The line .* is not followed by"):
        initialize(repo.path, REMOVE)
    assert (hooks / "post-commit").read_bytes() == LINEAGE_HOOK


def test_other_unsupported_hooks_are_skipped(repo: Repo, hooks: Path) -> None:
    """An unsupported hook is reported and skipped, even with --force, unless it is post-commit."""
    file = write_hook(hooks, b"#!/usr/bin/ruby\n", "post-merge")
    for options in (INIT, FORCE):
        lines = initialize(repo.path, options)
        assert lines[1] == "skipped      .git/hooks/post-merge"
        assert "is run by /usr/bin/ruby" in lines[2]
    assert file.read_bytes() == b"#!/usr/bin/ruby\n"
    assert (hooks / "post-commit").read_bytes() == LINEAGE_HOOK


def test_missing_hooks_directory_is_created(repo: Repo, hooks: Path) -> None:
    """The hooks directory is created if the repository has none."""
    for file in hooks.iterdir():
        file.unlink()
    hooks.rmdir()
    initialize(repo.path, INIT)
    assert (hooks / "post-commit").read_bytes() == LINEAGE_HOOK


def test_work_trees_share_hooks(repo: Repo, hooks: Path, tmp_path: Path) -> None:
    """`init` in a linked work tree writes the shared hooks; a commit there runs them."""
    repo.git("worktree", "add", "--quiet", str(tmp_path / "linked"))
    initialize(tmp_path / "linked", INIT)
    assert (hooks / "post-commit").read_bytes() == LINEAGE_HOOK
    call_file = install_fake_lineage(tmp_path / "bin")
    linked = Repo(tmp_path / "linked", repo.clock)
    run_git(linked, "commit", "--quiet", "--allow-empty", "--message=Second", path=call_file.parent)
    assert wait_until(call_file.exists)
    call, *_ = call_file.read_text().splitlines()
    assert call == f"index|--incremental|--embed-provider|cpu|{linked.path}"


def test_relative_hooks_path_in_work_tree(repo: Repo, tmp_path: Path) -> None:
    """Hooks in the work tree work, and `init` warns that they can be committed."""
    repo.git("config", "core.hooksPath", ".githooks")
    lines = initialize(repo.path, INIT)
    assert lines[0] == "created      .githooks/post-commit"
    assert lines[4].startswith("These hooks are in the work tree")
    call_file = install_fake_lineage(tmp_path / "bin")
    run_git(repo, "commit", "--quiet", "--allow-empty", "--message=Second", path=call_file.parent)
    assert wait_until(call_file.exists)
    initialize(repo.path, REMOVE)
    assert not (repo.path / ".githooks").exists()


@pytest.mark.parametrize(
    ("configured_path", "kept_directory"),
    [
        ("sub/deep/hooks", ""),
        ("{root}/sub/deep/hooks", ""),
        ("sub/../hooks", "sub"),
        ("used/deep/hooks", "used"),
        ("module/deep/hooks", "module"),
        ("module", "module"),
        ("link/deep/hooks", "link"),
        (".git/empty/hooks", ".git/empty"),
        (".", ""),
    ],
)
def test_remove_deletes_empty_directories_of_hooks(
    repo: Repo, configured_path: str, kept_directory: str
) -> None:
    """--remove deletes the hooks directory and its empty parents, but not a submodule's or one in the git directory."""
    repo.commit_file("used/file.txt", "")
    (repo.path / "link").symlink_to("target")
    for name in ("module", "target") + (("sub",) if kept_directory == "sub" else ()):
        (repo.path / name).mkdir()
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.git('rev-parse', 'HEAD')},module")
    names = sorted(path.name for path in repo.path.iterdir())
    repo.git("config", "core.hooksPath", configured_path.format(root=repo.path))
    initialize(repo.path, INIT)
    initialize(repo.path, REMOVE)
    assert (repo.path / kept_directory).is_dir()
    assert sorted(path.name for path in repo.path.iterdir()) == names
    assert (
        not (repo.path / kept_directory / "deep").exists() and not (repo.path / ".git/empty/hooks").exists()
    )


@pytest.mark.parametrize("configured_path", ["sub/hooks", "."])
def test_remove_keeps_an_empty_work_tree(repo: Repo, tmp_path: Path, configured_path: str) -> None:
    """--remove does not delete a work tree without files, whose git directory is elsewhere."""
    work_tree = tmp_path / "tree"
    work_tree.mkdir()
    repo.git("config", "core.worktree", str(work_tree))
    repo.git("config", "core.hooksPath", configured_path)
    initialize(repo.path / ".git", INIT)
    assert (work_tree / configured_path / "post-commit").exists()
    initialize(repo.path / ".git", REMOVE)
    assert not list(work_tree.iterdir())


def test_absolute_hooks_path_inside_repository(repo: Repo, hooks: Path) -> None:
    """An absolute core.hooksPath inside the repository is followed."""
    repo.git("config", "core.hooksPath", str(hooks))
    initialize(repo.path, INIT)
    assert (hooks / "post-commit").read_bytes() == LINEAGE_HOOK


@pytest.mark.parametrize("configured_path", ["{outside}", "~/nowhere", "/dev/null", "", "../outside"])
def test_hooks_path_outside_repository_is_an_error(repo: Repo, tmp_path: Path, configured_path: str) -> None:
    """A hooks directory outside the repository is an error with a reason and a hint; nothing is written there."""
    outside = tmp_path / "outside"
    outside.mkdir()
    repo.git("config", "core.hooksPath", configured_path.format(outside=outside))
    with pytest.raises(OutsideRepository, match=r"core\.hooksPath is") as error:
        initialize(repo.path, INIT)
    assert "git config --local core.hooksPath .git/hooks" in error.value.hint
    assert not list(outside.iterdir())


@pytest.mark.parametrize("configured_path", [None, ".git/hooks"])
def test_linked_hooks_directory(repo: Repo, hooks: Path, tmp_path: Path, configured_path: str | None) -> None:
    """If git's default directory is a link out of the repository, the hint does not suggest to use it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.rmtree(hooks)
    hooks.symlink_to(outside)
    if configured_path:
        repo.git("config", "core.hooksPath", configured_path)
    with pytest.raises(OutsideRepository) as error:
        initialize(repo.path, INIT)
    assert error.value.hint.startswith(f"Replace the link {hooks} with a directory")
    assert ("core.hooksPath" in error.value.hint) == (configured_path is not None)


def test_empty_hooks_path_is_the_root_directory(repo: Repo) -> None:
    """With an empty core.hooksPath, git looks for hooks in `/`. The error says so."""
    repo.git("config", "core.hooksPath", "")
    assert repo.git("rev-parse", "--git-path", "hooks/post-commit").strip() == "/post-commit"
    with pytest.raises(OutsideRepository, match=r"hooks in /, outside"):
        initialize(repo.path, INIT)


def test_remove_finds_hooks_of_former_hooks_path(repo: Repo, hooks: Path, tmp_path: Path) -> None:
    """If core.hooksPath was set after `init`, --remove still finds the hooks in git's default directory."""
    initialize(repo.path, INIT)
    repo.git("config", "core.hooksPath", str(tmp_path))
    initialize(repo.path, REMOVE)
    assert not (hooks / "post-commit").exists()


def test_link_inside_repository_is_followed(repo: Repo, hooks: Path) -> None:
    """A link into the work tree is followed, stays a link, and its target is restored."""
    script = repo.write("tools/hook", "#!/bin/sh\necho\n", executable=True)
    (hooks / "post-commit").symlink_to("../../tools/hook")
    lines = initialize(repo.path, INIT)
    assert any(line.startswith("These hooks are in the work tree") for line in lines)
    assert (hooks / "post-commit").is_symlink() and HOOK_SNIPPET in script.read_bytes()
    initialize(repo.path, REMOVE)
    assert script.read_text() == "#!/bin/sh\necho\n"


def test_link_out_of_repository_is_not_followed(repo: Repo, hooks: Path, tmp_path: Path) -> None:
    """A link out of the repository is not followed; --force backs up the link, not its target."""
    shared = tmp_path / "shared"
    shared.write_text("#!/bin/sh\n")
    shared.chmod(0o755)
    (hooks / "post-commit").symlink_to(shared)
    with pytest.raises(UnsupportedHook, match="outside this repository"):
        initialize(repo.path, INIT)
    initialize(repo.path, FORCE)
    assert not (hooks / "post-commit").is_symlink()
    initialize(repo.path, REMOVE)
    assert (hooks / "post-commit").readlink() == shared
    assert shared.read_text() == "#!/bin/sh\n"


def test_broken_link_is_an_error(repo: Repo, hooks: Path) -> None:
    """A broken link is an error."""
    (hooks / "post-commit").symlink_to("gone")
    with pytest.raises(UnsupportedHook, match="is not a regular file"):
        initialize(repo.path, INIT)


def test_bare_repository_is_an_error(tmp_path: Path) -> None:
    """In a bare repository, `init` is an error that says what to do instead, and --remove finds nothing to remove."""
    bare = Repo.create(tmp_path / "bare.git", bare=True)
    with pytest.raises(BareRepository, match="bare repository") as error:
        initialize(bare.path, INIT)
    assert "lineage index --incremental" in error.value.hint
    assert initialize(bare.path, REMOVE) == [f"nothing to remove in {bare.path}"]


def test_system_error_names_the_file(repo: Repo, hooks: Path) -> None:
    """If the hooks directory is a file, the error names the hook and the system's reason."""
    hooks.rename(hooks.with_name("old"))
    hooks.write_text("a file")
    with pytest.raises(FileAccessError, match="post-commit could not be read or changed: file exists"):
        initialize(repo.path, INIT)


def test_remove_excludes_other_options(repo: Repo) -> None:
    """--remove cannot be combined with --force."""
    with pytest.raises(BadRequest, match="cannot be combined"):
        initialize(repo.path, InitOptions(remove=True, force=True))


@pytest.mark.parametrize(
    ("shebang", "program"),
    [
        (b"#!/bin/sh", "sh"),
        (b"#! /usr/bin/env  bash", "bash"),
        (b"#!/usr/bin/env -S A=b bash -x", "bash"),
        (b"#!/usr/bin/env", ""),
        (b"#!", ""),
        (b"#!/nix/store/1-bash/bin/bash", "bash"),
    ],
)
def test_parse_interpreter(shebang: bytes, program: str) -> None:
    """The interpreter is parsed from the first line, also through `env`."""
    assert parse_interpreter(shebang) == program
