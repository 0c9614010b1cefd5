"""Life of real daemon processes: start, replacement, crashes, access rights, exit."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from serve import config
from serve.daemon import process
from serve.daemon.process import MAX_SOCKET_PATH_BYTES, DaemonPaths, DaemonUnavailable
from stores import locks
from tests.repos import Repo
from tests.serve.commands import HEAVY_PACKAGES, list_loaded_packages, run_captured
from tests.serve.daemon.daemons import (
    REQUEST,
    ROOT,
    build_environment,
    create_client,
    read_daemon_pid,
    run_daemon,
    run_lineage,
    wait_until,
)
from tests.serve.sample_index import build_index


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


def test_client_waits_for_the_end_of_a_killed_daemon(repo: Repo, home: Path) -> None:
    """A process that the system is ending may close a second connection. This is not a second crash."""
    build_index(repo, home)
    paths = DaemonPaths(home)
    paths.create_directories()
    is_listening = threading.Event()

    def close_connections() -> None:
        deadline = locks.Deadline.after(0)
        with locks.acquire_exclusive_lock(paths.lock, deadline), socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(paths.socket))
            listener.listen()
            listener.settimeout(0.3)
            is_listening.set()
            with suppress(TimeoutError):
                while True:
                    listener.accept()[0].close()

    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(close_connections)
        assert is_listening.wait(10)
        assert len(create_client(home).find(REQUEST, repo.path).hits) == 2
        closing.result()


def test_another_program_on_the_socket(repo: Repo, home: Path) -> None:
    """A program that closes each connection, while no daemon runs, is not taken for a daemon that crashes."""
    paths = DaemonPaths(home)
    paths.create_directories()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(paths.socket))
        listener.listen()

        def close_connections() -> None:
            with suppress(OSError):
                while True:
                    listener.accept()[0].close()

        threading.Thread(target=close_connections, daemon=True).start()
        with pytest.raises(DaemonUnavailable, match=r"^Another program listens on "):
            create_client(home).find(REQUEST, repo.path)
        listener.shutdown(socket.SHUT_RDWR)


def test_daemon_of_another_build_is_replaced(repo: Repo, home: Path) -> None:
    """A daemon of another build is stopped and replaced."""
    build_index(repo, home)
    with run_daemon(
        home, setup_code="import serve.daemon.process as a\na.compute_build_id = lambda: 'another'"
    ) as other_daemon:
        assert len(create_client(home).find(REQUEST, repo.path).hits) == 2
        assert read_daemon_pid(home) != other_daemon.pid
        assert other_daemon.wait(timeout=10) == 0


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
    with pytest.raises(DaemonUnavailable, match="is not a directory"):
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
    assert "The daemon is unavailable, so this process answers" in err
    with pytest.raises(DaemonUnavailable):
        process.start_daemon(DaemonPaths(file / "home"))


@pytest.mark.parametrize(
    ("name", "kind", "create"),
    [
        ("socket", "socket", Path.touch),
        ("socket", "socket", Path.mkdir),
        ("socket", "socket", lambda path: path.symlink_to(path)),
        ("directory", "directory", Path.touch),
        ("lock", "file", Path.mkdir),
        ("start_lock", "file", Path.mkdir),
        ("log", "file", Path.mkdir),
    ],
)
def test_another_file_at_the_path_of_a_daemon_file(
    home: Path,
    repo: Repo,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    kind: str,
    create: Callable[[Path], None],
) -> None:
    """If a file or folder is in the place of the socket, commands answer in-process after one clear warning."""
    monkeypatch.setenv("LINEAGE_HOME", str(home))
    monkeypatch.delenv("LINEAGE_NO_DAEMON", raising=False)
    paths = DaemonPaths(home)
    path: Path = getattr(paths, name)
    path.parent.mkdir(parents=True)
    create(path)
    warning = f"{path} is not a {kind}.\n  Move or delete it, or set LINEAGE_NO_DAEMON=1 to work without the daemon.\n"
    code, out, err = run_lineage(home, "explain", "src/tcp.py", str(repo.path))
    assert (code, err) == (0, f"The daemon is unavailable, so this process answers. {warning}")
    assert json.loads(out)["hits"]
    assert run_captured("daemon", "status")[::2] == (1, f"error: {warning}")
    assert run_captured("serve")[::2] == (1, f"error: {warning}")
    shutil.rmtree(paths.directory) if paths.directory.is_dir() else paths.directory.unlink()


@pytest.mark.parametrize("response", [b"HTTP/1.1 abc", b"HTTP/1.1", b"HTTP/1.1 200 OK\r\nContent-Length: x"])
def test_another_program_at_the_socket(home: Path, response: bytes) -> None:
    """A response that is not HTTP is an error for users."""
    paths = DaemonPaths(home)
    paths.directory.mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(paths.socket))
        server.listen()

        def respond() -> None:
            connection, _ = server.accept()
            connection.recv(1 << 16)  # to close with unread data would reset the connection
            connection.sendall(response + b"\r\n\r\n")
            connection.close()

        thread = threading.Thread(target=respond, daemon=True)
        thread.start()
        with pytest.raises(DaemonUnavailable, match="is not a lineage daemon"):
            process.send_request(paths, process.MCP_TARGET, process.build_identity_headers(), b"")
        thread.join()


def test_failed_connection(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system error of the connection is a DaemonUnavailable, so that the command answers without the daemon."""
    with monkeypatch.context() as patch:
        patch.setattr(process, "connect", lambda _: socket.socket(socket.AF_UNIX))  # not connected
        with pytest.raises(DaemonUnavailable, match=os.strerror(errno.ENOTCONN)):
            create_client(home).find(REQUEST, home)


