"""Standing in a repository, the programs run none of its code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repos import Repo

# Named like folders of ours, and like modules that every Python process needs.
NAMES = (
    "pipeline/__init__.py",
    "serve/__init__.py",
    "stores/__init__.py",
    "signal.py",
    "joblib.py",
    "numpy.py",
)


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    return tmp_path / "ran"


@pytest.fixture
def repo(tmp_path: Path, ran: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    for name in NAMES:
        repo.commit_file(name, f"open({str(ran)!r}, 'a').write({name!r})\n", f"Add {name}")
    return repo


def test_modules_of_the_repository_are_not_imported(repo: Repo, ran: Path, tmp_path: Path) -> None:
    """Workers included: what is called like a module of ours, or of a library's, stays text."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    environment |= {"LINEAGE_HOME": str(tmp_path / "home"), "LINEAGE_NO_DAEMON": "1"}
    for arguments in (
        ("index", "--no-progress", "--workers", "2", "--commit-batch", "2"),
        ("query", "--query", "what was added"),
    ):
        done = subprocess.run(
            [Path(sys.executable).with_name("lineage"), *arguments],
            cwd=repo.path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert not ran.exists()
