"""The `lineage` command as a process of its own, and what it hears."""

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
def heard(number: signal.Signals) -> Iterator[None]:
    """Programs that are started meanwhile hear this signal, also where the tests run without a terminal and do not."""
    before = signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, before)


class Options(TypedDict, total=False):
    """Those of `subprocess.Popen`."""

    cwd: Path
    env: Mapping[str, str]
    stdin: int | IO[Any]
    stdout: int | IO[Any]
    stderr: int | IO[Any]


def start(*arguments: str, **options: Unpack[Options]) -> subprocess.Popen[bytes]:
    """The command at work."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    asked: Options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment, **options}
    return subprocess.Popen([sys.executable, "-m", "serve.cli.app", *arguments], **asked)


def lineage(*arguments: str, **options: Unpack[Options]) -> tuple[int, str, str]:
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
