"""Suspended processes: an index run that a daemon's queries do not wait for, and a suspended daemon."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline.git.repository import open_repository
from serve.daemon.client import DaemonClient
from serve.daemon.process import DaemonPaths, DaemonUnavailable
from serve.explain_types import ExplainMeta, ExplainRequest
from serve.find_types import FindMeta, FindRequest
from serve.repositories import locate_index
from stores import locks
from tests.repos import Repo
from tests.serve.daemon.daemons import (
    REQUEST,
    ROOT,
    build_environment,
    create_client,
    run_daemon,
    run_lineage,
    wait_until,
)
from tests.serve.sample_index import build_index
from tests.stores.processes import wait_until_suspended

# Records the copies that the daemon makes, in a file of its home.
RECORD_COPIES = """
import os
from pathlib import Path
from stores import index_copy
copy_files = index_copy.copy_files
def record_copy(location, directory, deadline):
    with Path(os.environ["LINEAGE_HOME"], "copies").open("a") as file: file.write("copy\\n")
    return copy_files(location, directory, deadline)
index_copy.copy_files = record_copy
"""
# Adds the commits of a repository to its index, and suspends itself after the first transaction.
# Arguments: repository, home.
WRITE_AND_SUSPEND = """
import os, signal, sys
from pathlib import Path
from stores import writer
from tests.repos import Repo
from tests.serve.sample_index import build_index
replace_batch = writer.replace_batch
def suspend_before_batch(*arguments):
    os.kill(os.getpid(), signal.SIGSTOP)
    return replace_batch(*arguments)
writer.replace_batch = suspend_before_batch
build_index(Repo(Path(sys.argv[1])), Path(sys.argv[2]))
"""
# Waits until it can open the index for writing. Arguments: repository, home.
WAIT_FOR_INDEX = """
import sys
from pathlib import Path
from pipeline.git.repository import open_repository
from serve.repositories import locate_index
from stores import database
location = locate_index(Path(sys.argv[2]), open_repository(Path(sys.argv[1])))
with database.open_for_writing(location): pass
"""


@contextmanager
def run_writer(script: str, repo: Repo, home: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(repo.path), str(home)], env=build_environment(home), cwd=ROOT
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_daemon_answers_from_one_copy(repo: Repo, home: Path) -> None:
    """While a writer is suspended, all answers of the daemon are from one copy; afterwards they have the new commit."""
    build_index(repo, home, revision="HEAD~1")
    with run_daemon(home, setup_code=RECORD_COPIES), run_writer(WRITE_AND_SUSPEND, repo, home) as writer:
        wait_until_suspended(writer)
        client = create_client(home)
        with ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(lambda _: client.find(REQUEST, repo.path), range(12)))
        explanation = client.explain(ExplainRequest("src/tcp.py"), repo.path)
        metas: list[FindMeta | ExplainMeta] = [*(answer.meta for answer in answers), explanation.meta]
        for meta in metas:
            assert f"process {writer.pid} " in (meta.hint or "")
            assert meta.index_status.commits_behind_head == 1
        assert {len(answer.hits) for answer in answers} == {1}
        assert (home / "copies").read_text() == "copy\n"
        writer.send_signal(signal.SIGCONT)
        assert writer.wait(timeout=60) == 0
        wait_until(lambda: len(client.find(REQUEST, repo.path).hits) == 2)
        assert client.find(REQUEST, repo.path).meta.hint is None
        # An explanation from a copy is not cached.
        assert client.explain(ExplainRequest("src/tcp.py"), repo.path).meta.hint is None
        assert (home / "copies").read_text() == "copy\n"


def test_suspended_daemon(repo: Repo, home: Path) -> None:
    """A client of a suspended daemon answers in its own process, and says why."""
    build_index(repo, home)
    query = ("query", str(repo.path), "-q", "timeout", "--no-rerank")
    with run_daemon(home) as daemon:
        expected = run_lineage(home, *query)
        daemon.send_signal(signal.SIGSTOP)
        wait_until_suspended(daemon)
        code, out, err = run_lineage(home, *query)
        assert (code, out) == expected[:2]
        assert (
            f"The daemon is unavailable, so this process answers. The daemon (process {daemon.pid}) is suspended."
            in err
        )
        assert f"`kill -CONT {daemon.pid}`" in err
        code, _, err = run_lineage(home, "daemon", "status")
        assert code == 1 and "is suspended" in err
        daemon.send_signal(signal.SIGCONT)
        assert run_lineage(home, *query) == expected


def test_silent_daemon(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of a daemon that runs but never responds gives up after its timeout."""
    paths = DaemonPaths(home)
    paths.create_directories()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(paths.socket))
        listener.listen()
        with pytest.raises(DaemonUnavailable, match=r"did not answer within 0\.2 s"):
            DaemonClient(paths, timeout_seconds=0.2).fetch_status()
        monkeypatch.setattr("serve.daemon.client.STATUS_TIMEOUT_SECONDS", 0.3)
        with pytest.raises(DaemonUnavailable, match=r"did not answer within 0\.3 s"):
            DaemonClient(paths).find(FindRequest("x"), home)  # long before the timeout of a request
    paths.socket.unlink()


def test_suspended_daemon_and_waiting_writer(repo: Repo, home: Path) -> None:
    """If a writer waits for a suspended daemon that has the index open, clients read a copy, and name the daemon."""
    build_index(repo, home)
    location = locate_index(home, open_repository(repo.path))
    with run_daemon(home) as daemon:
        create_client(home).find(REQUEST, repo.path)  # the daemon keeps the index open
        daemon.send_signal(signal.SIGSTOP)
        wait_until_suspended(daemon)
        with run_writer(WAIT_FOR_INDEX, repo, home):
            wait_until(lambda: locks.has_waiters(location.folder))
            code, out, err = run_lineage(home, "query", str(repo.path), "-q", "timeout", "--no-rerank")
            assert code == 0, err
            assert f"process {daemon.pid} " in out and "suspended) holds the index" in out
        daemon.send_signal(signal.SIGCONT)
