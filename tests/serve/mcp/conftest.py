"""A repository to ask about, and a home whose daemon ends with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repos import Repo
from tests.serve.daemon.daemons import remote


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "repo")
    repo.commit_file("src/tcp.py", "def connect():\n    timeout()\n", "Add a timeout to connect")
    repo.commit_file("docs/ü.md", "# timeout ü\n", "Describe the timeout ✓")
    return repo


@pytest.fixture
def place(home: Path) -> Iterator[Path]:
    """A home whose daemon, if the test has one, ends with the test."""
    yield home
    remote(home).stop()
