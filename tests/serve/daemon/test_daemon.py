"""Daemon with real processes: same answers as without it, start, replacement, crashes, access rights, exit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.encoders.cross_encoder import CROSS_ENCODER
from pipeline.options import Precision
from serve.api_types import FindRequest
from serve.daemon import process
from serve.daemon.process import MAX_SOCKET_PATH_BYTES, DaemonPaths, DaemonUnavailable, UnsafeDirectory
from tests.repos import Repo
from tests.serve.commands import HEAVY_PACKAGES, create_timeout_repo
from tests.serve.daemon.daemons import (
    ROOT,
    build_environment,
    create_client,
    read_daemon_pid,
    run_daemon,
    run_lineage,
    wait_until,
)
from tests.serve.sample_index import build_index

REQUEST = FindRequest("timeout", rerank=False)


@pytest.fixture
def home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Index directory whose daemon is stopped after the test."""
    monkeypatch.delenv("LINEAGE_NO_DAEMON")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield home
    create_client(home).stop()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_timeout_repo(tmp_path / "repo")


COMMANDS = [
    ["query", "-q", "timeout"],
    ["query", "-q", "timeout in docs", "-k", "1", "--path", "docs/"],
    ["query", "-q", ""],
    ["query", "-q", "x", "--since", "soon"],
    ["explain", "src/tcp.py", "--lines", "1:1"],
    ["explain", "tcp.py"],
    ["explain", "docs/ü.md", "--no-diff"],
    ["explain", "missing.py"],
    ["explain", "src/tcp.py", "--lines", "9:3"],
    ["explain", b"no\xfftext.py"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_answers_are_the_same_with_and_without_daemon(repo: Repo, home: Path, command: list[str]) -> None:
    """Output, errors and exit code are the same with and without the daemon."""
    build_index(repo, home)
    arguments = [os.fsdecode(part) for part in command]
    with_daemon = run_lineage(home, *arguments, cwd=repo.path / "src")
    assert create_client(home).fetch_status() is not None
    assert with_daemon == run_lineage(home, *arguments, "--no-daemon", cwd=repo.path / "src")
    assert with_daemon == run_lineage(home, *arguments, cwd=repo.path / "src", LINEAGE_NO_DAEMON="1")


@pytest.mark.parametrize("command", [["query", "..", "-q", "timeout"], ["explain", "tcp.py", ".."]], ids=str)
def test_hints_are_the_same_with_and_without_daemon(repo: Repo, home: Path, command: list[str]) -> None:
    """A command in a hint has the path that the user gave, which only the client knows."""
    build_index(repo, home, revision="HEAD~1")
    with_daemon = run_lineage(home, *command, cwd=repo.path / "src")
    assert (
        "`lineage index --incremental ..`" in with_daemon[1]
        and create_client(home).fetch_status() is not None
    )
    assert with_daemon == run_lineage(home, *command, "--no-daemon", cwd=repo.path / "src")


def test_precision_is_the_clients_setting(repo: Repo, home: Path) -> None:
    """The cross-encoder has the precision of the client's environment, not of the daemon's."""
    build_index(repo, home)
    command = ("query", str(repo.path), "-q", "how was the timeout of a connection chosen?")
    without_daemon = [
        run_lineage(home, *command, "--no-daemon", cwd=repo.path, LINEAGE_RERANKER=precision)
        for precision in ("", "int8")
    ]
    with_daemon = [
        run_lineage(home, *command, cwd=repo.path, LINEAGE_RERANKER=precision) for precision in ("", "int8")
    ]
    assert with_daemon == without_daemon
    assert with_daemon[0] != with_daemon[1]
    report = create_client(home).fetch_status()
    assert report is not None
    assert {f"{CROSS_ENCODER}/{precision}" for precision in Precision} <= set(report.models)


def test_option_and_variable_disable_the_daemon(repo: Repo, home: Path) -> None:
    """With --no-daemon or LINEAGE_NO_DAEMON=1 no daemon is started and no directory is created."""
    run_lineage(home, "query", str(repo.path), "-q", "x", "--no-daemon")
    run_lineage(home, "explain", "src/tcp.py", str(repo.path), LINEAGE_NO_DAEMON="1")
    assert not home.exists()


def test_ten_parallel_clients_start_one_daemon(repo: Repo, home: Path) -> None:
    """Ten clients at the same time start one daemon and get ten correct answers."""
    build_index(repo, home)
    command = [sys.executable, "-m", "serve.cli.app", "query", str(repo.path), "-q", "timeout", "--no-rerank"]
    clients = [
        subprocess.Popen(command, env=build_environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(10)
    ]
    outputs = [client.communicate(timeout=60) for client in clients]
    assert {client.returncode for client in clients} == {0}, outputs
    assert len({out for out, _ in outputs}) == 1
    assert len(json.loads(outputs[0][0])["hits"]) == 2
    assert DaemonPaths(home).log.read_text().count("event=listening") == 1
    report = create_client(home).fetch_status()
    assert report is not None
    assert report.answered == 10


def test_client_imports_no_heavy_package(repo: Repo, home: Path) -> None:
    """A client of the daemon imports no database, model, parser or web server."""
    build_index(repo, home)
    for arguments in (["query", str(repo.path), "-q", "x"], ["explain", "src/tcp.py", str(repo.path)]):
        script = (
            f"import sys, serve.cli.app as a; a.main({arguments!r}); print(*sys.modules, file=sys.stderr)"
        )
        result = subprocess.run(
            [sys.executable, "-c", script],
            env=build_environment(home),
            capture_output=True,
            text=True,
            check=True,
        )
        loaded = {name.partition(".")[0] for name in result.stderr.split()}
        assert not loaded & set(HEAVY_PACKAGES.split())


def test_client_survives_a_killed_daemon(repo: Repo, home: Path) -> None:
    """If the daemon is killed during a request, the client starts another one and gets its answer."""
    build_index(repo, home)
    create_client(home).find(REQUEST, repo.path)
    first_pid = read_daemon_pid(home)
    os.kill(first_pid, signal.SIGSTOP)
    command = [sys.executable, "-m", "serve.cli.app", "query", str(repo.path), "-q", "timeout"]
    client = subprocess.Popen(command, env=build_environment(home), stdout=subprocess.PIPE)
    time.sleep(0.7)
    assert client.poll() is None
    os.kill(first_pid, signal.SIGKILL)
    out, _ = client.communicate(timeout=60)
    assert client.returncode == 0
    assert len(json.loads(out)["hits"]) == 2
    assert read_daemon_pid(home) != first_pid


def test_daemon_of_another_build_is_replaced(repo: Repo, home: Path) -> None:
    """A daemon of another build is stopped and replaced."""
    build_index(repo, home)
    with run_daemon(
        home, setup_code="import serve.daemon.process as a\na.compute_build_id = lambda: 'another'"
    ) as other_daemon:
        assert len(create_client(home).find(REQUEST, repo.path).hits) == 2
        assert read_daemon_pid(home) != other_daemon.pid
        assert other_daemon.wait(timeout=10) == 0


def test_unexpected_error_is_reported(repo: Repo, home: Path) -> None:
    """An unexpected error names the log, and the daemon continues to run."""
    build_index(repo, home)
    setup_code = (
        "import serve.engine\ndef broken(*_): raise RuntimeError('boom')\nserve.engine.Engine.find = broken"
    )
    with run_daemon(home, setup_code=setup_code) as daemon:
        code, out, err = run_lineage(home, "query", str(repo.path), "-q", "timeout")
        assert (code, out) == (1, "")
        assert str(DaemonPaths(home).log) in err
        assert "--no-daemon" in err
        assert "Traceback" not in err
        assert run_lineage(home, "explain", "src/tcp.py", str(repo.path))[0] == 0
        assert read_daemon_pid(home) == daemon.pid


def test_broken_clients_do_no_harm(repo: Repo, home: Path) -> None:
    """Incomplete and invalid requests do not affect other clients."""
    build_index(repo, home)
    create_client(home).find(REQUEST, repo.path)
    body = b"POST /find HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{"
    for data in (
        b"",
        b"\0" * 100,
        body,
        b"POST /find HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
    ):
        connection = process.connect(DaemonPaths(home))
        connection.sendall(data)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
    assert len(create_client(home).find(REQUEST, repo.path).hits) == 2


def test_answers_follow_changes_of_index_and_repository(repo: Repo, home: Path) -> None:
    """Answers reflect the current index and repository."""
    build_index(repo, home, revision="HEAD~1")
    client = create_client(home)
    assert len(client.find(REQUEST, repo.path).hits) == 1
    build_index(repo, home)
    assert len(client.find(REQUEST, repo.path).hits) == 2
    for folder in home.glob("repo-*"):
        shutil.rmtree(folder)
    assert client.find(REQUEST, repo.path).hits == ()
    build_index(repo, home)
    assert len(client.find(REQUEST, repo.path).hits) == 2
    moved = repo.path.rename(repo.path.with_name("elsewhere"))
    with pytest.raises(Exception, match="does not exist"):
        client.find(REQUEST, repo.path)
    assert "not indexed yet" in (client.find(REQUEST, moved).meta.hint or "")


def test_one_daemon_serves_many_repositories(tmp_path: Path, home: Path) -> None:
    """One daemon serves several repositories."""
    for number in range(6):
        repo = Repo.create(tmp_path / f"repo{number}")
        repo.commit_file(f"file{number}.py", "timeout = 1\n", f"Set timeout {number}")
        build_index(repo, home)
    for number in range(6):
        (hit,) = create_client(home).find(REQUEST, tmp_path / f"repo{number}").hits
        assert hit.file_path == f"file{number}.py"


def test_answers_on_a_full_disk(repo: Repo, home: Path) -> None:
    """A daemon that cannot write any file answers requests."""
    build_index(repo, home)
    setup_code = (
        "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "import serve.daemon.server as server\n"
        "bind = server.bind_unix_socket\n"
        "def full(*arguments):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "    return bind(*arguments)\n"
        "server.bind_unix_socket = full"
    )
    with run_daemon(home, setup_code=setup_code) as daemon:
        assert len(create_client(home).find(REQUEST, repo.path).hits) == 2
        assert run_lineage(home, "explain", "src/tcp.py", str(repo.path))[0] == 0
        assert read_daemon_pid(home) == daemon.pid


def test_idle_daemon_unloads_and_exits(repo: Repo, home: Path) -> None:
    """An idle daemon unloads its models, then exits and deletes its socket; the next request starts another one."""
    build_index(repo, home)
    with run_daemon(home, "--unload-after", "0.2", "--leave-after", "2") as daemon:
        create_client(home).find(REQUEST, repo.path)
        wait_until(lambda: (report := create_client(home).fetch_status()) is not None and not report.models)
        assert daemon.wait(timeout=10) == 0
        assert not DaemonPaths(home).socket.exists()
        assert len(create_client(home).find(REQUEST, repo.path).hits) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_the_daemon(home: Path, number: int) -> None:
    """SIGTERM and SIGINT stop the daemon with exit code 0 and without a socket."""
    with run_daemon(home) as daemon:
        daemon.send_signal(number)
        assert daemon.wait(timeout=5) == 0
        assert not DaemonPaths(home).socket.exists()


def test_daemon_exits_with_its_home(home: Path) -> None:
    """A daemon exits after its index directory is deleted."""
    with run_daemon(home) as daemon:
        shutil.rmtree(home)
        assert daemon.wait(timeout=5) == 0


def test_second_daemon_is_an_error(home: Path) -> None:
    """A second daemon fails with an error that names the first."""
    with run_daemon(home) as first_daemon:
        code, _, err = run_lineage(home, "serve")
        assert code == 1
        assert f"process {first_daemon.pid}" in err


def test_daemon_commands(repo: Repo, home: Path) -> None:
    """`lineage daemon` shows the status and loaded indexes, and stops the daemon."""
    assert run_lineage(home, "daemon", "status")[1].startswith("No daemon is running")
    assert json.loads(run_lineage(home, "daemon", "status", "--json")[1]) == {"running": False}
    assert run_lineage(home, "daemon", "stop")[:2] == (0, "No daemon is running.\n")
    build_index(repo, home)
    create_client(home).find(REQUEST, repo.path)
    assert f"running: process {read_daemon_pid(home)}" in run_lineage(home, "daemon", "status")[1]
    status = json.loads(run_lineage(home, "daemon", "status", "--json")[1])
    assert (status["answered"], status["running"]) == (1, 0)
    assert run_lineage(home, "daemon", "list")[0] == 0
    assert run_lineage(home, "daemon", "stop")[:2] == (0, "The daemon has stopped.\n")
    assert create_client(home).fetch_status() is None


def test_daemon_is_closed_to_other_users(home: Path) -> None:
    """Directory and socket are accessible only to their owner, also if the directory had another mode."""
    paths = DaemonPaths(home)
    home.mkdir()
    paths.directory.mkdir(mode=0o777)
    paths.directory.chmod(0o777)
    create_client(home).stop()
    with run_daemon(home):
        assert paths.directory.stat().st_mode & 0o777 == 0o700
        assert paths.socket.stat().st_mode & 0o777 == 0o600


def test_linked_directory_is_not_trusted(home: Path, tmp_path: Path, repo: Repo) -> None:
    """A link in place of the daemon directory, which another user may have created, is an error."""
    home.mkdir()
    (tmp_path / "trap").mkdir()
    DaemonPaths(home).directory.symlink_to(tmp_path / "trap")
    with pytest.raises(UnsafeDirectory):
        create_client(home).find(REQUEST, repo.path)
    DaemonPaths(home).directory.unlink()


def test_long_home_has_a_short_socket_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repo: Repo
) -> None:
    """If the path of the index directory is too long for a socket, the socket is in a private directory elsewhere."""
    home = tmp_path / ("deep" * 30)
    paths = DaemonPaths(home)
    assert len(os.fsencode(paths.socket)) <= MAX_SOCKET_PATH_BYTES
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("LINEAGE_NO_DAEMON", raising=False)
    build_index(repo, home)
    try:
        assert len(create_client(home).find(REQUEST, repo.path).hits) == 2
        assert paths.socket.parent.stat().st_mode & 0o777 == 0o700
    finally:
        create_client(home).stop()
        shutil.rmtree(paths.socket.parent)


def test_answers_if_no_daemon_can_start(tmp_path: Path, repo: Repo) -> None:
    """If no daemon can start, the command answers without it and prints the reason."""
    file = tmp_path / "file"
    file.write_text("a file")
    code, out, err = run_lineage(file / "home", "explain", "src/tcp.py", str(repo.path))
    assert code == 0, err
    assert json.loads(out)["hits"]
    assert "Answered without the daemon" in err
    with pytest.raises(DaemonUnavailable):
        process.start_daemon(DaemonPaths(file / "home"))


def test_loaded_index_is_listed_and_refreshed(repo: Repo, home: Path) -> None:
    """A loaded index is listed, used again, and loaded again after a change."""
    build_index(repo, home)
    command = ("query", str(repo.path), "-q", "timeout", "--no-rerank")
    run_lineage(home, *command)
    (index,) = json.loads(run_lineage(home, "daemon", "list", "--json")[1])
    assert (index["path"], index["hunks"]) == (str(repo.path), 2)
    repo.commit_file("new.py", "timeout\n", "One more timeout")
    build_index(repo, home)
    assert run_lineage(home, *command) == run_lineage(home, *command, "--no-daemon")
    (index,) = json.loads(run_lineage(home, "daemon", "list", "--json")[1])
    assert index["hunks"] == 3


def test_late_stop_spares_the_new_daemon(home: Path) -> None:
    """A client that stops a daemon of another build does not stop its successor."""
    with run_daemon(home) as daemon:
        assert create_client(home).stop("another")
        time.sleep(1)
        assert read_daemon_pid(home) == daemon.pid


def test_daemon_with_another_git_config_is_not_used(repo: Repo, home: Path, tmp_path: Path) -> None:
    """With another git configuration than the daemon's, the client answers itself."""
    repo.commit_file("src/tcp.py", "def connect():\n    timeout(1)\n", "Wait for a second")
    (tmp_path / "ignored").write_text(repo.git("rev-parse", "HEAD") + "\n")
    (tmp_path / ".gitconfig").write_text(f"[blame]\n\tignoreRevsFile = {tmp_path / 'ignored'}\n")
    arguments = ("explain", "src/tcp.py", str(repo.path))
    _, default, _ = run_lineage(home, *arguments)
    _, output, error = run_lineage(home, *arguments, HOME=str(tmp_path))
    assert output == run_lineage(home, *arguments, "--no-daemon", HOME=str(tmp_path))[1] != default
    assert "another HOME" in error


def test_daemon_finds_git_without_path(repo: Repo, home: Path) -> None:
    """A daemon that was started without git on PATH finds git in the usual directories."""
    if shutil.which("git", path="/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin") is None:
        pytest.skip("git is in none of the usual directories")
    code, out, err = run_lineage(home, "explain", "src/tcp.py", str(repo.path), PATH="/nowhere")
    assert code == 0, err
    assert json.loads(out)["hits"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_answers_with_unwritable_log(repo: Repo, home: Path) -> None:
    """A daemon that cannot write its log answers requests."""
    build_index(repo, home)
    setup_code = "import sys\nsys.stderr = open('/dev/full', 'w')"
    with run_daemon(home, setup_code=setup_code) as daemon:
        assert len(create_client(home).find(REQUEST, repo.path).hits) == 2
        assert read_daemon_pid(home) == daemon.pid


def test_exited_daemons_are_reaped(home: Path) -> None:
    """A process that starts daemons reaps those that have exited."""
    for _ in range(3):
        process.start_daemon(DaemonPaths(home))
        assert create_client(home).stop()
    process.start_daemon(DaemonPaths(home))
    assert len(process._children) <= 2  # the one before may still be exiting
