"""Hook snippet: when, where and with which environment it starts an index run, and that git does not wait for it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from serve.setup.git_hooks import HOOK_NAMES, HOOK_SNIPPET
from serve.setup.init import InitOptions, initialize
from tests.repos import Repo
from tests.serve.setup.hook_helpers import build_git_environment, install_fake_lineage, run_git, wait_until

# CPU share of a session, if the Linux kernel supports it.
AUTOGROUP = Path("/proc/self/autogroup")
CALL = "index|--incremental|--embed-provider|cpu|"
SHELLS = [shell for shell in ("sh", "dash", "bash", "ksh", "mksh", "zsh", "busybox") if shutil.which(shell)]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "it's a “répo”")
    repo.commit_file("a.py", "x = 1\n", "First")
    initialize(repo.path, InitOptions())
    return repo


@pytest.fixture
def call_file(tmp_path: Path) -> Path:
    return install_fake_lineage(tmp_path / "bin")


def test_commit_starts_an_index_run(repo: Repo, call_file: Path) -> None:
    """A commit starts a run at the top of the work tree, without git's variables and at low priority."""
    (repo.path / "folder").mkdir()
    repo.write("folder/b.py", "y = 1\n")
    run_git(repo, "add", "--all")
    variables = {"GIT_ODD": "two\nGIT_LINES=words $(touch made)", "MESSAGE": "see GIT_A-B and * `c`"}
    run_git(
        repo,
        "-C",
        "folder",
        "commit",
        "--quiet",
        "--message=Second",
        path=call_file.parent,
        LINEAGE_HOME="/h",
        **variables,
    )
    assert wait_until(call_file.exists)
    call, *rest = call_file.read_text().splitlines()
    assert call == f"{CALL}{repo.path}"
    assert rest == ["nice 19", "home /h", *(["group 19"] if AUTOGROUP.exists() else [])]
    assert not (repo.path / "made").exists()


def test_commit_works_without_lineage(repo: Repo) -> None:
    """If lineage is not on PATH, a commit works and prints nothing."""
    result = run_git(
        repo,
        "commit",
        "--quiet",
        "--allow-empty",
        "--message=Second",
        path=None,
        PATH=_create_minimal_path(repo),
    )
    assert (result.stdout, result.stderr) == ("", "")


@pytest.mark.parametrize("missing", [("nice", "setsid"), ("env", "sed", "nohup", "cat")])
def test_minimal_path_is_enough(repo: Repo, tmp_path: Path, missing: tuple[str, ...]) -> None:
    """The snippet needs no programs but git and lineage."""
    directory = tmp_path / "few"
    directory.mkdir()
    for name in ("git", "sh", "nice", "setsid"):
        if name not in missing:
            (directory / name).symlink_to(shutil.which(name) or "")
    (directory / "lineage").write_text(f"#!/bin/sh\necho \"$*\" >'{tmp_path}/call'\n")
    (directory / "lineage").chmod(0o755)
    run_git(repo, "commit", "--quiet", "--allow-empty", "--message=Second", PATH=str(directory))
    assert wait_until((tmp_path / "call").exists)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("flags", ["", "-eu"])
