"""Programs run as a person runs them: as whole processes, with their time and their memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.memory import Peak
from tests.repos import environment

PROJECT: Final = Path(__file__).resolve().parents[2]
LINEAGE: Final = (sys.executable, "-m", "serve.cli.app")


@dataclass(frozen=True, slots=True)
class Finished:
    """A program that came to its end: wall seconds from start to exit, peak memory of its session if watched."""

    seconds: float
    peak_bytes: int
    code: int
    out: str
    err: str


class Failed(AssertionError):
    """A program that was to succeed and did not."""


def lineage(home: Path, *arguments: str | Path, memory: bool = True) -> Finished:
    """Run `lineage` with its indexes under `home`."""
    return run((*LINEAGE, *map(str, arguments)), home=home, memory=memory)


def run(command: Sequence[str], *, home: Path, memory: bool = True) -> Finished:
    """Run a program to its end; it must succeed. Watching its memory costs a short run 8 %."""
    started = time.perf_counter()
    process = start(command, home=home)
    peak = Peak(process.pid)
    if memory:
        peak.start()
    out, err = process.communicate()
    seconds = time.perf_counter() - started
    peak.stop()
    if process.returncode:
        raise Failed(f"{' '.join(command)} ended with {process.returncode}:\n{err}")
    return Finished(seconds, peak.bytes, process.returncode, out, err)


def start(command: Sequence[str], *, home: Path, daemon: bool = False) -> subprocess.Popen[str]:
    """Start a program in a session of its own, from the project's folder and without the user's git settings."""
    return subprocess.Popen(
        command,
        cwd=PROJECT,
        env=surroundings(home, daemon=daemon),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def surroundings(home: Path, *, daemon: bool = False) -> dict[str, str]:
    """The environment of a program, which may ask the daemon or not.

    It keeps what Python compiles, as one that was installed does.
    """
    ours = {
        "LINEAGE_HOME": str(home),
        "LINEAGE_NO_DAEMON": "" if daemon else "1",
        "LINEAGE_LOG": "info",
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPATH": str(PROJECT),
    }
    return environment() | ours


def git(repository: Path, *arguments: str) -> str:
    """What git prints, decoded leniently: histories hold any bytes."""
    return git_bytes(repository, *arguments).decode("utf-8", errors="replace").removesuffix("\n")


def git_bytes(repository: Path, *arguments: str) -> bytes:
    """What git prints."""
    command = ["git", "-C", str(repository), *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(command)} ended with {done.returncode}:\n{os.fsdecode(done.stderr)}")
    return done.stdout
