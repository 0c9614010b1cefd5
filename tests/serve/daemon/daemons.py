"""Helpers that run real daemons and commands that use them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from serve.cli import app
from serve.daemon import process
from serve.daemon.client import DaemonClient
from serve.daemon.process import DaemonPaths
from serve.find_types import FindRequest

ROOT = Path(app.__file__).parents[2]
REQUEST = FindRequest("timeout", rerank=False)


def build_environment(home: Path, **variables: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != "LINEAGE_NO_DAEMON"}
    return {**inherited, "LINEAGE_HOME": str(home), "PYTHONPATH": str(ROOT), **variables}


def run_lineage(
    home: Path, *arguments: str, cwd: Path | None = None, **variables: str
) -> tuple[int, str, str]:
    """Run a command that may use the daemon. Return its exit code, stdout and stderr."""
    result = subprocess.run(
        [sys.executable, "-m", "serve.cli.app", *arguments],
        env=build_environment(home, **variables),
        cwd=cwd,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return result.returncode, result.stdout.decode(), result.stderr.decode()


@contextmanager
def run_daemon(home: Path, *arguments: str, setup_code: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Run a daemon and wait until it accepts connections. Its process runs `setup_code` first."""
    script = f"{setup_code}\nfrom serve.cli.app import main\nraise SystemExit(main(['serve', *{list(arguments)!r}]))"
    process = subprocess.Popen(
        [sys.executable, "-c", script], env=build_environment(home), cwd=ROOT, stderr=subprocess.DEVNULL
    )
    wait_until(lambda: process.poll() is not None or _is_running(DaemonPaths(home)))
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_until(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "timeout"
        time.sleep(0.02)


def create_client(home: Path) -> DaemonClient:
    return DaemonClient(DaemonPaths(home))


def read_daemon_pid(home: Path) -> int:
    report = create_client(home).fetch_status()
    assert report is not None
    return report.pid


def _is_running(paths: DaemonPaths) -> bool:
    return paths.directory.exists() and process.is_running(paths)
