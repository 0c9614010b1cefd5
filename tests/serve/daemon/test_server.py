"""Answers and requests of real daemons: same answers as without a daemon, current data, errors, invalid requests."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline.encoders.cross_encoder import CROSS_ENCODER
from pipeline.options import Precision
from serve.daemon import process
from serve.daemon.client import DaemonClient
from serve.daemon.process import DaemonPaths, DaemonUnavailable
from serve.daemon.server import DaemonState
from serve.find_types import FindRequest
from stores.errors import LineageError
from tests.repos import Repo
from tests.serve.commands import HEAVY_PACKAGES, run_captured
from tests.serve.daemon.daemons import (
    REQUEST,
    build_environment,
    create_client,
    read_daemon_pid,
    run_daemon,
    run_lineage,
    wait_until,
)
from tests.serve.sample_index import build_index

COMMANDS = [
    ["query", "-q", "timeout"],
    ["query", "-q", "timeout in docs", "-k", "1", "--path", "docs/"],
    ["query", "-q", ""],
    ["query", "-q", "x", "--since", "soon"],
    ["explain", "src/tcp.py", "--lines", "1:1"],
    ["explain", "tcp.py"],
    ["explain", "docs/ü.md", "--no-diff"],
    ["explain", "missing.py"],
    ["explain", "src/tcp.py", "--lines", "900:901"],
    ["explain", b"no\xfftext.py"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_answers_are_the_same_with_and_without_daemon(
    shared_repo: Repo, shared_home: Path, command: list[str]
) -> None:
    """Output, errors and exit code are the same with and without the daemon."""
    check_same_answer(shared_home, [os.fsdecode(part) for part in command], shared_repo.path / "src")


def check_same_answer(home: Path, command: list[str], cwd: Path) -> str:
    """Check that the daemon answers the command, and as it is answered without it. Return the output."""
    answered_before = count_answers(home)
    with_daemon = run_lineage(home, *command, cwd=cwd)
    assert count_answers(home) == answered_before + 1
    without_daemon = run_captured(*command, "--no-daemon", cwd=cwd, env={"LINEAGE_HOME": str(home)})
    assert with_daemon == without_daemon
    return with_daemon[1]


def count_answers(home: Path) -> int:
    """Return the number of requests that the daemon has answered; 0 if none is running."""
    report = create_client(home).fetch_status()
    return report.answered if report else 0


def test_hints_are_the_same_with_and_without_daemon(repo: Repo, home: Path) -> None:
    """A command in a hint has the path that the user gave, which only the client knows."""
    build_index(repo, home, revision="HEAD~1")
    for command in (["query", "..", "-q", "timeout"], ["explain", "tcp.py", ".."]):
        assert "`lineage index --incremental ..`" in check_same_answer(home, command, repo.path / "src")


def test_several_repositories_are_the_same_with_and_without_daemon(
    repo: Repo, home: Path, tmp_path: Path
) -> None:
    """Answers from several repositories, and the error if none can answer, are the same with and without the daemon."""
    other = Repo.create(tmp_path / "other")
    other.commit_file("a.py", "timeout = 2\n", "Raise the timeout")
    build_index(repo, home, revision="HEAD~1")
    build_index(other, home)
    output = check_same_answer(home, ["query", "--all", "-q", "timeout"], tmp_path)
    assert '"repository":"other"' in output and '"repository":"repo"' in output
    other.path.rename(tmp_path / "moved")
    check_same_answer(home, ["query", "--repository", "other", "-q", "timeout"], tmp_path)


def test_precision_is_the_clients_setting(shared_repo: Repo, shared_home: Path) -> None:
    """The cross-encoder has the precision of the client's environment, not of the daemon's."""
    command = ("query", str(shared_repo.path), "-q", "how was the timeout of a connection chosen?")
    without_daemon = [
        run_lineage(shared_home, *command, "--no-daemon", cwd=shared_repo.path, LINEAGE_RERANKER=precision)
        for precision in ("", "int8")
    ]
    with_daemon = [
        run_lineage(shared_home, *command, cwd=shared_repo.path, LINEAGE_RERANKER=precision)
        for precision in ("", "int8")
    ]
    assert with_daemon == without_daemon
    assert with_daemon[0] != with_daemon[1]
    report = create_client(shared_home).fetch_status()
    assert report is not None
    assert {f"{CROSS_ENCODER}/{precision}" for precision in Precision} <= set(report.models)


def test_client_imports_no_heavy_package(shared_repo: Repo, shared_home: Path) -> None:
    """A client of the daemon imports no database, model, parser or web server."""
    for arguments in (
        ["query", str(shared_repo.path), "-q", "x"],
        ["explain", "src/tcp.py", str(shared_repo.path)],
    ):
        script = (
            f"import sys, serve.cli.app as a; a.main({arguments!r}); print(*sys.modules, file=sys.stderr)"
        )
        result = subprocess.run(
            [sys.executable, "-c", script],
            env=build_environment(shared_home),
            capture_output=True,
            text=True,
            check=True,
        )
        loaded = {name.partition(".")[0] for name in result.stderr.split()}
        assert not loaded & set(HEAVY_PACKAGES.split())


def test_unexpected_error_is_reported(repo: Repo, home: Path) -> None:
    """An unexpected error names the log, and the daemon continues to run."""
    build_index(repo, home)
    setup_code = (
        "import serve.backend\ndef broken(*_): raise RuntimeError('boom')\nserve.backend.Engine.find = broken"
    )
    with run_daemon(home, setup_code=setup_code) as daemon:
        code, out, err = run_lineage(home, "query", str(repo.path), "-q", "timeout")
        assert (code, out) == (1, "")
        assert str(DaemonPaths(home).log) in err
        assert "--no-daemon" in err
        assert "Traceback" not in err
        assert run_lineage(home, "explain", "src/tcp.py", str(repo.path))[0] == 0
        assert read_daemon_pid(home) == daemon.pid


def test_call_stops_when_its_client_gives_up(repo: Repo, home: Path) -> None:
    """If the client ends, or has waited too long, the work on its call stops, and calls that wait never start.

    The next call starts when the work on the cancelled one has ended.
    """
    setup_code = f"""