def test_large_file_descriptor(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client with thousands of open files gets the daemon's response."""
    descriptor = 1_500
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    connect = process.connect

    def connect_with_large_descriptor(paths: DaemonPaths) -> socket.socket:
        with connect(paths) as connection:
            return socket.socket(fileno=fcntl.fcntl(connection, fcntl.F_DUPFD_CLOEXEC, descriptor))

    with run_daemon(home):
        monkeypatch.setattr(process, "connect", connect_with_large_descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], descriptor + 100), limits[1]))
        try:
            assert create_client(home).fetch_status()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_traceback_of_a_daemon_is_not_quoted(
    home: Path, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the daemon ends with a traceback, the error has only the last line and the path of the log."""
    (tmp_path / "tornado.py").write_text("raise ValueError('broken')\n")
    monkeypatch.setattr(
        config,
        "build_daemon_environment",
        lambda home: build_environment(home, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}"),
    )
    with pytest.raises(DaemonUnavailable) as caught:
        create_client(home).find(REQUEST, repo.path)
    assert caught.value.message == "The daemon did not start: ValueError: broken"
    assert str(DaemonPaths(home).log) in caught.value.hint


def test_program_of_the_daemon_is_light() -> None:
    """The program that a client starts imports no command line, database, model or MCP library before it listens."""
    heavy = {"typer", *HEAVY_PACKAGES.split()} - {"tornado"}
    assert not list_loaded_packages("import serve.daemon.server") & heavy


def test_daemon_of_a_client_is_the_only_one(home: Path) -> None:
    """The program that a client starts exits with an error for users if a daemon is running."""
    process.start_daemon(DaemonPaths(home))
    result = subprocess.run(
        [sys.executable, "-m", "serve.daemon.server"],
        env=build_environment(home),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: A daemon of {home} is already running (process ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_daemon_of_a_client(home: Path, number: signal.Signals) -> None:
    """A termination signal ends a daemon that a client started without a traceback, and its socket is deleted."""
    paths = DaemonPaths(home)
    process.start_daemon(paths)
    os.kill(read_daemon_pid(home), number)
    process.wait_until_stopped(paths)
    assert not paths.socket.exists()
    assert "Traceback" not in paths.log.read_text(encoding="utf-8")


def test_late_stop_spares_the_new_daemon(home: Path, repo: Repo) -> None:
    """A client that stops a daemon of another build does not stop its successor."""
    with run_daemon(home) as daemon:
        assert create_client(home).stop("another")
        create_client(home).find(REQUEST, repo.path)  # a daemon that stops answers no more requests
        assert read_daemon_pid(home) == daemon.pid


def test_daemon_finds_git_without_path(repo: Repo, home: Path) -> None:
    """A daemon that was started without git on PATH finds git in the usual directories."""
    if shutil.which("git", path="/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin") is None:
        pytest.skip("git is in none of the usual directories")
    code, out, err = run_lineage(home, "explain", "src/tcp.py", str(repo.path), PATH="/nowhere")
    assert code == 0, err
    assert json.loads(out)["hits"]


@pytest.mark.skipif(
    not hasattr(os, "waitid"), reason="the system cannot wait for a process without reaping it"
)
def test_exited_daemons_are_reaped(home: Path) -> None:
    """A process that starts a daemon reaps the one before, which has exited."""
    process.start_daemon(DaemonPaths(home))
    pid = read_daemon_pid(home)
    assert create_client(home).stop()
    assert os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    process.start_daemon(DaemonPaths(home))
    with pytest.raises(ChildProcessError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_build_id_of_all_sources_but_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build id changes with every source in the packages, also in a folder named `web`, but not with the page's."""
    monkeypatch.setattr(process, "_ROOT", tmp_path)
    ids = [process.compute_build_id()]
    for folder in ("mindmap/web", "serve/web", "serve/mindmap/web"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "module.py").touch()
        ids.append(process.compute_build_id())
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3
