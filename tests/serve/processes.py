"""Helpers that run the `lineage` command as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypedDict, Unpack

from tests.serve.commands import ROOT


@contextmanager
def use_default_signal_handler(number: signal.Signals) -> Iterator[None]:
    """Start processes with this signal's default action, even if the test run ignores it."""
    previous_handler = signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, previous_handler)


class PopenOptions(TypedDict, total=False):
    """Options of `subprocess.Popen`."""

    cwd: Path
    env: Mapping[str, str]
    stdin: int | IO[Any]
    stdout: int | IO[Any]
    stderr: int | IO[Any]


def start_lineage(*arguments: str, **options: Unpack[PopenOptions]) -> subprocess.Popen[bytes]:
    """Start the command and return the process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    popen_options: PopenOptions = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "env": environment,
        **options,
    }
    return subprocess.Popen([sys.executable, "-m", "serve.cli.app", *arguments], **popen_options)


def run_lineage(*arguments: str, **options: Unpack[PopenOptions]) -> tuple[int, str, str]:
    """Run the command; return its exit code, stdout and stderr."""
    process = start_lineage(*arguments, **options)
    out, err = process.communicate(timeout=60)
    return process.returncode, (out or b"").decode(), (err or b"").decode()


def run_on_terminal(*arguments: str) -> str:
    """Run the command on a terminal; return what it prints there."""
    screen, keyboard = os.openpty()
    try:
        process = start_lineage(
            *arguments, stdout=keyboard, env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
        )
        process.communicate(timeout=60)
        return os.read(screen, 1 << 16).decode()
    finally:
        os.close(keyboard)
        os.close(screen)
