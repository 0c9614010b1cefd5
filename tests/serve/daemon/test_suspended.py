"""Daemons that do not respond: suspended, or silent."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from serve.daemon.client import DaemonClient
from serve.daemon.process import DaemonPaths, DaemonUnavailable
from tests.repos import Repo
from tests.serve.daemon.daemons import run_daemon, run_lineage
from tests.serve.sample_index import build_index
from tests.stores.processes import wait_until_suspended


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
        assert f"Answered without the daemon. The daemon (process {daemon.pid}) is suspended." in err
        assert f"`kill -CONT {daemon.pid}`" in err
        code, _, err = run_lineage(home, "daemon", "status")
        assert code == 1 and "is suspended" in err
        daemon.send_signal(signal.SIGCONT)
        assert run_lineage(home, *query) == expected


def test_silent_daemon(home: Path) -> None:
    """A client of a daemon that runs but never responds gives up after its timeout."""
    paths = DaemonPaths(home)
    paths.create_directories()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(paths.socket))
        listener.listen()
        with pytest.raises(DaemonUnavailable, match=r"did not answer within 0\.2 s"):
            DaemonClient(paths, timeout_seconds=0.2).fetch_status()
    paths.socket.unlink()
