"""Repositories with our hooks, and a `lineage` on PATH: a stand-in that says how it was called, or the real one."""

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
from serve.index_status import of_path
from tests.repos import FIRST_DATE, Repo, environment

ROOT: Final = Path(__file__).parents[3]
# Says what it was called with, where, and which words to git it was left.
STAND_IN: Final = """#!/bin/sh
{{
  printf '%s|' "$@"; pwd
  env | grep '^GIT_'
  echo "nice $(nice)"; echo "home $LINEAGE_HOME"; sed 's/.*nice/group/' /proc/self/autogroup 2>/dev/null
}} >{said}.draft 2>&1
mv {said}.draft {said}
"""
# An option that means nothing to Python and is seen among a process's arguments.
MARK: Final = "started-from="
REAL: Final = """#!/bin/sh
exec env PYTHONPATH='{root}' '{python}' -P -X {mark}'{folder}' -m serve.cli.entry "$@"
"""
# A run gives way to everything else there is to do, and on a busy machine a test would wait for it in vain: these run
# it as any other program, in a session of its own as before.
AT_EASE: Final = {
    "nice": '#!/bin/sh\nshift 2\nexec "$@"\n',
    "setsid": '#!/bin/sh\nshift 4\nexec {real} "$@"\n',
}


def stand_in(folder: Path) -> Path:
    """A program called lineage; the file it says how it was called in."""
    said = folder / "said"
    _program(folder / "lineage", STAND_IN.format(said=f"'{said}'"))
    return said


def real(folder: Path) -> Path:
    """The program itself, called lineage; a hook starts it without letting others go first."""
    for name, text in AT_EASE.items():
        if found := shutil.which(name):
            _program(folder / name, text.format(real=found))
    return _program(
        folder / "lineage", REAL.format(root=ROOT, python=sys.executable, mark=MARK, folder=folder)
    )


def git(
    repo: Repo, *arguments: str, path: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """git as a person runs it, with hooks: `path` comes first on PATH, `more` are variables to add."""
    return subprocess.run(
        ["git", *arguments],
        cwd=repo.path,
        env=surroundings(path, date=repo.clock) | more,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )


def surroundings(path: Path | None, date: datetime = FIRST_DATE) -> dict[str, str]:
    """The environment, with a folder first on PATH."""
    first = [] if path is None else [str(path)]
    return environment(date=date) | {
        "GIT_EDITOR": "true",
        "PATH": os.pathsep.join([*first, os.environ["PATH"]]),
    }


def soon(true: Callable[[], bool], *, seconds: float = 60) -> bool:
    """Whether it comes true before too long."""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def indexed_head(repo: Repo, home: Path) -> bool:
    """Whether the index is where HEAD is."""
    return of_path(repo.path, home)[1].last_indexed_commit == open_repository(repo.path).head()


def running(folder: Path) -> list[int]:
    """Processes of the real program in this folder."""
    command = ["ps", "-axww", "-o", "pid=", "-o", "command="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [int(line.split()[0]) for line in listed if f"{MARK}{folder} " in line]


def _program(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file
