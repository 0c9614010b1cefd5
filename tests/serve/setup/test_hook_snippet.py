"""What git's hooks run: when, where, with what around it, and what it costs the one who commits."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from serve.setup.git_hooks import BLOCK, HOOKS
from serve.setup.init import Wishes, initialize
from tests.repos import Repo
from tests.serve.setup.hook_helpers import git, soon, stand_in, surroundings

# Linux's share of the processors by session, where it is built in.
AUTOGROUP = Path("/proc/self/autogroup")
CALL = "index|--incremental|--embed-provider|cpu|"
SHELLS = [shell for shell in ("sh", "dash", "bash", "ksh", "mksh", "zsh", "busybox") if shutil.which(shell)]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "it's a “répo”")
    repo.commit_file("a.py", "x = 1\n", "First")
    initialize(repo.path, Wishes())
    return repo


@pytest.fixture
def said(tmp_path: Path) -> Path:
    return stand_in(tmp_path / "bin")


def test_a_commit_runs_it(repo: Repo, said: Path) -> None:
    """A commit starts the specified command at the top of the work tree, with no word to git left, at low priority."""
    (repo.path / "folder").mkdir()
    repo.write("folder/b.py", "y = 1\n")
    git(repo, "add", "--all")
    odd = {"GIT_ODD": "two\nGIT_LINES=words $(touch made)", "MESSAGE": "see GIT_A-B and * `c`"}
    git(
        repo,
        "-C",
        "folder",
        "commit",
        "--quiet",
        "--message=Second",
        path=said.parent,
        LINEAGE_HOME="/h",
        **odd,
    )
    assert soon(said.exists)
    call, *rest = said.read_text().splitlines()
    assert call == f"{CALL}{repo.path}"
    assert rest == ["nice 19", "home /h", *(["group 19"] if AUTOGROUP.exists() else [])]
    assert not (repo.path / "made").exists()


def test_nothing_without_lineage(repo: Repo) -> None:
    """Where no lineage is on PATH a commit is a commit, and says nothing of it."""
    done = git(
        repo, "commit", "--quiet", "--allow-empty", "--message=Second", path=None, PATH=_bare_path(repo)
    )
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("missing", [("nice", "setsid"), ("env", "sed", "nohup", "cat")])
def test_on_a_minimal_path(repo: Repo, tmp_path: Path, missing: tuple[str, ...]) -> None:
    """It needs no program but git and lineage."""
    folder = tmp_path / "few"
    folder.mkdir()
    for name in ("git", "sh", "nice", "setsid"):
        if name not in missing:
            (folder / name).symlink_to(shutil.which(name) or "")
    (folder / "lineage").write_text(f"#!/bin/sh\necho \"$*\" >'{tmp_path}/said'\n")
    (folder / "lineage").chmod(0o755)
    git(repo, "commit", "--quiet", "--allow-empty", "--message=Second", PATH=str(folder))
    assert soon((tmp_path / "said").exists)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("flags", ["", "-eu"])
def test_every_shell_reads_it(repo: Repo, said: Path, shell: str, flags: str) -> None:
    """Each shell that is here runs it and then the rest of the hook, strict as it may be."""
    words = [shell, "sh"] if shell == "busybox" else [shell]
    hook = repo.path / ".git/hooks/post-commit"
    text = BLOCK + b'\necho "rest $# $?" >&2\nwait\nexit 3\n'
    hook.write_bytes(text)
    done = subprocess.run(
        [*words, *([flags] if flags else []), str(hook)],
        cwd=repo.path,
        env=surroundings(said.parent),
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "rest 0 0\n")
    assert soon(said.exists) and said.read_text().startswith(CALL)


def test_a_slow_run_holds_nobody_up(repo: Repo, tmp_path: Path) -> None:
    """git, what waits for git's output, and a hook that waits for its children end while the run goes on."""
    program = tmp_path / "slow" / "lineage"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho $$ >'{tmp_path}/pid'; exec sleep 60\n")
    program.chmod(0o755)
    hook = repo.path / ".git/hooks/post-commit"
    hook.write_bytes(hook.read_bytes() + b"wait\n")
    # cat ends when nobody holds the pipe any more, under whatever number.
    waiting = "git commit --quiet --allow-empty --message=Second 7>&1 9>&1 | cat"
    started = time.monotonic()
    subprocess.run(
        ["sh", "-c", waiting], cwd=repo.path, env=surroundings(program.parent), check=True, timeout=50
    )
    assert time.monotonic() - started < 10
    assert soon((tmp_path / "pid").exists)
    assert soon(lambda: (tmp_path / "pid").read_text().strip() != "")
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)


