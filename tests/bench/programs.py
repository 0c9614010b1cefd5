"""Programs run as separate processes, with wall time and peak memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.memory import PeakMemory
from tests.repos import build_environment

PROJECT: Final = Path(__file__).resolve().parents[2]
LINEAGE: Final = (sys.executable, "-m", "serve.cli.app")


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """Result of a program: wall seconds from start to exit, peak memory of its session if measured, output."""

    seconds: float
    peak_bytes: int
    code: int
    out: str
    err: str


class ProgramFailed(AssertionError):
    """A program exited with an error."""


def run_lineage(home: Path, *arguments: str | Path, memory: bool = True) -> ProgramResult:
    """Run `lineage` with LINEAGE_HOME set to `home`."""
    return run_program((*LINEAGE, *map(str, arguments)), home=home, memory=memory)


def run_program(command: Sequence[str], *, home: Path, memory: bool = True) -> ProgramResult:
    """Run a program that must succeed. Measuring memory adds 8 % to the time of a short run."""
    start_time = time.perf_counter()
    process = start_program(command, home=home)
    peak = PeakMemory(process.pid)
    if memory:
        peak.start()
    out, err = process.communicate()
    seconds = time.perf_counter() - start_time
    peak.stop()
    if process.returncode:
        raise ProgramFailed(f"{' '.join(command)} exited with {process.returncode}:\n{err}")
    return ProgramResult(seconds, peak.bytes, process.returncode, out, err)


def start_program(command: Sequence[str], *, home: Path, daemon: bool = False) -> subprocess.Popen[str]:
    """Start a program in a new session, in the project directory and without the user's git settings."""
    return subprocess.Popen(
        command,
        cwd=PROJECT,
        env=build_program_environment(home, daemon=daemon),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def build_program_environment(home: Path, *, daemon: bool = False) -> dict[str, str]:
    """Return the environment of a program, with or without the daemon.

    Python writes bytecode, as for an installed program.
    """
    overrides = {
        "LINEAGE_HOME": str(home),
        "LINEAGE_NO_DAEMON": "" if daemon else "1",
        "LINEAGE_LOG": "info",
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPATH": str(PROJECT),
    }
    return build_environment() | overrides


def run_git(repository: Path, *arguments: str) -> str:
    """Return git's output, decoded with replacement of invalid bytes."""
    return run_git_bytes(repository, *arguments).decode("utf-8", errors="replace").removesuffix("\n")


def run_git_bytes(repository: Path, *arguments: str) -> bytes:
    """Return git's output."""
    command = ["git", "-C", str(repository), *arguments]
    result = subprocess.run(command, env=build_environment(), capture_output=True, check=False)
    if result.returncode:
        raise ProgramFailed(
            f"{' '.join(command)} exited with {result.returncode}:\n{os.fsdecode(result.stderr)}"
        )
    return result.stdout
