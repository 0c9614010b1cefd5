"""Daemons for tests: real processes, each with a home of its own."""

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
from serve.daemon.client import Remote
from serve.daemon.process import Address

ROOT = Path(app.__file__).parents[2]


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "LINEAGE_NO_DAEMON"}
    return {**kept, "LINEAGE_HOME": str(home), "PYTHONPATH": str(ROOT), **more}


def lineage(home: Path, *arguments: str, cwd: Path | None = None, **more: str) -> tuple[int, str, str]:
    """Exit code, output and complaints of a command that may use the daemon."""
    done = subprocess.run(
        [sys.executable, "-m", "serve.cli.app", *arguments],
        env=environment(home, **more),
        cwd=cwd,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@contextmanager
def running(home: Path, *arguments: str, before: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A daemon started by hand, and met; `before` is what its process does first."""
    script = (
        f"{before}\nfrom serve.cli.app import main\nraise SystemExit(main(['serve', *{list(arguments)!r}]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], env=environment(home), cwd=ROOT, stderr=subprocess.DEVNULL
    )
    until(lambda: process.poll() is not None or _met(Address(home)))
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def remote(home: Path) -> Remote:
    return Remote(Address(home))


def pid(home: Path) -> int:
    report = remote(home).report()
    assert report is not None
    return report.pid


def _met(address: Address) -> bool:
    return address.folder.exists() and process.is_met(address)
