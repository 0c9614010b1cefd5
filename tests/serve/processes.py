"""The `lineage` command as a process of its own, and what it hears."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.serve.commands import ROOT


@contextmanager
def heard(number: signal.Signals) -> Iterator[None]:
    """Programs that are started meanwhile hear this signal, also where the tests run without a terminal and do not."""
    before = signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, before)


def start(*arguments: str, **options: object) -> subprocess.Popen[bytes]:
    """The command at work; options are those of `subprocess.Popen`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        [sys.executable, "-m", "serve.cli", *arguments],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment, **options},
    )


def lineage(*arguments: str, **options: object) -> tuple[int, str, str]:
    """Exit code, output and complaints."""
    process = start(*arguments, **options)
    out, err = process.communicate(timeout=60)
    return process.returncode, (out or b"").decode(), (err or b"").decode()


def on_terminal(*arguments: str) -> str:
    """What a person sees."""
    screen, keyboard = os.openpty()
    try:
        process = start(
            *arguments, stdout=keyboard, env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
        )
        process.communicate(timeout=60)
        return os.read(screen, 1 << 16).decode()
    finally:
        os.close(keyboard)
        os.close(screen)
