"""The programs never run code of the repository that they are started in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repos import Repo

# Named like our packages, and like modules that every Python process imports.
NAMES = (
    "pipeline/__init__.py",
    "serve/__init__.py",
    "stores/__init__.py",
    "signal.py",
    "joblib.py",
    "numpy.py",
)


@pytest.fixture
def marker_file(tmp_path: Path) -> Path:
    """File that the repository's code would create if it ran."""
    return tmp_path / "ran"


@pytest.fixture
def repo(tmp_path: Path, marker_file: Path) -> Repo:
    """Repository with files that are named like imported modules."""
    repo = Repo.create(tmp_path / "repo")
    for name in NAMES:
        repo.commit_file(name, f"open({str(marker_file)!r}, 'a').write({name!r})\n", f"Add {name}")
    return repo


def test_modules_of_the_repository_are_not_imported(repo: Repo, marker_file: Path, tmp_path: Path) -> None:
    """No process, workers included, imports a file of the repository that is named like a module."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    environment |= {"LINEAGE_HOME": str(tmp_path / "home"), "LINEAGE_NO_DAEMON": "1"}
    for arguments in (
        ("index", "--no-progress", "--workers", "2", "--commit-batch", "2"),
        ("query", "--query", "what was added"),
    ):
        result = subprocess.run(
            [Path(sys.executable).with_name("lineage"), *arguments],
            cwd=repo.path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
    assert not marker_file.exists()