import serve.server_common, serve.backend, time
from pathlib import Path
from pipeline.interrupts import RequestCancelled, check_cancelled
from stores.errors import LineageError
serve.server_common.CALLS_PER_CPU = 1
serve.server_common.count_usable_cpus = lambda: 1
def find(self, request, *_):
    with Path({str(home)!r}, "calls").open("a") as log:
        print(request.text, file=log, flush=True)
        try:
            while request.text != "last":
                check_cancelled()
                time.sleep(0.005)
        except RequestCancelled:
            time.sleep(0.5)
            print("cancelled", file=log)
            raise
    raise LineageError("answered")
serve.backend.Engine.find = find
"""
    calls = home / "calls"
    with run_daemon(home, setup_code=setup_code):
        patient, impatient = (
            DaemonClient(DaemonPaths(home), timeout_seconds=seconds) for seconds in (1.0, 0.1)
        )
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(patient.find, FindRequest("running"), repo.path)
            wait_until(calls.exists)
            with pytest.raises(DaemonUnavailable, match="did not answer"):
                impatient.find(FindRequest("waiting"), repo.path)
            with pytest.raises(DaemonUnavailable, match="did not answer"):
                running.result()
        with pytest.raises(LineageError, match="answered"):
            create_client(home).find(FindRequest("last"), repo.path)
        assert calls.read_text().split() == ["running", "cancelled", "last"]
        report = create_client(home).fetch_status()
        assert report is not None and report.running == 0


def test_broken_clients_do_no_harm(shared_repo: Repo, shared_home: Path) -> None:
    """Incomplete and invalid requests do not affect other clients."""
    create_client(shared_home).find(REQUEST, shared_repo.path)
    body = b"POST /find HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{"
    for data in (
        b"",
        b"\0" * 100,
        body,
        b"POST /find HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
    ):
        connection = process.connect(DaemonPaths(shared_home))
        connection.sendall(data)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
    assert len(create_client(shared_home).find(REQUEST, shared_repo.path).hits) == 2


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_answers_with_unwritable_log(repo: Repo, home: Path) -> None:
    """A daemon that cannot write its log answers requests."""
    build_index(repo, home)
    setup_code = "import sys\nsys.stderr = open('/dev/full', 'w')"
    with run_daemon(home, setup_code=setup_code) as daemon:
        assert len(create_client(home).find(REQUEST, repo.path).hits) == 2
        assert read_daemon_pid(home) == daemon.pid


def test_open_session_keeps_the_daemon_running() -> None:
    """An idle daemon with an open MCP session unloads its models and does not exit; afterwards it exits."""
    state = DaemonState(unload_after=0.001, exit_after=0.001)
    with state.track_session():
        wait_until(lambda: state.should_unload)
        assert not state.should_exit
    wait_until(lambda: state.should_exit)
