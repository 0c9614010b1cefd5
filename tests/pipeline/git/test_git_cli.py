"""Runs of the git program."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL
from threading import Event, Thread, Timer

import pytest

from pipeline.git import commit_graph, git_cli
from pipeline.git.errors import DamagedRepository, UnsupportedRepository
from pipeline.git.git_cli import (
    COMMANDS_WITHOUT_INDEX,
    GitNotFound,
    GitTimeout,
    TooLongForGit,
    UnreadableGitConfig,
    UnusableDirectory,
)
from pipeline.git.ranges import list_range
from pipeline.git.repository import open_repository
from pipeline.interrupts import RequestCancelled, use_cancellation_flag
from tests.processes import wait_for_end
from tests.repos import Repo

# Arguments of git for a program that runs until it is killed.
WAIT_ALIAS = ("-c", "alias.wait=!exec sleep 600", "wait")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / 'with "quotes": and \\')
    for number in range(5):
        repo.commit_file("a.py", f"{number}\n")
    return repo


def test_git_is_killed_after_the_timeout(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a timeout, git and its child processes are killed, and the lock file is deleted.

    The graph is not written again for the same HEAD.
    """
    graph_dir, pid_file = tmp_path / "graph", tmp_path / "pids"
    script = tmp_path / "bin" / "git"
    script.parent.mkdir()
    script.write_text(
        f"#!/bin/sh\ncase $* in *commit-graph*) ;; *) exit 0 ;; esac\n"
        f"touch '{graph_dir}/info/commit-graph.lock'\nsleep 300 &\necho $! >> '{pid_file}'\nwait\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(commit_graph, "MIN_SECONDS", 1.0)
    start_time = time.monotonic()
    for _ in range(2):
        commit_graph.refresh(open_repository(repo.path), graph_dir)
    assert time.monotonic() - start_time < 10
    [child_pid] = pid_file.read_text().split()
    assert wait_for_end(int(child_pid))
    assert not (graph_dir / "info" / "commit-graph.lock").exists()


def test_arguments_that_are_too_long(repo: Repo) -> None:
    """A text that exceeds the system's limit on arguments gets an error that says so."""
    git = commit_graph.create_git_program(open_repository(repo.path))
    with pytest.raises(TooLongForGit, match="too long to run git"):
        git.run("rev-parse", "--verify", "a" * 300_000)


@pytest.mark.parametrize("command", sorted(COMMANDS_WITHOUT_INDEX))
def test_commands_without_the_index(repo: Repo, command: str) -> None:
    """A damaged index does not stop commands that read it for attributes only."""
    (repo.path / ".git" / "index").write_bytes(b"damaged")
    git = commit_graph.create_git_program(open_repository(repo.path))
    output = git.run(command, "-p", "HEAD")
    assert (output.exit_code, output.stderr) == (0, "")


@pytest.mark.timeout(30)
def test_git_is_killed_if_no_thread_can_write_its_input(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system starts no thread, the error is raised at once, and git does not wait for its input."""
    git = commit_graph.create_git_program(open_repository(repo.path))
    monkeypatch.setattr(Thread, "start", fail_to_start)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        git.run("cat-file", "--batch", stdin=b"HEAD\n")
    monkeypatch.undo()
    assert git.run("rev-parse", "HEAD").stdout.decode().strip() == repo.head


def fail_to_start(_: Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_running_git_is_killed_before_an_exit(repo: Repo) -> None:
    """`kill_running` ends all running git processes. A git program can have a time limit of its own."""
    git = replace(commit_graph.create_git_program(open_repository(repo.path)), timeout_seconds=0.2)
    with git.start(*WAIT_ALIAS) as first, git.start(*WAIT_ALIAS) as second:
        git_cli.kill_running()
        assert all(process.wait().exit_code == -SIGKILL for process in (first, second))
    with pytest.raises(GitTimeout, match="within 0 seconds"):
        git.run(*WAIT_ALIAS)


def test_exponential_ignore_pattern_ends(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that would match a pattern for hours is stopped with an error."""
    monkeypatch.setattr(git_cli, "RUN_TIMEOUT_SECONDS", 1.0)
    repo.write(".gitignore", "**/a*a/" * 12 + "b\n")
    git = commit_graph.create_git_program(open_repository(repo.path))
    with pytest.raises(GitTimeout, match="git did not finish within 1 seconds"):
        git.run("--no-literal-pathspecs", "check-ignore", "--stdin", stdin=b"aaaa/" * 60 + b"c\n")


def test_cancelled_git_is_killed(repo: Repo) -> None:
    """If the request is cancelled while git runs, git is killed; later calls do not start it."""
    git, cancelled = commit_graph.create_git_program(open_repository(repo.path)), Event()
    with (
        use_cancellation_flag(cancelled),
        pytest.raises(RequestCancelled),
        git.start(*WAIT_ALIAS) as git_process,
    ):
        Timer(0.05, cancelled.set).start()
        git_process.wait()
    assert git_process.process.returncode == -SIGKILL
    with use_cancellation_flag(cancelled), pytest.raises(RequestCancelled):
        git.run("version")


def test_unreadable_configuration_is_an_error(repo: Repo, tmp_path: Path) -> None:
    """If git cannot list its settings, no git program is created, because it might run a configured filter."""
    (tmp_path / "broken").write_text("[broken\n")
    # libgit2 does not follow this form of include, so the repository opens.
    repo.git("config", "include.path", f"%(prefix)/..{tmp_path}/broken")
    with pytest.raises(UnreadableGitConfig, match=r"git cannot read its configuration: .*broken"):
        commit_graph.create_git_program(open_repository(repo.path))
    commit_graph.refresh(open_repository(repo.path), tmp_path / "graph")  # only speed depends on it


def test_configuration_that_includes_itself(repo: Repo) -> None:
    """If a configuration file includes itself, the error has git's whole reason, on one line."""
    repo.git("config", "include.path", f"%(prefix)/..{repo.path}/.git/config")
    with pytest.raises(UnreadableGitConfig, match=r": exceeded maximum include depth .* circular includes\."):
        commit_graph.create_git_program(open_repository(repo.path))


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        (
            "[mailmap]\n\tfile\n",
            r"missing value for 'mailmap\.file'; bad config variable 'mailmap\.file' in file '.*'",
        ),
        ("[mailmap]\n\tfile = ~nobody-here/x\n", "failed to expand user dir in: '~nobody-here/x'"),
        ("[core]\n\tabbrev = many\n", r"bad numeric config value 'many' for 'core\.abbrev'"),
        ("[core]\n\tcompression = -5\n", "bad zlib compression level -5"),
        ("[core]\n\tcreateObject = foo\n", "invalid mode for object creation: foo"),
    ],
)
def test_rejected_setting_is_an_error(repo: Repo, setting: str, reason: str) -> None:
    """If git rejects the value of a setting only when a command uses it, the error is about the configuration."""
    with (repo.path / ".git" / "config").open("a") as file:
        file.write(setting)
    opened = open_repository(repo.path)
    git = commit_graph.create_git_program(opened)
    with pytest.raises(UnreadableGitConfig, match=f"git cannot read its configuration: {reason}"):
        list_range(opened, git, "HEAD")
    with git.start("blame", "HEAD", "--", "a.py") as process, pytest.raises(UnreadableGitConfig):
        process.wait()


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ("unknown repository extension found:\\n\\trelativeworktrees", "relativeworktrees"),
        ("unknown repository extensions found:\\n\\tone\\n\\ttwo", "one, two"),
    ],
)
def test_extension_of_a_newer_git(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str, names: str
) -> None:
    """An extension that libgit2 knows, but the git program does not, is named. The commit-graph is not written."""
    opened = open_repository(repo.path)
    git = tmp_path / "git"
    git.write_text(f"#!/bin/sh\nprintf 'fatal: {message}\\n' >&2\nexit 128\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(UnsupportedRepository) as error:
        list_range(opened, commit_graph.create_git_program(opened), "HEAD")
    assert error.value.message.endswith(f"it does not know the extension {names}.")
    commit_graph.refresh(opened, tmp_path / "graph")  # only speed depends on it


def test_version_with_a_broken_user_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version of git is read without the configuration of the user."""
    version = git_cli.read_version()
    (tmp_path / "gitconfig").write_text(f"[include]\n\tpath = {tmp_path}/gitconfig\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    assert version and git_cli.read_version() == version


def test_git_is_missing(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a git program on PATH, the error reports that git was not found."""
    git = commit_graph.create_git_program(open_repository(repo.path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GitNotFound, match="git was not found"):
        git.run("version")


@pytest.mark.parametrize(
    "name",
    [
        ".gitattributes",
        ".gitignore",
        ".mailmap",
        ".git/CHERRY_PICK_HEAD",
        ".git/MERGE_HEAD",
        ".git/REVERT_HEAD",
        ".git/info/attributes",
        ".git/info/sparse-checkout",
    ],
)
def test_file_that_blocks_git(repo: Repo, name: str) -> None:
    """git is not started for a command that may read a pipe or a huge file; other commands work."""
    file = repo.path / name
    os.mkfifo(file)
    git = commit_graph.create_git_program(open_repository(repo.path))
    with pytest.raises(DamagedRepository, match=re.escape(f"{file} is no regular file")):
        git.run("status")
    assert git.run("rev-parse", "HEAD").stdout.decode().strip() == repo.head
    file.unlink()
    write_huge_file(file)
    with pytest.raises(DamagedRepository, match=re.escape(f"{file} has more than 100 MiB")):
        commit_graph.create_git_program(open_repository(repo.path)).run("status")


@pytest.mark.parametrize(
    "setting", ["blame.ignoreRevsFile", "core.attributesFile", "core.excludesFile", "mailmap.file"]
)
def test_setting_that_names_a_file_that_blocks_git(repo: Repo, setting: str) -> None:
    """git is not started for a command that may read a blocking file which a setting names.

    The path may be relative to the work tree, and the setting may be in an included file.
    """
    os.mkfifo(repo.path / "pipe")
    write_huge_file(repo.path / "huge")
    repo.git("config", "include.path", "more.config")
    for name in ("pipe", "huge", "/dev/zero"):
        repo.git("config", "--file", ".git/more.config", setting, name)
        git = commit_graph.create_git_program(open_repository(repo.path))
        with pytest.raises(
            DamagedRepository, match=rf"{name} .*\n.* change the setting {setting.lower()}, which"
        ):
            git.run("status")
    repo.git("config", "--file", ".git/more.config", setting, os.devnull)
    assert commit_graph.create_git_program(open_repository(repo.path)).run("status").exit_code == 0


def write_huge_file(file: Path) -> None:
    """Create a file of 101 MiB that takes no space."""
    with file.open("wb") as opened:
        opened.truncate(101 << 20)


@pytest.mark.parametrize("reason", ["No such file or directory", "Not a directory"])
def test_work_tree_is_missing(repo: Repo, reason: str) -> None:
    """If the work tree was deleted or replaced since the repository was opened, the error names it."""
    git = commit_graph.create_git_program(open_repository(repo.path))
    repo.path.rename(repo.path.with_name("moved"))
    if reason == "Not a directory":
        repo.path.touch()
    with pytest.raises(UnusableDirectory, match=re.escape(f"git cannot run in {repo.path}: {reason}.")):
        git.run("version")


def test_git_is_killed_on_exit(repo: Repo) -> None:
    """If the `with` statement ends by an exception, git is killed."""
    git = commit_graph.create_git_program(open_repository(repo.path))
    start_time = time.monotonic()
    with (
        pytest.raises(KeyboardInterrupt),
        git.start("cat-file", "--batch-all-objects", "--batch") as git_process,
    ):
        raise KeyboardInterrupt
    assert git_process.process.returncode is not None
    assert time.monotonic() - start_time < 5