def test_snippet_runs_in_every_shell(repo: Repo, call_file: Path, shell: str, flags: str) -> None:
    """Each installed shell runs the snippet and then the rest of the hook, also in strict mode."""
    command = [shell, "sh"] if shell == "busybox" else [shell]
    hook = repo.path / ".git/hooks/post-commit"
    text = HOOK_SNIPPET + b'\necho "rest $# $?" >&2\nwait\nexit 3\n'
    hook.write_bytes(text)
    result = subprocess.run(
        [*command, *([flags] if flags else []), str(hook)],
        cwd=repo.path,
        env=build_git_environment(call_file.parent),
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert (result.returncode, result.stdout, result.stderr) == (3, "", "rest 0 0\n")
    assert wait_until(call_file.exists) and call_file.read_text().startswith(CALL)


def test_slow_run_delays_nothing(repo: Repo, tmp_path: Path) -> None:
    """git, a reader of its output and a hook that waits for its children end while the run continues."""
    program = tmp_path / "slow" / "lineage"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho $$ >'{tmp_path}/pid'; exec sleep 60\n")
    program.chmod(0o755)
    hook = repo.path / ".git/hooks/post-commit"
    hook.write_bytes(hook.read_bytes() + b"wait\n")
    # cat ends when no process holds the pipe open under any descriptor.
    command = "git commit --quiet --allow-empty --message=Second 7>&1 9>&1 | cat"
    started = time.monotonic()
    subprocess.run(
        ["sh", "-c", command],
        cwd=repo.path,
        env=build_git_environment(program.parent),
        check=True,
        timeout=50,
    )
    assert time.monotonic() - started < 10
    assert wait_until((tmp_path / "pid").exists)
    assert wait_until(lambda: (tmp_path / "pid").read_text().strip() != "")
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)


def test_run_survives_the_terminal(repo: Repo, tmp_path: Path) -> None:
    """SIGHUP to the process group, as when the terminal closes, does not end the run."""
    program = tmp_path / "slow" / "lineage"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch '{tmp_path}/started'; sleep 1; touch '{tmp_path}/ended'\n")
    program.chmod(0o755)
    commit = ["git", "commit", "--quiet", "--allow-empty", "--message=Second"]
    # The test process may ignore SIGHUP, which children inherit.
    session_leader = (
        "import os, signal, subprocess, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
        "subprocess.run(sys.argv[1:]); os.killpg(0, signal.SIGHUP)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", session_leader, *commit],
        cwd=repo.path,
        env=build_git_environment(program.parent),
        start_new_session=True,
    )
    assert process.wait() == -signal.SIGHUP
    assert wait_until((tmp_path / "ended").exists)


@pytest.mark.parametrize(
    ("command", "starts_run"),
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
def test_operations_that_start_a_run(
    repo: Repo, call_file: Path, command: tuple[str, ...], starts_run: bool
) -> None:
    """A change of HEAD starts a run; checking out files or creating a branch does not."""
    repo.branch("side")
    repo.commit_file("b.py", "y = 1\n", "Second")
    repo.switch("main")
    repo.commit_file("c.py", "z = 1\n", "Third")
    run_git(repo, *command, path=call_file.parent)
    assert wait_until(call_file.exists, seconds=10 if starts_run else 0.5) is starts_run


def test_rebase_starts_runs_only_at_its_ends(repo: Repo, tmp_path: Path) -> None:
    """A rebase of twenty commits starts one run at its start and one at its end."""
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
    run_git(repo, "rebase", "--quiet", "main", path=program.parent)
    assert wait_until(lambda: len(list(tmp_path.glob("run*"))) == 2, seconds=10)
    time.sleep(0.3)
    assert len(list(tmp_path.glob("run*"))) == 2


def test_script_shared_by_all_hooks(repo: Repo) -> None:
    """If all hooks are links to one script, the snippet is inserted into the script only once."""
    hooks = repo.path / ".git/hooks"
    initialize(repo.path, InitOptions(remove=True))
    (hooks / "all").write_text("#!/bin/sh\necho $0 >>done\n")
    (hooks / "all").chmod(0o755)
    for name in HOOK_NAMES:
        (hooks / name).symlink_to("all")
    initialize(repo.path, InitOptions())
    assert (hooks / "all").read_bytes().count(HOOK_SNIPPET) == 1
    initialize(repo.path, InitOptions(remove=True))
    assert (hooks / "all").read_text() == "#!/bin/sh\necho $0 >>done\n"


def _create_minimal_path(repo: Repo) -> str:
    """Return a PATH with only the programs that git needs."""
    directory = repo.path.parent / "plain"
    directory.mkdir()
    for name in ("git", "sh"):
        (directory / name).symlink_to(shutil.which(name) or "")
    return str(directory)
