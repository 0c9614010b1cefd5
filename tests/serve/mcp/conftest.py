"""A repository to ask about, and a home whose daemon ends with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repos import Repo
from tests.serve.commands import timeouts
from tests.serve.daemon.daemons import remote


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return timeouts(tmp_path / "repo")


@pytest.fixture
def place(home: Path) -> Iterator[Path]:
    """A home whose daemon, if the test has one, ends with the test."""
    yield home
    remote(home).stop()