def test_it_survives_the_terminal(repo: Repo, tmp_path: Path) -> None:
    """The end of the terminal, which hangs up on everything started in it, does not end the run."""
    program = tmp_path / "slow" / "lineage"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch '{tmp_path}/begun'; sleep 1; touch '{tmp_path}/ended'\n")
    program.chmod(0o755)
    commit = ["git", "commit", "--quiet", "--allow-empty", "--message=Second"]
    # The tests themselves may have been started by something that ignores the end of a terminal.
    leader = (
        "import os, signal, subprocess, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
        "subprocess.run(sys.argv[1:]); os.killpg(0, signal.SIGHUP)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", leader, *commit],
        cwd=repo.path,
        env=surroundings(program.parent),
        start_new_session=True,
    )
    assert process.wait() == -signal.SIGHUP
    assert soon((tmp_path / "ended").exists)


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        (("switch", "--quiet", "side"), True),
        (("switch", "--quiet", "--create", "here"), False),
        (("checkout", "--quiet", "--", "a.py"), False),
        (("merge", "--quiet", "side"), True),
        (("merge", "--quiet", "--squash", "side"), False),
        (("commit", "--quiet", "--amend", "--message=Again"), True),
        (("worktree", "add", "--quiet", "../other", "side"), True),
        (("rebase", "--quiet", "side"), True),
    ],
)
def test_when_it_runs(repo: Repo, said: Path, command: tuple[str, ...], runs: bool) -> None:
    """Another HEAD starts a run, whatever brought it; files checked out, or a branch made here, do not."""
    repo.branch("side")
    repo.commit_file("b.py", "y = 1\n", "Second")
    repo.switch("main")
    repo.commit_file("c.py", "z = 1\n", "Third")
    git(repo, *command, path=said.parent)
    assert soon(said.exists, seconds=10 if runs else 0.5) is runs


def test_a_rebase_runs_at_its_ends_alone(repo: Repo, tmp_path: Path) -> None:
    """Twenty picks start no run each: one starts with the new base, one when all is done."""
    program = tmp_path / "counting" / "lineage"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch '{tmp_path}/run'$$\n")
    program.chmod(0o755)
    repo.branch("side")
    for number in range(20):
        repo.commit_file(f"b{number}.py", "y = 1\n")
    repo.switch("main")
    repo.commit_file("c.py", "z = 1\n", "Third")
    repo.switch("side")
    git(repo, "rebase", "--quiet", "main", path=program.parent)
    assert soon(lambda: len(list(tmp_path.glob("run*"))) == 2, seconds=10)
    time.sleep(0.3)
    assert len(list(tmp_path.glob("run*"))) == 2


def test_one_text_for_all_hooks(repo: Repo) -> None:
    """A script that several hooks are links to has the block once, and it acts by the name it is called by."""
    hooks = repo.path / ".git/hooks"
    initialize(repo.path, Wishes(remove=True))
    (hooks / "all").write_text("#!/bin/sh\necho $0 >>done\n")
    (hooks / "all").chmod(0o755)
    for name in HOOKS:
        (hooks / name).symlink_to("all")
    initialize(repo.path, Wishes())
    assert (hooks / "all").read_bytes().count(BLOCK) == 1
    initialize(repo.path, Wishes(remove=True))
    assert (hooks / "all").read_text() == "#!/bin/sh\necho $0 >>done\n"


def _bare_path(repo: Repo) -> str:
    """A PATH with what git needs and no lineage."""
    folder = repo.path.parent / "plain"
    folder.mkdir()
    for name in ("git", "sh"):
        (folder / name).symlink_to(shutil.which(name) or "")
    return str(folder)
