"""Helpers for tests of git hooks: a fake or the real `lineage` on PATH, and git with hooks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from pipeline.git.repository import open_repository
from serve.index_status import load_status_at_path
from tests.repos import FIRST_DATE, Repo, build_environment

ROOT: Final = Path(__file__).parents[3]
# Writes its arguments, directory, git variables and priority to a file.
FAKE_LINEAGE: Final = """#!/bin/sh
{{
  printf '%s|' "$@"; pwd
  env | grep '^GIT_'
  echo "nice $(nice)"; echo "home $LINEAGE_HOME"; sed 's/.*nice/group/' /proc/self/autogroup 2>/dev/null
}} >{call_file}.draft 2>&1
mv {call_file}.draft {call_file}
"""
# Option by which the tests find the process in the process list. Python ignores it.
PROCESS_MARKER: Final = "started-from="
REAL_LINEAGE: Final = """#!/bin/sh
exec env PYTHONPATH='{root}' '{python}' -P -X {marker}'{folder}' -m serve.cli.entry "$@"
"""
# Programs that run their command with normal priority: on a busy machine a test would wait too long for a
# low-priority run.
FAKE_PRIORITY_PROGRAMS: Final = {
    "nice": '#!/bin/sh\nshift 2\nexec "$@"\n',
    "setsid": '#!/bin/sh\nshift 4\nexec {real} "$@"\n',
}


def install_fake_lineage(folder: Path) -> Path:
    """Install a fake `lineage` program. Return the file that it writes when it is called."""
    call_file = folder / "call"
    _write_program(folder / "lineage", FAKE_LINEAGE.format(call_file=f"'{call_file}'"))
    return call_file


def install_real_lineage(folder: Path) -> Path:
    """Install the real program as `lineage`, and fake `nice` and `setsid` that keep its priority normal."""
    for name, text in FAKE_PRIORITY_PROGRAMS.items():
        if real_program := shutil.which(name):
            _write_program(folder / name, text.format(real=real_program))
    return _write_program(
        folder / "lineage",
        REAL_LINEAGE.format(root=ROOT, python=sys.executable, marker=PROCESS_MARKER, folder=folder),
    )


def run_git(
    repo: Repo, *arguments: str, path: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run git with hooks. `path` is put first on PATH; `variables` are added to the environment."""
    return subprocess.run(
        ["git", *arguments],
        cwd=repo.path,
        env=build_git_environment(path, date=repo.clock) | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )


def build_git_environment(path: Path | None, date: datetime = FIRST_DATE) -> dict[str, str]:
    """Return the environment of git, with a directory first on PATH."""
    path_prefix = [] if path is None else [str(path)]
    return build_environment(date=date) | {
        "GIT_EDITOR": "true",
        "PATH": os.pathsep.join([*path_prefix, os.environ["PATH"]]),
    }


def wait_until(condition: Callable[[], bool], *, seconds: float = 60) -> bool:
    """Wait until the condition holds. Return False if it does not hold within this many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def is_head_indexed(repo: Repo, home: Path) -> bool:
    """Return whether the index is at HEAD."""
    return (
        load_status_at_path(repo.path, home)[1].last_indexed_commit == open_repository(repo.path).read_head()
    )


def find_index_runs(folder: Path) -> list[int]:
    """Return the process ids of the real program in this directory."""
    command = ["ps", "-axww", "-o", "pid=", "-o", "ppid=", "-o", "command="]
    process_lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    parents = {
        int(line.split()[0]): int(line.split()[1])
        for line in process_lines
        if f"{PROCESS_MARKER}{folder} " in line
    }
    # A child has the command of its parent until it executes its own program.
    return [process_id for process_id, parent in parents.items() if parent not in parents]


def _write_program(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file
